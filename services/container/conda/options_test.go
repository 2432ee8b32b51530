package conda

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
)

// asClientsSend returns packages with the options that client libraries send by default.
func asClientsSend(kind string, change func(p *containerv1.Packages)) *containerv1.Packages {
	p := &containerv1.Packages{
		Type: kind, Entries: []string{"bwa"},
		CondaOpts: &containerv1.CondaOptions{MambaImage: "mambaorg/micromamba:2-amazon2023", BaseImage: "ubuntu:24.04", BasePackages: proto.String("conda-forge::procps-ng")},
		PixiOpts:  &containerv1.PixiOptions{PixiImage: "ghcr.io/prefix-dev/pixi:0.59.0-noble", BaseImage: "ubuntu:24.04", BasePackages: proto.String("conda-forge::procps-ng")},
	}
	if kind == TypeCRAN {
		p.CranOpts = &containerv1.CranOptions{RImage: "rocker/r-ver:4.4.1", BasePackages: "littler r-cran-docopt"}
	}
	change(p)
	return p
}

// TestOptionsOfClients checks that the options that clients send for other installers are
// used or rejected, and that their defaults count as not set.
func TestOptionsOfClients(t *testing.T) {
	t.Parallel()
	usual := Defaults{
		Base: "debian:12", ClientMamba: []string{"mambaorg/micromamba"}, ClientBase: []string{"ubuntu:24.04"},
		ClientPixi: []string{"ghcr.io/prefix-dev/pixi"}, ClientR: []string{"rocker/r-ver:4.4.1"},
	}
	const base = "docker.io/library/debian:12"
	procps := []string{"conda-forge::procps-ng"}
	for _, tc := range []struct {
		name     string
		kind     string
		change   func(p *containerv1.Packages)
		base     string
		packages []string
		lines    []string
		refusal  string
	}{
		{name: "defaults", change: func(*containerv1.Packages) {}, base: base, packages: procps},
		{name: "defaults for R", kind: TypeCRAN, change: func(*containerv1.Packages) {}, base: base, packages: procps},
		{name: "a base image", change: func(p *containerv1.Packages) { p.PixiOpts.BaseImage = "alpine" }, base: "docker.io/library/alpine:latest", packages: procps},
		{name: "the same base image", change: func(p *containerv1.Packages) {
			p.PixiOpts.BaseImage, p.CondaOpts.BaseImage = "alpine", "docker.io/library/alpine:latest"
		}, base: "docker.io/library/alpine:latest", packages: procps},
		{name: "another base image", change: func(p *containerv1.Packages) { p.PixiOpts.BaseImage, p.CondaOpts.BaseImage = "alpine", "fedora" },
			refusal: "packages.condaOpts.baseImage and packages.pixiOpts.baseImage differ"},
		{name: "base packages", change: func(p *containerv1.Packages) { p.PixiOpts.BasePackages = proto.String("curl  wget") }, base: base, packages: []string{"curl", "wget"}},
		{name: "no base packages", change: func(p *containerv1.Packages) { p.CondaOpts.BasePackages = proto.String("") }, base: base},
		{name: "malformed base packages", change: func(p *containerv1.Packages) { p.PixiOpts.BasePackages = proto.String("a;b") }, refusal: "packages.pixiOpts.basePackages"},
		{name: "commands", change: func(p *containerv1.Packages) { p.PixiOpts.Commands = []string{"RUN a"} }, base: base, packages: procps, lines: []string{"RUN a"}},
		{name: "commands for R", kind: TypeCRAN, change: func(p *containerv1.Packages) { p.CranOpts.Commands = []string{"RUN a"} }, base: base, packages: procps, lines: []string{"RUN a"}},
		{name: "other commands", change: func(p *containerv1.Packages) {
			p.PixiOpts.Commands, p.CondaOpts.Commands = []string{"RUN a"}, []string{"RUN b"}
		}, refusal: "packages.condaOpts.commands and packages.pixiOpts.commands differ"},
		{name: "a command with NUL", kind: TypeCRAN, change: func(p *containerv1.Packages) { p.CranOpts.Commands = []string{"RUN \x00"} }, refusal: "packages.cranOpts.commands[0]"},
		{name: "commands for R without R", change: func(p *containerv1.Packages) {
			p.CranOpts = &containerv1.CranOptions{Commands: []string{"RUN a"}}
		}, refusal: "packages.cranOpts.commands is only for packages of type CRAN"},
		{name: "an image of pixi", change: func(p *containerv1.Packages) { p.PixiOpts.PixiImage = "my/pixi" }, refusal: "packages.pixiOpts.pixiImage is not supported"},
		{name: "an image of R", kind: TypeCRAN, change: func(p *containerv1.Packages) { p.CranOpts.RImage = "rocker/r-ver:4.3.0" }, refusal: "packages.cranOpts.rImage is not supported"},
		{name: "packages of Debian", kind: TypeCRAN, change: func(p *containerv1.Packages) { p.CranOpts.BasePackages = "curl" }, refusal: "packages.cranOpts.basePackages is not supported"},
		{name: "a malformed image", change: func(p *containerv1.Packages) { p.PixiOpts.PixiImage = "A b" }, refusal: "packages.pixiOpts.pixiImage: "},
	} {
		if tc.kind == "" {
			tc.kind = "CONDA"
		}
		p := asClientsSend(tc.kind, tc.change)
		sent := proto.CloneOf(p)
		r, err := Read(p, "", nil, usual)
		if !proto.Equal(p, sent) {
			t.Errorf("%s: the request is changed to %v", tc.name, p)
		}
		if tc.refusal != "" {
			if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.refusal) {
				t.Errorf("%s: %v, want %q", tc.name, err, tc.refusal)
			}
			continue
		}
		if err != nil || r.BaseImage() != tc.base || !slices.Equal(r.basePackages, tc.packages) || !slices.Equal(r.commands, tc.lines) || r.OwnInstaller() != "" {
			t.Errorf("%s: base %s with %q, commands %q, installer %q, %v", tc.name, r.BaseImage(), r.basePackages, r.commands, r.OwnInstaller(), err)
			continue
		}
		if o := r.Options(); tc.base != base && o.GetBaseImage() == "ubuntu:24.04" || !slices.Equal(o.GetCommands(), tc.lines) || len(tc.packages) > 1 && !strings.HasPrefix(o.GetBasePackages(), tc.packages[0]) {
			t.Errorf("%s: users see %v", tc.name, o)
		}
	}
}
