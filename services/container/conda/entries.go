package conda

import (
	"fmt"
	"slices"
	"strings"

	"slipway.dev/services/conda/envfile"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// maxSpec is the maximum length of a specification in a request, in characters.
const maxSpec = 500

// addEntries sets the environment from a list of packages, or the lock from its single URL.
func (r *Recipe) addEntries(entries, channels []string) error {
	if len(entries) == 1 && isAddress(entries[0]) && spec.IsWebURL(entries[0]) {
		r.LockURL = entries[0]
		r.Environment.Channels = channels
		return nil
	}
	var specs, pip []envfile.Requirement
	hasPip := false
	for i, entry := range entries {
		item, err := readEntry(entry)
		if err != nil {
			return fault.In(fmt.Sprintf("packages.entries[%d]", i), err)
		}
		if item.Pip {
			pip = append(pip, item)
			continue
		}
		hasPip = hasPip || nameOf(item.Text) == "pip"
		specs = append(specs, item)
	}
	if len(pip) > 0 && !hasPip {
		specs = append(specs, envfile.Requirement{Text: "pip"})
	}
	r.Environment = envfile.New(channels, slices.Concat(specs, pip))
	return nil
}

// isAddress reports whether an entry is meant as the address of a lock, whether valid or
// not.
func isAddress(entry string) bool {
	return strings.Contains(entry, "://") && !strings.Contains(entry, "::") && !strings.HasPrefix(entry, "pip:")
}

// readEntry parses a Conda package, or a pip requirement after `pip:`.
func readEntry(entry string) (envfile.Requirement, error) {
	if isAddress(entry) {
		return envfile.Requirement{}, fault.Invalid.Newf("an http(s) URL of an explicit lock, without a login, must be the only entry")
	}
	requirement, isPip := strings.CutPrefix(entry, "pip:")
	if !isPip {
		return envfile.Requirement{Text: strings.TrimSpace(entry)}, checkSpec(entry)
	}
	if !isRequirement(requirement) {
		return envfile.Requirement{}, fault.Invalid.Newf("%q must be pip: and a package, e.g. pip:numpy==2.0", fault.Quote(entry))
	}
	return envfile.Requirement{Text: requirement, Pip: true}, nil
}

// checkSpec checks that a specification is safe to write to files that other tools read: it
// may only name a package of a channel on the web. Otherwise it returns fault.Invalid, to
// which the caller adds the field.
func checkSpec(text string) error {
	bad := func(why string) error {
		return fault.Invalid.Newf("%q is not a Conda package specification: %s", fault.Quote(text), why)
	}
	if text == "" || len(text) > maxSpec || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return bad("it must be one line of ASCII, and not empty")
	}
	if strings.ContainsAny(text, "#$`\\{};&") {
		return bad("it must not contain #, $, `, \\, {, }, ; or &")
	}
	m, err := spec.ParseMatchSpec(text)
	if e, ok := fault.As(err); ok {
		return fault.Invalid.New(e.Public, e.Cause)
	}
	switch {
	case m.Channel != "" && !spec.IsChannel(m.Channel):
		return bad("the part before :: is not a channel")
	case m.URL != "" || m.FileName != "":
		return bad("a package must be given by name, not by a file or URL")
	}
	return nil
}

// isRequirement reports whether s can be a pip requirement, without options and line
// breaks. pip itself parses the rest.
func isRequirement(s string) bool {
	return s != "" && len(s) <= maxSpec && strings.ContainsRune(wordLetters, rune(s[0])) && s[0] != '-' && s[0] != '.' &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
