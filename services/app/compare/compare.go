// Package compare asks a running service for one Conda environment twice: as an image
// that is put together of its packages, and as one in which micromamba has installed
// the same packages in a container; and holds the one against the other.
package compare

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/builder/shadow"
	"slipway.dev/services/internal/config"
)

// Options say what is compared, and who makes it.
type Options struct {
	// Config has the images that packages are installed with and put on, where the
	// request names none, and where the service is.
	Config config.Config
	// Server is the service's address; "" is public_url.
	Server string
	// Token is an access token; "" asks as an anonymous caller.
	Token string
	// Request is a container request for Conda packages, for one platform.
	Request *containerv1.ContainerRequest
	// Tell is told how far it is, a line at a time.
	Tell func(line string)
}

// Read reads the body of a container request.
func Read(raw []byte) (*containerv1.ContainerRequest, error) {
	req := &containerv1.ContainerRequest{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, req); err != nil {
		return nil, fmt.Errorf("the request is not the body of POST /v1alpha2/container: %w", err)
	}
	return req, nil
}

// Of asks for packages by their specifications.
func Of(specs []string) *containerv1.ContainerRequest {
	return &containerv1.ContainerRequest{Packages: &containerv1.Packages{Type: "CONDA", Entries: specs}}
}

// Report is how the two images compare, and which they are.
type Report struct {
	shadow.Report
	// Direct and Classic are the builds of the images, Lock what both are made from.
	Direct  string `json:"direct"`
	Classic string `json:"classic"`
	Lock    string `json:"lock"`
}

// Run has both images made, and compares them.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Server == "" {
		o.Server = o.Config.PublicURL
	}
	s := &service{base: strings.TrimRight(o.Server, "/"), token: o.Token}
	direct, err := directRequest(o.Request)
	if err != nil {
		return Report{}, err
	}
	o.Tell("Putting the image together of its packages")
	one, err := s.make(ctx, direct)
	if err != nil {
		return Report{}, fmt.Errorf("putting the image together: %w", err)
	}
	out := Report{Direct: one.build}
	if out.Lock, err = s.lock(ctx, one.build); err != nil {
		return out, err
	}
	o.Tell("Installing the same packages in a container")
	two, err := s.make(ctx, classicRequest(o, direct, out.Lock))
	if err != nil {
		return out, fmt.Errorf("installing the packages: %w", err)
	}
	out.Classic = two.build
	o.Tell("Comparing " + one.name + " with " + two.name)
	a, err := s.tree(ctx, one)
	if err != nil {
		return out, err
	}
	b, err := s.tree(ctx, two)
	if err != nil {
		return out, err
	}
	out.Report = shadow.Compare(a, b)
	return out, nil
}

// directRequest is the request without what has an image made in steps, or elsewhere: what
// is compared is how packages are installed.
func directRequest(r *containerv1.ContainerRequest) (*containerv1.ContainerRequest, error) {
	switch {
	case r.GetPackages() == nil && (r.GetCondaFile() == "" || r.GetContainerFile() != ""):
		return nil, errors.New("the request asks for no Conda packages: give packages, or condaFile alone")
	case strings.Contains(r.GetContainerPlatform(), ","):
		return nil, errors.New("containerPlatform names two platforms; compare one at a time")
	}
	for _, entry := range r.GetPackages().GetEntries() {
		if strings.HasPrefix(entry, "pip:") {
			return nil, fmt.Errorf("%s comes from PyPI, which takes a container either way: leave it out", entry)
		}
	}
	out := &containerv1.ContainerRequest{
		CondaFile: r.GetCondaFile(), ContainerPlatform: r.GetContainerPlatform(), PlatformWorkspaceId: r.PlatformWorkspaceId, TowerWorkspaceId: r.TowerWorkspaceId,
	}
	if r.GetPackages() != nil {
		out.Packages = proto.CloneOf(r.GetPackages())
		if opts := out.GetPackages().GetCondaOpts(); opts != nil {
			opts.MambaImage, opts.Commands = "", nil
		}
	}
	return out, nil
}

// installer installs a lock, which is conda.yml in the build's context. A lock for micromamba
// is one by its ending.
const installer = `FROM %s AS build
USER 0
COPY conda.yml /slipway-lock.txt
RUN ["sh", "-c", "set -e; micromamba install -y -p /opt/conda -f /slipway-lock.txt; micromamba clean -a -y"]

FROM %s
` + installs

// classicRequest installs a lock as it is, on the image that the other is put on.
func classicRequest(o Options, direct *containerv1.ContainerRequest, lock string) *containerv1.ContainerRequest {
	mamba, base := o.Request.GetPackages().GetCondaOpts().GetMambaImage(), o.Request.GetPackages().GetCondaOpts().GetBaseImage()
	if mamba == "" {
		mamba = o.Config.CondaMambaImage
	}
	if base == "" {
		base = o.Config.CondaBaseImage
	}
	out := proto.CloneOf(direct)
	out.Packages = nil
	out.ContainerFile = base64.StdEncoding.EncodeToString(fmt.Appendf(nil, installer, mamba, base))
	out.CondaFile = base64.StdEncoding.EncodeToString([]byte(lock))
	return out
}
