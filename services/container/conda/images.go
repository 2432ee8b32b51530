package conda

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

// Defaults configures the values of options that a request does not set, and the image names
// that count as not set. Call Qualified before use.
type Defaults struct {
	// Mamba is the image with micromamba, which installs packages in steps; "" is
	// mambaorg/micromamba:2-amazon2023.
	Mamba string
	// Base is the base image of packages; "" is ubuntu:24.04.
	Base string
	// ClientMamba and ClientBase are the images that client libraries send when their
	// user chose none. A request with one of them gets Mamba or Base instead. A name
	// without a tag matches every tag. ClientPixi and ClientR are the same for installers that
	// this service does not use: a request with another image of theirs is rejected.
	ClientMamba, ClientBase, ClientPixi, ClientR []string
	// CRANMirror is the base URL of the mirror that R packages are built from. If it is
	// empty, no R packages are built from source.
	CRANMirror string
}

// Qualified returns the images by their full names. It returns fault.Invalid with the
// setting for a malformed name.
func (i Defaults) Qualified() (Defaults, error) {
	mamba, err := oci.ParseReference(cmp.Or(i.Mamba, "mambaorg/micromamba:2-amazon2023"))
	if err != nil {
		return i, fault.In("conda_mamba_image", err)
	}
	base, err := oci.ParseReference(cmp.Or(i.Base, "ubuntu:24.04"))
	if err != nil {
		return i, fault.In("conda_base_image", err)
	}
	for setting, names := range map[string][]string{
		"conda_client_mamba_images": i.ClientMamba, "conda_client_base_images": i.ClientBase, "conda_client_pixi_images": i.ClientPixi, "cran_client_images": i.ClientR,
	} {
		for n, name := range names {
			if _, err := oci.ParseReference(name); err != nil {
				return i, fault.In(fmt.Sprintf("%s[%d]", setting, n), err)
			}
		}
	}
	i.Mamba, i.Base = mamba.String(), base.String()
	return i, nil
}

// chosen returns the full name of the image to use: the requested one if the user chose
// it (own is true), else usual. The full name cannot be confused with a stage of the
// Dockerfile.
func chosen(requested, usual string, clientDefaults []string) (name string, own bool, err error) {
	if requested == "" {
		return usual, false, nil
	}
	ref, err := oci.ParseReference(requested)
	if err != nil {
		return "", false, err
	}
	if slices.ContainsFunc(clientDefaults, func(d string) bool { return matches(ref, d) }) {
		return usual, false, nil
	}
	return ref.String(), true, nil
}

// matches reports whether ref is the image that pattern names, at any tag or digest if
// pattern has neither.
func matches(ref oci.Reference, pattern string) bool {
	p, err := oci.ParseReference(pattern)
	if err != nil || ref.Registry != p.Registry || ref.Repository != p.Repository {
		return false
	}
	anyTag := !strings.HasSuffix(pattern, oci.Suffix(p.Identifier()))
	return anyTag || ref.Identifier() == p.Identifier()
}
