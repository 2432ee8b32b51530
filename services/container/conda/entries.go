package conda

import (
	"fmt"
	"strings"

	"slipway.dev/services/internal/fault"
)

// addEntries makes an environment of a list of packages, or takes the one URL of a
// lock.
func (r *Recipe) addEntries(entries, channels []string) error {
	r.Environment.Channels = channels
	if len(entries) == 1 && isAddress(entries[0]) && isWebURL(entries[0]) {
		r.LockURL = entries[0]
		return nil
	}
	var specs, pip []MatchSpec
	hasPip := false
	for i, entry := range entries {
		spec, isPip, err := readEntry(entry)
		if err != nil {
			return fault.In(fmt.Sprintf("packages.entries[%d]", i), err)
		}
		if isPip {
			pip = append(pip, spec)
			continue
		}
		hasPip = hasPip || spec.Name == "pip"
		specs = append(specs, spec)
	}
	if len(pip) > 0 && !hasPip {
		specs = append(specs, takeApart("pip"))
	}
	r.Environment.text = environmentFile(channels, texts(specs), texts(pip))
	r.Environment.items = append(specs, pip...)
	return nil
}

// isAddress says whether an entry is the address of a lock, well-formed or not.
func isAddress(entry string) bool {
	return strings.Contains(entry, "://") && !strings.Contains(entry, "::") && !strings.HasPrefix(entry, "pip:")
}

// readEntry reads a Conda package, or `pip:` and one of pip's.
func readEntry(entry string) (spec MatchSpec, isPip bool, err error) {
	if isAddress(entry) {
		return spec, false, fault.Invalid.Newf("an http(s) URL of an explicit lock, without a login, must be the only entry")
	}
	requirement, isPip := strings.CutPrefix(entry, "pip:")
	if !isPip {
		spec, err = ParseMatchSpec(entry)
		return spec, false, err
	}
	if !isRequirement(requirement) {
		return spec, true, fault.Invalid.Newf("%q must be pip: and a package, e.g. pip:numpy==2.0", clip(entry))
	}
	return takeApart(requirement), true, nil
}

// isRequirement wants a package as pip knows it: no option, no second line. pip
// itself reads the rest.
func isRequirement(s string) bool {
	return s != "" && len(s) <= maxSpec && isPackageName(s[:1]) &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

func texts(specs []MatchSpec) []string {
	all := make([]string, 0, len(specs))
	for _, s := range specs {
		all = append(all, s.text)
	}
	return all
}

// environmentFile writes one.
func environmentFile(channels, specs, pip []string) string {
	var out strings.Builder
	writeList(&out, "channels", channels)
	writeList(&out, "dependencies", specs)
	if len(pip) > 0 {
		out.WriteString("  - pip:\n")
		for _, p := range pip {
			fmt.Fprintf(&out, "      - %q\n", p)
		}
	}
	return out.String()
}
