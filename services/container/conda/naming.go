package conda

import (
	"slices"
	"strings"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	nouns "slipway.dev/services/internal/conda"
)

// The strategies for naming images, of gateway/contract/container-service.md#naming.
const (
	NameNone        = "none"
	NameTagPrefix   = "tagPrefix" // the default
	NameImageSuffix = "imageSuffix"
)

// maxPrefix is how long the readable part of a name may be, in characters.
const maxPrefix = 80

// pkg is an item of an environment, as names of images show it.
type pkg struct{ name, version string }

func (p pkg) String() string {
	if p.version == "" {
		return p.name
	}
	return p.name + "-" + p.version
}

// Naming is what the image of an environment is named after. The zero value gives no
// readable name.
type Naming struct{ pkgs []pkg }

// In is the naming of the same items as a lock has them: in alphabetical order, and
// each in the version that it got. A name that the environment gives itself stays.
func (n Naming) In(lock []*condav1.LockedPackage) Naming {
	versions := map[string]string{}
	for _, p := range lock {
		versions[p.GetName()] = letters(p.GetVersion())
	}
	var out Naming
	for _, p := range n.pkgs {
		v, locked := versions[p.name]
		if !locked {
			return n
		}
		if p.version = v; !slices.Contains(out.pkgs, p) {
			out.pkgs = append(out.pkgs, p)
		}
	}
	slices.SortFunc(out.pkgs, func(a, b pkg) int { return strings.Compare(a.name, b.name) })
	return out
}

// Naming is that of the environment: the name that it gives itself, or its items.
func (r Recipe) Naming() Naming { return namingOf(r.Environment) }

func namingOf(e nouns.Environment) Naming {
	if name := letters(strings.ToLower(e.Name)); name != "" {
		return Naming{[]pkg{{name: name}}}
	}
	var n Naming
	for _, item := range e.Requirements {
		p, ok := readPkg(item.Text)
		if ok && !slices.Contains(n.pkgs, p) {
			n.pkgs = append(n.pkgs, p)
		}
	}
	return n
}

// readPkg reads the name and the version from what stands between the channel and the
// brackets of a specification: `=`, `<` and `>` part name, version and the rest. Not ok
// for URLs and what has no name.
func readPkg(text string) (pkg, bool) {
	if strings.Contains(text, "://") {
		return pkg{}, false
	}
	body := text
	if _, after, ok := strings.Cut(text, "::"); ok {
		body = after
	}
	body, _, _ = strings.Cut(body, "[")
	pieces := strings.FieldsFunc(body, func(r rune) bool { return strings.ContainsRune("=<>", r) })
	if len(pieces) == 0 {
		return pkg{}, false
	}
	p := pkg{name: letters(strings.ToLower(pieces[0]))}
	if len(pieces) > 1 {
		p.version = letters(pieces[1])
	}
	return p, p.name != ""
}

// ImageName says where in a repository the image is put: with what path behind the
// repository ("" for none, else with its slash), and which tag.
func (n Naming) ImageName(strategy, id string) (path, tag string) {
	switch {
	case strategy == NameNone || len(n.pkgs) == 0:
		return "", id
	case strategy == NameImageSuffix:
		name := pathComponent(join(n.pkgs, func(p pkg) string { return p.name }))
		if name == "" {
			return "", id
		}
		if v := commonVersion(n.pkgs); v != "" {
			return "/" + name, v + "--" + id
		}
		return "/" + name, id
	}
	prefix := join(n.pkgs, pkg.String)
	if prefix == "" {
		return "", id
	}
	return "", prefix + "--" + id
}

// wordLetters are those that may stand in a tag.
const wordLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

// letters drops what cannot stand in a tag, and punctuation at both ends.
func letters(s string) string {
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune(wordLetters, r) {
			return r
		}
		return -1
	}, s)
	return strings.Trim(s, "_.-")
}

// commonVersion is the one that all items have; "" when they do not.
func commonVersion(pkgs []pkg) string {
	for _, p := range pkgs {
		if p.version != pkgs[0].version {
			return ""
		}
	}
	return pkgs[0].version[:min(len(pkgs[0].version), maxPrefix)]
}

// join puts the texts of the items together, each once. Many are pruned to the
// first four; what is too long is cut behind a whole piece.
func join(pkgs []pkg, text func(pkg) string) string {
	var pieces []string
	for _, p := range pkgs {
		if s := text(p); !slices.Contains(pieces, s) {
			pieces = append(pieces, s)
		}
	}
	if len(pieces) > 5 {
		pieces = append(pieces[:4:4], "pruned")
	}
	out := pieces[0][:min(len(pieces[0]), maxPrefix)]
	for _, s := range pieces[1:] {
		if len(out)+1+len(s) > maxPrefix {
			break
		}
		out += "_" + s
	}
	return strings.Trim(out, "_.-")
}

// pathComponent makes a part of a repository's path: between letters and digits
// it may hold dashes, one dot, or one or two underscores, and nothing mixed.
func pathComponent(s string) string {
	var out strings.Builder
	for s != "" {
		n := len(s) - len(strings.TrimLeft(s, "_.-"))
		switch sep := s[:n]; {
		case sep == "", sep == ".", sep == "_", sep == "__", strings.Trim(sep, "-") == "":
			out.WriteString(sep)
		default:
			out.WriteByte('_')
		}
		s = s[n:]
		n = len(s) - len(strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyz0123456789"))
		out.WriteString(s[:n])
		s = s[n:]
	}
	return out.String()
}
