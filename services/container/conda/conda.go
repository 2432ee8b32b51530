// Package conda turns a request for Conda packages into what builds its environment:
// a Dockerfile, and the files that its installer reads. It owns which of Conda's forms
// a request may use, and the names of images that are made from them. It solves
// nothing, asks nobody and does no I/O. What it takes from a request gets into files
// alone, never into a command. Truth: gateway/contract/container-service.md.
package conda

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	nouns "slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// Images are those of requests that name none.
type Images struct {
	// Mamba has micromamba, which installs packages in steps; "" is
	// mambaorg/micromamba:2-amazon2023.
	Mamba string
	// Base is what the packages are put on; "" is ubuntu:24.04.
	Base string
}

// Qualified are the full names of the images; fault.Invalid for one that is malformed.
func (i Images) Qualified() (Images, error) {
	mamba, err := oci.ParseReference(cmp.Or(i.Mamba, "mambaorg/micromamba:2-amazon2023"))
	if err != nil {
		return i, fault.In("conda_mamba_image", err)
	}
	base, err := oci.ParseReference(cmp.Or(i.Base, "ubuntu:24.04"))
	if err != nil {
		return i, fault.In("conda_base_image", err)
	}
	return Images{Mamba: mamba.String(), Base: base.String()}, nil
}

func defaultChannels() []string { return []string{"conda-forge", "bioconda"} }

// Recipe is a checked request for a Conda environment. Make it with Read or ReadFile.
type Recipe struct {
	// Environment is what to install; its text is empty where there is a lock.
	Environment nouns.Environment
	// LockURL is the address of an explicit lock; "" for none.
	LockURL string
	// basePackages are installed afterwards; none is fine.
	basePackages []string
	// mambaImage and baseImage are fully qualified.
	mambaImage, baseImage string
	// commands are the last lines of the Dockerfile.
	commands []string
	// compile says that modules of Python are wanted compiled. Who installs in steps
	// compiles them anyway.
	compile bool
}

// Read checks packages of type CONDA. environment is their environment file, decoded;
// "" where they list entries. usual are the images where they name none. fault.Invalid, naming the field, for what is malformed.
func Read(p *containerv1.Packages, environment string, usual Images) (Recipe, error) {
	for i, c := range p.GetChannels() {
		if err := nouns.CheckChannel(c); err != nil {
			return Recipe{}, fault.In(fmt.Sprintf("packages.channels[%d]", i), err)
		}
	}
	r, err := withOptions(p.GetCondaOpts(), usual)
	if err != nil {
		return r, err
	}
	if environment == "" {
		return r, r.addEntries(p.GetEntries(), mergeChannels(nil, p.GetChannels()))
	}
	r.Environment, err = readEnvironment("packages.environment", environment, p.GetChannels())
	return r, err
}

// ReadFile checks an environment file that stands alone, as condaFile. fault.Invalid,
// naming the field, for what is malformed.
func ReadFile(text string, usual Images) (Recipe, error) {
	r, err := withOptions(nil, usual)
	if err != nil {
		return r, err
	}
	r.Environment, err = readEnvironment("condaFile", text, nil)
	return r, err
}

// withOptions checks the options, and fills in the defaults.
func withOptions(o *containerv1.CondaOptions, usual Images) (Recipe, error) {
	r := Recipe{commands: o.GetCommands(), compile: o.GetCompile()}
	r.basePackages = nouns.BasePackages()
	if o != nil && o.BasePackages != nil {
		r.basePackages = strings.Fields(o.GetBasePackages())
	}
	for _, spec := range r.basePackages {
		if err := checkSpec(spec); err != nil {
			return r, fault.In("packages.condaOpts.basePackages", err)
		}
	}
	usual, err := usual.Qualified()
	if err != nil {
		return r, err
	}
	if r.mambaImage, err = imageName(o.GetMambaImage(), usual.Mamba); err != nil {
		return r, fault.In("packages.condaOpts.mambaImage", err)
	}
	if r.baseImage, err = imageName(o.GetBaseImage(), usual.Base); err != nil {
		return r, fault.In("packages.condaOpts.baseImage", err)
	}
	for i, line := range r.commands {
		if strings.ContainsRune(line, 0) {
			return r, fault.Invalid.Newf("packages.condaOpts.commands[%d] must be a line of a Dockerfile", i)
		}
	}
	return r, nil
}

// imageName qualifies the name of an image, so that no stage of the Dockerfile can be
// mistaken for it.
func imageName(given, otherwise string) (string, error) {
	if given == "" {
		given = otherwise
	}
	ref, err := oci.ParseReference(given)
	if err != nil {
		return "", err
	}
	return ref.String(), nil
}

// Packages are those that a solver can find, for who asks one: those of the
// environment and the base packages, neither pip's nor a lock's. It is nil where there
// are none.
func (r Recipe) Packages() *condav1.CondaPackages {
	specs, _ := r.Environment.Specs()
	if len(specs) == 0 {
		return nil
	}
	if len(r.pip()) > 0 && !slices.ContainsFunc(specs, func(spec string) bool { return nameOf(spec) == "pip" }) {
		specs = append(specs, "pip") // who installs an environment file gets it, too
	}
	specs = slices.Concat(specs, r.basePackages)
	channels := slices.DeleteFunc(slices.Clone(r.Environment.Channels), func(c string) bool { return c == "nodefaults" })
	return &condav1.CondaPackages{Type: "CONDA", Entries: specs, Channels: channels}
}

// IsBase says whether a package, by a specification or by its name alone, is one that
// every environment gets, and not one that the request names.
func (r Recipe) IsBase(spec string) bool {
	is := func(other string) bool { return nameOf(other) == nameOf(spec) }
	specs, _ := r.Environment.Specs()
	return nameOf(spec) != "" && slices.ContainsFunc(r.basePackages, is) && !slices.ContainsFunc(specs, is)
}

// nameOf is the name in a specification; "" for what has none.
func nameOf(spec string) string {
	m, err := nouns.ParseMatchSpec(spec)
	if err != nil {
		return ""
	}
	return m.Name
}

func (r Recipe) pip() []string {
	_, pip := r.Environment.Specs()
	return pip
}

// BaseImage is the image that the packages are put on, fully qualified.
func (r Recipe) BaseImage() string { return r.baseImage }

// Steps is what has to be run for the environment, by the field's name or in words; ""
// for nothing.
func (r Recipe) Steps() string {
	switch {
	case len(r.pip()) > 0:
		return "what pip installs"
	case len(r.commands) > 0:
		return "packages.condaOpts.commands"
	case r.compile:
		return "packages.condaOpts.compile"
	case r.LockURL != "":
		return "the lock at " + fault.Quote(r.LockURL)
	}
	return ""
}
