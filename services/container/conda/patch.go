package conda

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/conda/envfile"
	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Below returns those of several versions that are below a limit in the order of Conda's versions,
// and those that cannot be compared. It returns fault.Invalid for an invalid limit.
func Below(versions []string, limit string) ([]string, error) {
	most, err := spec.ParseVersion(limit)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(versions), func(text string) bool {
		v, err := spec.ParseVersion(text)
		return err == nil && v.Compare(most) >= 0
	}), nil
}

// PatchedNames returns the names of the packages in specifications such as openssl=3.0.14. It
// returns fault.Invalid for one that is not a name with a version.
func PatchedNames(specs []string) (names []string, err error) {
	for _, text := range specs {
		m, err := parsePatch(text)
		if err != nil {
			return nil, err
		}
		if slices.Contains(names, m.Name) {
			return nil, fault.Invalid.Newf("%s is listed twice; put its bounds into one specification, e.g. 'openssl>=3.0.14,<4'", fault.Quote(m.Name))
		}
		names = append(names, m.Name)
	}
	return names, nil
}

func parsePatch(text string) (spec.MatchSpec, error) {
	if len(text) > limits.PackageField {
		return spec.MatchSpec{}, fault.Invalid.Newf("%s has %d characters, and may have %d", fault.Quote(text[:20]), len(text), limits.PackageField)
	}
	if strings.Contains(text, "://") || strings.HasPrefix(text, "pip:") {
		return spec.MatchSpec{}, fault.Invalid.Newf("%s is not the name of a Conda package, as in openssl=3.0.14", fault.Quote(text))
	}
	m, err := spec.ParseMatchSpec(text)
	if err == nil && (m.Name == "" || strings.HasPrefix(m.Name, "__")) {
		err = fault.Invalid.Newf("%s does not name a package, as openssl=3.0.14 does", fault.Quote(text))
	}
	return m, err
}

// A Locks is the locks of the platforms of an image.
type Locks []*condav1.SolvePackagesResponse

// records returns the records of a platform's lock.
func records(l *condav1.SolvePackagesResponse) (out []spec.Record, err error) {
	if len(l.GetRecords()) != 1 || len(l.GetSubdirs()) != 1 {
		return nil, fmt.Errorf("a lock has %d platforms, not one", len(l.GetRecords()))
	}
	err = json.Unmarshal([]byte(l.GetRecords()[0]), &out)
	return out, err
}

// Text returns the locks as one file, for an update.
func (all Locks) Text() (string, error) {
	file := lockfile.Lock{Channels: all[0].GetChannels(), ChannelURLs: all[0].GetChannelUrls()}
	for _, l := range all {
		of, err := records(l)
		if err != nil {
			return "", err
		}
		p := lockfile.PlatformLock{Platform: l.GetSubdirs()[0]}
		p.Packages, p.PyPI = spec.Split(of)
		file.Platforms = append(file.Platforms, p)
	}
	return file.Text(lockfile.FormatPixi)
}

// Missing returns the first of several packages that a platform lacks, and the platform; "" if all
// platforms have all packages.
func (all Locks) Missing(names []string) (name, platform string, err error) {
	for _, l := range all {
		of, err := records(l)
		if err != nil {
			return "", "", err
		}
		for _, n := range names {
			if !slices.ContainsFunc(of, func(r spec.Record) bool { return r.Name == n && !r.IsWheel() }) {
				return n, l.GetSubdirs()[0], nil
			}
		}
	}
	return "", "", nil
}

// Retain replaces the records of packages that did not change in a new lock for all platforms by
// those of the old locks. A channel may have corrected their metadata since, which their layers
// contain: only the layers of changed packages may differ.
func (all Locks) Retain(now *condav1.SolvePackagesResponse) error {
	for i, subdir := range now.GetSubdirs() {
		at := slices.IndexFunc(all, func(l *condav1.SolvePackagesResponse) bool { return slices.Contains(l.GetSubdirs(), subdir) })
		if at < 0 {
			return fmt.Errorf("the old lock does not have the platform %s", subdir)
		}
		old, err := records(all[at])
		if err != nil {
			return err
		}
		var fresh []spec.Record
		if err := json.Unmarshal([]byte(now.GetRecords()[i]), &fresh); err != nil {
			return err
		}
		for j := range fresh {
			if k := slices.IndexFunc(old, func(r spec.Record) bool {
				return r.Name == fresh[j].Name && r.IsWheel() == fresh[j].IsWheel() && r.SameArtifact(fresh[j])
			}); k >= 0 {
				fresh[j] = old[k]
			}
		}
		raw, err := json.Marshal(fresh)
		if err != nil {
			return err
		}
		now.Records[i] = string(raw)
	}
	return nil
}

// Patched returns the recipe of a lock that replaces that of an earlier image: with the text, the
// variables and the options of the earlier one. Users see the text of the earlier environment, since
// a lock may have packages of private channels; it also names the image.
func (r Recipe) Patched(text string, options *containerv1.CondaOptions, variables map[string]string) Recipe {
	r.Environment.Variables, r.options, r.earlier = variables, options, &text
	if text != "" && !lockfile.IsLock(text) {
		if e, err := envfile.Read("condaFile", text); err == nil {
			r.named = namingOf(e)
		}
	}
	return r
}
