package conda

import (
	"cmp"
	"slices"
	"strings"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/envfile"
)

// The strategies for naming images, of gateway/contract/container-service.md#naming.
const (
	NameNone        = "none"
	NameTagPrefix   = "tagPrefix" // the default
	NameImageSuffix = "imageSuffix"
)

// maxPrefix is the maximum length of the readable part of a name, in characters.
const maxPrefix = 80

// A pkg is an item of an environment in an image name.
type pkg struct{ name, version string }

func (p pkg) String() string {
	if p.version == "" {
		return p.name
	}
	return p.name + "-" + p.version
}

// A Naming determines the readable part of the name of an environment's image. The zero
// value has none.
type Naming struct{ pkgs []pkg }

// In returns the naming of the same items with their locked versions, in alphabetical
// order. A name that the environment sets is unchanged.
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

// Naming returns the naming of the environment: by its own name, or by its items.
func (r Recipe) Naming() Naming {
	if len(r.named.pkgs) > 0 {
		return r.named
	}
	return namingOf(r.Environment)
}

func namingOf(e envfile.Environment) Naming {
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

// readPkg parses the name and the version of a specification without its channel and
// brackets: `=`, `<` and `>` separate name, version and the rest. ok is false for URLs and
// specifications without a name.
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

// ImageName returns where the image is stored in a repository: the path after the
// repository ("" for none, otherwise with its slash), and the tag.
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

// wordLetters are the characters that a tag may contain.
const wordLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

// letters removes characters that a tag may not contain, and punctuation at both ends.
func letters(s string) string {
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune(wordLetters, r) {
			return r
		}
		return -1
	}, s)
	return strings.Trim(s, "_.-")
}

// commonVersion returns the version that all items have; "" if they differ.
func commonVersion(pkgs []pkg) string {
	for _, p := range pkgs {
		if p.version != pkgs[0].version {
			return ""
		}
	}
	return pkgs[0].version[:min(len(pkgs[0].version), maxPrefix)]
}

// join joins the distinct texts of the items. A long list is reduced to the first four, and
// a long text is cut after a complete item.
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

// pathComponent converts s to a component of a repository path: between letters and digits
// it may have dashes, one dot, or one or two underscores, but no mixture.
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

// Words returns the name and the tag of an image whose path identifies its content: the names of the first
// items, and their versions.
func (n Naming) Words() (name, tag string) {
	if len(n.pkgs) > 0 {
		name = pathComponent(join(n.pkgs, func(p pkg) string { return p.name }))
		tag = commonVersion(n.pkgs)
	}
	if len(n.pkgs) > 1 && tag == "" && !slices.ContainsFunc(n.pkgs, func(p pkg) bool { return p.version == "" }) {
		tag = join(n.pkgs, func(p pkg) string { return p.version })
	}
	return cmp.Or(name, "environment"), cmp.Or(tag, "latest")
}

// NameOf returns the name of the package of a specification; ok is false for a URL.
func NameOf(spec string) (name string, ok bool) {
	p, ok := readPkg(spec)
	return p.name, ok
}

// ItemNaming returns the naming of the environment by its items, without its own name.
func (r Recipe) ItemNaming() Naming {
	if len(r.named.pkgs) > 0 {
		return r.named
	}
	return namingOf(envfile.Environment{Requirements: r.Environment.Requirements})
}

// NamingOf returns the naming of packages by name.
func NamingOf(names ...string) (n Naming) {
	for _, name := range names {
		n.pkgs = append(n.pkgs, pkg{name: letters(strings.ToLower(name))})
	}
	return n
}

// IsZero reports whether the naming has no readable part.
func (n Naming) IsZero() bool { return len(n.pkgs) == 0 }
