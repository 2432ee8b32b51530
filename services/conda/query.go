package conda

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// query is a request that was read.
type query struct {
	specs     []conda.MatchSpec
	channels  []channel.Channel
	platforms []platform
	virtual   map[string]string
	newest    time.Time // zero is any
	format    conda.LockFormat
	flexible  bool
	base      int // so many of specs, the last ones, the caller has not named
}

// platform is one that environments are made for.
type platform struct {
	// name is an image's, e.g. "linux/amd64"; subdir the channels', e.g. "linux-64".
	name, subdir string
}

// platforms are those that environments are made for.
func platforms() []platform {
	return []platform{{"linux/amd64", "linux-64"}, {"linux/arm64", "linux-aarch64"}}
}

// parsePlatform reads any spelling of one.
func parsePlatform(text string) (platform, error) {
	p, err := oci.ParsePlatform(text)
	if err == nil {
		for _, known := range platforms() {
			if known.name == p.OS+"/"+p.Architecture {
				return known, nil
			}
		}
	}
	return platform{}, fault.Invalid.New("Environments are made for linux/amd64 and linux/arm64", err)
}

// read checks a request. fault.Invalid, naming the field.
func (s *Service) read(in *condav1.LockQuery) (q query, err error) {
	if in.GetPackages() == nil {
		return q, fault.Invalid.Newf("packages is missing")
	}
	if t := in.GetPackages().GetType(); t != "CONDA" {
		return q, fault.Invalid.Newf("packages.type must be CONDA")
	}
	texts, names, err := wanted(in.GetPackages())
	if err != nil {
		return q, err
	}
	if in.GetForContainer() {
		base := conda.BasePackages()
		texts, q.base = slices.Concat(texts, base), len(base)
	}
	for _, text := range texts {
		spec, err := conda.ParseMatchSpec(text)
		if err != nil {
			return q, fault.In("packages", err)
		}
		q.specs = append(q.specs, spec)
		// channel::name asks for a channel beside the others.
		if spec.Channel != "" && !slices.Contains(names, spec.Channel) {
			names = append(names, spec.Channel)
		}
	}
	if q.channels, err = s.resolve(names); err != nil {
		return q, err
	}
	if err := q.readOptions(in); err != nil {
		return q, err
	}
	return q, nil
}

// defaultChannels are those of a request that names none.
func defaultChannels() []string { return []string{"conda-forge", "bioconda"} }

// wanted are the specifications and channels of a request.
func wanted(p *condav1.CondaPackages) (specs, channels []string, err error) {
	channels = p.GetChannels()
	switch {
	case p.GetEnvironment() != "" && len(p.GetEntries()) > 0:
		return nil, nil, fault.Invalid.Newf("packages.environment and packages.entries exclude each other")
	case p.GetEnvironment() == "" && len(p.GetEntries()) == 0:
		return nil, nil, fault.Invalid.Newf("packages.entries is missing: list packages such as samtools=1.20")
	case len(p.GetEntries()) > limits.CondaSpecs:
		return nil, nil, fault.Invalid.Newf("packages.entries has %d packages, and may have %d", len(p.GetEntries()), limits.CondaSpecs)
	case p.GetEnvironment() == "":
		specs = p.GetEntries()
	default:
		if specs, channels, err = fromFile(p); err != nil {
			return nil, nil, err
		}
	}
	for i, text := range specs {
		if strings.HasPrefix(text, "pip:") {
			return nil, nil, fault.Invalid.Newf("packages.entries[%d] is one of pip's, which no Conda channel has: leave it out", i)
		}
	}
	if len(channels) == 0 {
		channels = defaultChannels()
	}
	return specs, channels, nil
}

// fromFile reads an environment file; channels of the request come before its own.
func fromFile(p *condav1.CondaPackages) (specs, channels []string, err error) {
	const field = "packages.environment"
	// As everywhere: of either alphabet, with padding or without, in lines or not.
	text := strings.NewReplacer("-", "+", "_", "/", "\n", "", "\r", "", " ", "", "=", "").Replace(p.GetEnvironment())
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(p.GetEnvironment()) > limits.EnvironmentFile {
		return nil, nil, fault.Invalid.New(fmt.Sprintf("%s must be base64 of at most %d characters", field, limits.EnvironmentFile), err)
	}
	env, err := conda.ReadEnvironment(field, string(raw))
	if err != nil {
		return nil, nil, err
	}
	specs, pip := env.Specs()
	switch {
	case len(pip) > 0:
		return nil, nil, fault.Invalid.Newf("%s: packages of pip are in no Conda channel: leave its pip section out", field)
	case len(specs) == 0:
		return nil, nil, fault.Invalid.Newf("%s lists no packages", field)
	}
	return specs, slices.Concat(p.GetChannels(), env.Channels), nil
}

// resolve finds channels, each once.
func (s *Service) resolve(names []string) ([]channel.Channel, error) {
	if len(names) > limits.ChannelsAsked {
		return nil, fault.Invalid.Newf("A request may name %d channels, not %d", limits.ChannelsAsked, len(names))
	}
	var out []channel.Channel
	for _, name := range names {
		c, err := s.deps.Channels.Resolve(name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(out, func(o channel.Channel) bool { return o.URL == c.URL }) {
			out = append(out, c)
		}
	}
	return out, nil
}

// checkVirtual checks what is said of the machine.
func checkVirtual(virtual map[string]string) error {
	if len(virtual) > limits.CondaVirtual {
		return fault.Invalid.Newf("virtualPackages may have %d members, not %d", limits.CondaVirtual, len(virtual))
	}
	for _, name := range slices.Sorted(maps.Keys(virtual)) {
		if virtual[name] == "" {
			continue
		}
		if _, err := conda.ParseVirtualPackage(name, virtual[name]); err != nil {
			return fault.In("virtualPackages", err)
		}
	}
	return nil
}

// readPlatforms reads what environments are for, by default linux/amd64.
func (q *query) readPlatforms(names []string) error {
	for i, name := range names {
		p, err := parsePlatform(name)
		if err != nil {
			return fault.In(fmt.Sprintf("platforms[%d]", i), err)
		}
		if !slices.Contains(q.platforms, p) {
			q.platforms = append(q.platforms, p)
		}
	}
	if len(q.platforms) == 0 {
		q.platforms = platforms()[:1]
	}
	return nil
}

// readOptions reads what a request says beside its packages.
func (q *query) readOptions(in *condav1.LockQuery) error {
	q.flexible, q.virtual = in.GetFlexible(), in.GetVirtualPackages()
	err := checkVirtual(q.virtual)
	if err != nil {
		return err
	}
	if text := in.GetExcludeNewer(); text != "" {
		if q.newest, err = time.Parse(time.RFC3339, text); err != nil {
			return fault.Invalid.New("excludeNewer must be a time such as 2026-01-31T00:00:00Z", err)
		}
	}
	q.format = conda.LockFormat(in.GetFormat())
	if !slices.Contains([]conda.LockFormat{"", conda.FormatExplicit, conda.FormatCondaLock, conda.FormatPixi}, q.format) {
		return fault.Invalid.Newf("format must be explicit, conda-lock or pixi; without one the response is JSON")
	}
	if err := q.readPlatforms(in.GetPlatforms()); err != nil {
		return err
	}
	if q.format == conda.FormatExplicit && len(q.platforms) > 1 {
		return fault.Invalid.Newf("An explicit lock is for one platform: name one, or ask for conda-lock or pixi")
	}
	return nil
}

// machine is what is known of a machine that runs the environment: the defaults, as
// the request changes them.
func (q *query) machine(p platform) []conda.VirtualPackage {
	known := map[string]string{"__glibc": "2.39", "__linux": "6.1", "__unix": "0", "__archspec": "1=x86_64_v3"}
	if p.subdir == "linux-aarch64" {
		known["__archspec"] = "1=aarch64"
	}
	maps.Copy(known, q.virtual)
	var out []conda.VirtualPackage
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if v, err := conda.ParseVirtualPackage(name, known[name]); known[name] != "" && err == nil {
			out = append(out, v)
		}
	}
	return out
}
