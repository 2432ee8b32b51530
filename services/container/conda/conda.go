// Package conda translates a request for Conda packages to a build recipe: a Dockerfile,
// and the files that its installer reads. It defines which forms of Conda specifications a
// request may use, and the names of the resulting images. It does not solve and does no
// I/O. Input from a request is only written to files, never to a command. See
// gateway/contract/container-service.md.
package conda

import (
	"encoding/base64"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/conda/envfile"
	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

func defaultChannels() []string { return []string{"conda-forge", "bioconda"} }

// A Recipe is a validated request for a Conda environment. Use Read or ReadFile to create
// it.
type Recipe struct {
	// Environment is the environment to install. Its text is empty if there is a lock.
	Environment envfile.Environment
	// LockURL is the address of a lock, and Lock the text of one; "" for none. A lock is
	// used unchanged, without base packages.
	LockURL, Lock string
	// environmentName selects an environment of a lock.
	environmentName string
	// basePackages are installed afterwards; it may be empty.
	basePackages []string
	// mambaImage and baseImage are fully qualified.
	mambaImage, baseImage string
	// baseField is the field of the request that sets baseImage; "" for the default one.
	baseField string
	// commands are the last lines of the Dockerfile, and commandsField is the field of the
	// request that they come from.
	commands      []string
	commandsField string
	// options are the options as shown to users, or nil.
	options *containerv1.CondaOptions
	// compile requests that Python modules are compiled. Installing in steps always
	// compiles them.
	compile bool
	// ownInstaller is set if the request names an installer image of its own.
	ownInstaller bool
	// earlier is the text of the environment of the image that is patched; nil if none is.
	earlier *string
	// named determines the image's name instead of the environment; the zero value does not.
	named Naming
	// fallback describes the R packages that may be built from source. The zero value allows
	// no package.
	fallback fallback
}

// Read validates packages of type CONDA or CRAN. environment is their decoded environment
// file; "" if they list entries. platforms are Conda subdirs, such as linux-64. usual are the
// defaults. It returns fault.Invalid with the field for malformed packages.
func Read(p *containerv1.Packages, environment string, platforms []string, usual Defaults) (Recipe, error) {
	var r Recipe
	if p.GetType() == TypeCRAN {
		specs, err := fromR(p, environment)
		if err == nil {
			err = r.setFallback(p, specs, usual)
		}
		if err != nil {
			return r, err
		}
		p, environment = proto.CloneOf(p), ""
		p.Entries = entriesOf(specs)
	}
	for i, c := range p.GetChannels() {
		if err := spec.CheckChannel(c); err != nil {
			return r, fault.In(fmt.Sprintf("packages.channels[%d]", i), err)
		}
	}
	if err := r.setOptions(p, usual); err != nil {
		return r, err
	}
	r.environmentName = p.GetEnvironmentName()
	if lockfile.IsLock(environment) {
		r.Lock = environment
		return r, nil
	}
	if environment == "" {
		return r, r.addEntries(p.GetEntries(), mergeChannels(nil, p.GetChannels()))
	}
	var err error
	r.Environment, err = readEnvironment("packages.environment", environment, p.GetEnvironmentName(), platforms, p.GetChannels())
	return r, err
}

// ReadFile validates an environment file in the field condaFile, for platforms. It returns
// fault.Invalid with the field for a malformed file.
func ReadFile(text string, platforms []string, usual Defaults) (Recipe, error) {
	var r Recipe
	if err := r.setOptions(nil, usual); err != nil {
		return r, err
	}
	if lockfile.IsLock(text) {
		r.Lock = text
		return r, nil
	}
	var err error
	r.Environment, err = readEnvironment("condaFile", text, "", platforms, nil)
	return r, err
}

// IsLocked reports whether the packages are those of a lock.
func (r Recipe) IsLocked() bool { return r.LockURL != "" || r.Lock != "" }

// Text returns the environment file or the lock as users may see it; "" without either.
func (r Recipe) Text() string {
	if r.earlier != nil {
		return *r.earlier
	}
	if r.Lock != "" {
		return r.Lock
	}
	return r.Environment.Text()
}

// Packages returns the packages for the solver: those of a lock, or those of the
// environment and the base packages, without the packages of pip. It returns nil if the
// solver is not needed.
func (r Recipe) Packages() *condav1.CondaPackages {
	if r.LockURL != "" {
		return &condav1.CondaPackages{Type: "CONDA", Entries: []string{r.LockURL}, EnvironmentName: r.environmentName}
	}
	if r.Lock != "" {
		return &condav1.CondaPackages{Type: "CONDA", Environment: base64.StdEncoding.EncodeToString([]byte(r.Lock)), EnvironmentName: r.environmentName}
	}
	specs, _ := r.Environment.Specs()
	if len(specs) == 0 {
		return nil
	}
	if len(r.pip()) > 0 && !slices.ContainsFunc(specs, func(wanted string) bool { return nameOf(wanted) == "pip" }) {
		specs = append(specs, "pip") // installing an environment file also adds pip
	}
	specs = slices.Concat(specs, r.fallback.tools(), r.basePackages)
	return &condav1.CondaPackages{Type: "CONDA", Entries: specs, Channels: r.Environment.Channels}
}

// IsBase reports whether a package, given by a specification or only its name, is in every
// environment and was not requested explicitly.
func (r Recipe) IsBase(wanted string) bool {
	is := func(other string) bool { return nameOf(other) == nameOf(wanted) }
	specs, _ := r.Environment.Specs()
	return nameOf(wanted) != "" && slices.ContainsFunc(r.basePackages, is) && !slices.ContainsFunc(specs, is)
}

// nameOf returns the name in a specification; "" if it has none.
func nameOf(wanted string) string {
	m, err := spec.ParseMatchSpec(wanted)
	if err != nil {
		return ""
	}
	return m.Name
}

func (r Recipe) pip() []string {
	_, pip := r.Environment.Specs()
	return pip
}

// BaseImage returns the fully qualified base image of the packages.
func (r Recipe) BaseImage() string { return r.baseImage }

// OwnBase returns the field of the request with its own base image; "" if it has the default one.
func (r Recipe) OwnBase() string { return r.baseField }

// OwnInstaller returns the installer image that the request chose, fully qualified; ""
// if it named none, or only the default of a client library.
func (r Recipe) OwnInstaller() string {
	if !r.ownInstaller {
		return ""
	}
	return r.mambaImage
}

// Steps returns which part of the request requires build steps, as a field name or a
// description; "" if no part does.
func (r Recipe) Steps() string {
	switch {
	case len(r.pip()) > 0:
		return "what pip installs"
	case len(r.fallback.source) > 0:
		return "packages.cranFallback, since " + r.fallback.names() + " must be built from source"
	case len(r.commands) > 0:
		return r.commandsField
	case r.compile:
		return "packages.condaOpts.compile"
	}
	return ""
}
