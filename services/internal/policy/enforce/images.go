package enforce

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/policy"
)

// Workers get the rules about images with each build, so that they need neither the settings nor the
// files of keys, and always apply the rules of the service that the build was requested from.

// ImageRules returns the rules about images; nil if there are none. read returns the content of a file
// with public keys.
func ImageRules(s policy.Settings, mode Mode, read func(path string) ([]byte, error)) (*buildv1.ImageRules, error) {
	if len(s.Registries)+len(s.Signatures) == 0 {
		return nil, nil //nolint:nilnil // rules are optional
	}
	out := &buildv1.ImageRules{Mode: string(mode), Registries: s.Registries, Defaults: s.Defaults}
	for _, text := range s.Signatures {
		where, path, _ := strings.Cut(text, "=")
		keys, err := read(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", policy.Signatures, err)
		}
		out.Signatures = append(out.Signatures, &buildv1.SignedPlace{Place: where, Keys: keys})
	}
	return out, nil
}

// ForImages returns an Enforcer that applies the rules of a build, with the caches and metrics of e. It
// returns nil, which permits everything, if the build has none.
func (e *Enforcer) ForImages(r *buildv1.ImageRules) (*Enforcer, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // rules are optional
	}
	if e == nil {
		return nil, errors.New("the build has rules, which this worker cannot apply")
	}
	mode := Mode(r.GetMode())
	if mode != Enforce && mode != Warn {
		return nil, fmt.Errorf("the build has rules with the unknown mode %q", r.GetMode())
	}
	s := policy.Settings{Registries: r.GetRegistries(), Defaults: r.GetDefaults()}
	for i, place := range r.GetSignatures() {
		s.Signatures = append(s.Signatures, place.GetPlace()+"="+strconv.Itoa(i))
	}
	rules, err := policy.New(s, func(path string) ([]byte, error) {
		i, err := strconv.Atoi(path)
		if err != nil {
			return nil, err
		}
		return r.GetSignatures()[i].GetKeys(), nil
	})
	if err != nil {
		return nil, fmt.Errorf("the build has malformed rules: %w", err)
	}
	out := *e
	out.o.Rules, out.o.Mode = rules, mode
	return &out, nil
}
