// Package policy evaluates the rules of the operator about what the service may serve and build:
//
//   - policy_registries: the registries that images may be read from
//   - policy_channels: the Conda channels that packages may be installed from
//   - conda_min_age: how old Conda packages must be
//   - policy_licenses_refused: licences that Conda packages must not have
//   - policy_signatures: the keys that must have signed images
//
// Rules are parsed once by New, and report violations. The package does no I/O and does not decide
// what a violation causes: package enforce applies policy_mode, and verifies signatures. The container
// service evaluates the rules when an image is requested (services/container/policy.go). The registry
// and the builder evaluate them again for what is only known later: the registry for tags that have
// moved since the request, and the builder for images that only a base image names. See
// docs/operate/policy.md.
package policy

import (
	"crypto/ecdsa"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// A Rule is the name of the setting that contains a rule.
type Rule string

// The rules.
const (
	Registries Rule = "policy_registries"
	Channels   Rule = "policy_channels"
	Age        Rule = "conda_min_age"
	Licenses   Rule = "policy_licenses_refused"
	Signatures Rule = "policy_signatures"
)

// All returns all rules.
func All() []Rule { return []Rule{Registries, Channels, Age, Licenses, Signatures} }

// Code returns the code of errors about a violation.
func (r Rule) Code() fault.Code {
	switch r {
	case Channels:
		return fault.PolicyChannel
	case Age:
		return fault.PolicyAge
	case Licenses:
		return fault.PolicyLicense
	case Signatures:
		return fault.PolicySignature
	case Registries:
	}
	return fault.PolicyRegistry
}

// A Violation is a rule that an image or a package does not satisfy.
type Violation struct {
	Rule Rule
	// Text is a sentence for the caller that names the rule.
	Text string
}

// Settings are the values of the settings. The zero value has no rules.
type Settings struct {
	Registries, Channels, Licenses, Signatures []string
	// MinAge is the minimum age of Conda packages; 0 means no minimum.
	MinAge time.Duration
	// Defaults are the images that the operator chose as defaults. The rules do not apply to their
	// repositories.
	Defaults []string
}

// Rules are the parsed rules. The zero value permits everything. It is immutable, and safe for
// concurrent use.
type Rules struct {
	registries []place
	channels   []string
	licenses   []refusedLicense
	signatures []signed
	minAge     time.Duration
	defaults   []place
}

// A signed is a place whose images must be signed.
type signed struct {
	place
	keys []*ecdsa.PublicKey
}

// A place is a registry, or a path in it. The zero value is every registry.
type place struct{ host, path string }

func (p place) String() string {
	switch {
	case p == place{}:
		return "*"
	case p.path == "":
		return p.host
	}
	return p.host + "/" + p.path
}

// host returns the canonical form of a registry's host.
func host(s string) string {
	s = strings.TrimSuffix(strings.ToLower(s), ":443")
	return oci.CanonicalHost(strings.TrimSuffix(s, "."))
}

// contains reports whether an image is in the place. Paths are compared by segments.
func (p place) contains(image oci.Reference) bool {
	if p == (place{}) {
		return true
	}
	return host(image.Registry) == p.host && p.covers(image)
}

// covers reports whether the path of an image is in the place.
func (p place) covers(image oci.Reference) bool {
	path := image.Repository
	if p.host != "docker.io" {
		return p.path == "" || strings.HasPrefix(path+"/", p.path+"/")
	}
	if !strings.Contains(path, "/") {
		path = "library/" + path
	}
	isShort := !strings.Contains(p.path, "/") // docker.io/ubuntu is also the short name of docker.io/library/ubuntu
	return p.path == "" || strings.HasPrefix(path+"/", p.path+"/") || isShort && path == "library/"+p.path
}

// mustContain is contains for rules that deny access: it accepts all spellings of a host.
func (p place) mustContain(image oci.Reference) bool {
	return p == place{} || oci.SameHost(host(image.Registry), p.host) && p.covers(image)
}

// parsePlace parses a registry such as "quay.io", or a path in it such as "docker.io/library".
func parsePlace(text string) (place, error) {
	name, path, hasPath := strings.Cut(text, "/")
	isHost := strings.ContainsAny(name, ".:") || name == "localhost"
	if !isHost || strings.ContainsAny(name, "*@ ") || hasPath && path == "" || len(text) > limits.PolicyEntry {
		return place{}, fmt.Errorf("%q must be a registry such as quay.io, or a path in it such as docker.io/library", fault.Quote(text))
	}
	check := name + "/x"
	if hasPath {
		check = text
	}
	ref, err := oci.ParseReference(check)
	if err != nil || hasPath && (ref.Digest != "" || ref.Tag != "latest" || strings.HasSuffix(text, ":latest")) {
		return place{}, fmt.Errorf("%q must be a registry such as quay.io, or a path in it such as docker.io/library, without a tag", fault.Quote(text))
	}
	return place{host(name), path}, nil
}

// Parse parses the settings without reading files, so that signatures cannot be verified with the
// result. Every error begins with the setting.
func Parse(s Settings) (*Rules, error) {
	return New(s, func(string) ([]byte, error) { return nil, nil })
}

// New parses the settings. read returns the content of a file with public keys. Every error begins
// with the setting.
func New(s Settings, read func(path string) ([]byte, error)) (*Rules, error) {
	r := &Rules{minAge: s.MinAge}
	for rule, entries := range map[Rule][]string{Registries: s.Registries, Channels: s.Channels, Licenses: s.Licenses, Signatures: s.Signatures} {
		if len(entries) > limits.PolicyEntries {
			return nil, fmt.Errorf("%s has %d entries, and may have %d", rule, len(entries), limits.PolicyEntries)
		}
	}
	for _, text := range s.Registries {
		p, err := parsePlace(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Registries, err)
		}
		r.registries = append(r.registries, p)
	}
	for _, text := range s.Channels {
		if err := checkChannel(text); err != nil {
			return nil, fmt.Errorf("%s: %w", Channels, err)
		}
		r.channels = append(r.channels, strings.TrimRight(strings.TrimSpace(text), "/"))
	}
	for _, text := range s.Licenses {
		l, err := parseRefused(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Licenses, err)
		}
		r.licenses = append(r.licenses, l)
	}
	for _, text := range s.Signatures {
		if err := r.addSigned(text, read); err != nil {
			return nil, fmt.Errorf("%s: %w", Signatures, err)
		}
	}
	for _, name := range s.Defaults {
		ref, err := oci.ParseReference(name)
		if err != nil {
			return nil, err
		}
		r.defaults = append(r.defaults, place{host(ref.Registry), ref.Repository})
	}
	return r, nil
}

// addSigned parses an entry PLACE=FILE. Several entries for one place add up.
func (r *Rules) addSigned(text string, read func(string) ([]byte, error)) error {
	where, path, ok := strings.Cut(text, "=")
	if !ok || path == "" {
		return fmt.Errorf("%q must be PLACE=FILE, e.g. quay.io/lab=/etc/slipway/lab.pub, or *=FILE for all images", fault.Quote(text))
	}
	var p place
	if where != "*" {
		var err error
		if p, err = parsePlace(where); err != nil {
			return err
		}
	}
	raw, err := read(path)
	if err != nil {
		return err
	}
	var keys []*ecdsa.PublicKey
	if raw != nil {
		if keys, err = attest.ParsePublicKeys(raw); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	at := slices.IndexFunc(r.signatures, func(s signed) bool { return s.place == p })
	if at < 0 {
		r.signatures = append(r.signatures, signed{place: p})
		at = len(r.signatures) - 1
	}
	if r.signatures[at].keys = append(r.signatures[at].keys, keys...); len(r.signatures[at].keys) > limits.SigningKeys {
		return fmt.Errorf("%s has more than %d keys", p, limits.SigningKeys)
	}
	return nil
}

// SignatureFiles returns the files that entries of policy_signatures name.
func SignatureFiles(entries []string) []string {
	var out []string
	for _, text := range entries {
		if _, path, ok := strings.Cut(text, "="); ok && path != "" && !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	return out
}

// isDefault reports whether an image is in the repository of a default image.
func (r *Rules) isDefault(image oci.Reference) bool {
	return slices.ContainsFunc(r.defaults, func(p place) bool { return host(image.Registry) == p.host && image.Repository == p.path })
}

// Image returns the violation of policy_registries by an image or a repository, or nil. field is the
// field of the request that names the image; "" for none.
func (r *Rules) Image(field string, image oci.Reference) []Violation {
	if len(r.registries) == 0 || r.isDefault(image) || slices.ContainsFunc(r.registries, func(p place) bool { return p.contains(image) }) {
		return nil
	}
	return []Violation{{Registries, prefix(field) + fmt.Sprintf("The registry of %s is not allowed here (%s): allowed are %s. Use an image of these, or ask the operator to allow the registry",
		image.Registry+"/"+image.Repository, Registries, shown(r.registries))}}
}

// RequiresSignature returns the keys of which one must have signed an image, and the entry of
// policy_signatures that requires it. The entry with the longest path applies. keys is nil if no entry
// applies.
func (r *Rules) RequiresSignature(image oci.Reference) (keys []*ecdsa.PublicKey, entry string) {
	if r.isDefault(image) {
		return nil, ""
	}
	var best *signed
	for i, s := range r.signatures {
		if s.mustContain(image) && (best == nil || best.place == place{} || len(s.path) > len(best.path)) {
			best = &r.signatures[i]
		}
	}
	if best == nil {
		return nil, ""
	}
	return best.keys, best.String()
}

// Unsigned returns the violation of an image that must be signed, and why its signature is not
// accepted.
func Unsigned(field string, image oci.Reference, entry, why string) []Violation {
	return []Violation{{Signatures, prefix(field) + fmt.Sprintf("%s must be signed with a key of this server's operator (%s: %s), and %s. Sign it with `cosign sign --key`, or use a signed image", image, Signatures, entry, why)}}
}

func prefix(field string) string {
	if field == "" {
		return ""
	}
	return field + ": "
}

// shown returns the first entries of a list as text.
func shown[T any](list []T) string {
	var out []string
	for i, v := range list {
		if i == limits.PolicyShown {
			return strings.Join(out, ", ") + fmt.Sprintf(" and %d more", len(list)-i)
		}
		out = append(out, fmt.Sprint(v))
	}
	return strings.Join(out, ", ")
}
