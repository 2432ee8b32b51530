package container

import (
	"fmt"
	"strings"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// What a request leaves open.
const (
	defaultMambaImage   = "mambaorg/micromamba:2-amazon2023"
	defaultBaseImage    = "ubuntu:24.04"
	defaultBasePackages = "conda-forge::procps-ng"
)

// conda is a checked request for a Conda environment.
type conda struct {
	// environment is what to install; its text is empty where there is a lock.
	environment environment
	// lockURL is where an explicit lock lies; "" for none.
	lockURL string
	// basePackages are installed afterwards; none is fine.
	basePackages []string
	// mambaImage and baseImage are fully qualified.
	mambaImage, baseImage string
	// commands are the last lines of the Dockerfile.
	commands []string
}

// readConda checks packages of type CONDA, or a condaFile that stands alone.
func readConda(r *containerv1.ContainerRequest) (conda, error) {
	p, field, text := r.GetPackages(), "packages.environment", r.GetPackages().GetEnvironment()
	if r.GetCondaFile() != "" {
		p, field, text = nil, "condaFile", r.GetCondaFile()
	}
	for i, c := range p.GetChannels() {
		if err := checkChannel(c); err != nil {
			return conda{}, named(fmt.Sprintf("packages.channels[%d]", i), err)
		}
	}
	c, err := condaOptions(p.GetCondaOpts())
	if err != nil {
		return c, err
	}
	if text == "" {
		return c, c.readEntries(p.GetEntries(), mergeChannels(nil, p.GetChannels()))
	}
	c.environment, err = readEnvironment(field, decoded(text), p.GetChannels())
	return c, err
}

func condaOptions(o *containerv1.CondaOptions) (conda, error) {
	c := conda{commands: o.GetCommands()}
	packages := defaultBasePackages
	if o != nil && o.BasePackages != nil {
		packages = o.GetBasePackages()
	}
	c.basePackages = strings.Fields(packages)
	for _, spec := range c.basePackages {
		if _, err := parseMatchSpec(spec); err != nil {
			return c, named("packages.condaOpts.basePackages", err)
		}
	}
	var err error
	if c.mambaImage, err = imageName("packages.condaOpts.mambaImage", o.GetMambaImage(), defaultMambaImage); err != nil {
		return c, err
	}
	if c.baseImage, err = imageName("packages.condaOpts.baseImage", o.GetBaseImage(), defaultBaseImage); err != nil {
		return c, err
	}
	for i, line := range c.commands {
		if strings.ContainsRune(line, 0) {
			return c, fault.Invalid.Newf("packages.condaOpts.commands[%d] must be a line of a Dockerfile", i)
		}
	}
	return c, nil
}

// imageName makes a full name of an image: one that no stage of the Dockerfile can
// be mistaken for.
func imageName(field, given, otherwise string) (string, error) {
	if given == "" {
		given = otherwise
	}
	ref, err := oci.ParseReference(given)
	if err != nil {
		return "", named(field, err)
	}
	return ref.String(), nil
}

// readEntries makes an environment of a list of packages, or finds the one URL of
// a lock.
func (c *conda) readEntries(entries, channels []string) error {
	var specs, pip []string
	hasPip := false
	for i, entry := range entries {
		field := fmt.Sprintf("packages.entries[%d]", i)
		if strings.Contains(entry, "://") && !strings.Contains(entry, "::") && !strings.HasPrefix(entry, "pip:") {
			if len(entries) > 1 || !isWebURL(entry) {
				return fault.Invalid.Newf("%s: an http(s) URL of an explicit lock, without a login, must be the only entry", field)
			}
			c.lockURL, c.environment.channels = entry, channels
			return nil
		}
		if req, ok := strings.CutPrefix(entry, "pip:"); ok {
			if !isRequirement(req) {
				return fault.Invalid.Newf("%s: %q must be pip: and a package, e.g. pip:numpy==2.0", field, clip(entry))
			}
			pip = append(pip, req)
			continue
		}
		m, err := parseMatchSpec(entry)
		if err != nil {
			return named(field, err)
		}
		hasPip = hasPip || m.name == "pip"
		specs = append(specs, strings.TrimSpace(entry))
	}
	if len(pip) > 0 && !hasPip {
		specs = append(specs, "pip")
	}
	c.environment = environment{text: condaFile(channels, specs, pip), channels: channels, items: append(specs, pip...)}
	return nil
}

// isRequirement wants a package as pip knows it: no option, no second line. pip
// itself reads the rest.
func isRequirement(s string) bool {
	return s != "" && len(s) <= maxSpec && isPackageName(s[:1]) &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// condaFile writes an environment file.
func condaFile(channels, specs, pip []string) string {
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
