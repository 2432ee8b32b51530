// Package compare requests one Conda environment twice from a running service: as an image
// assembled from its packages, and as an image in which micromamba has installed the same
// packages in a container. It compares the two.
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

// Options are the options of a comparison.
type Options struct {
	// Config holds the service's address, and the images of micromamba and of the base for
	// requests that name none.
	Config config.Config
	// Server is the service's address; "" is public_url.
	Server string
	// Token is an access token; "" is an anonymous caller.
	Token string
	// Request is a container request for Conda packages, for one platform.
	Request *containerv1.ContainerRequest
	// Progress receives progress messages.
	Progress func(line string)
}

// Read parses the body of a container request.
func Read(raw []byte) (*containerv1.ContainerRequest, error) {
	req := &containerv1.ContainerRequest{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, req); err != nil {
		return nil, fmt.Errorf("the request is not the body of POST /v1alpha2/container: %w", err)
	}
	return req, nil
}

// Of returns a request for packages by their specifications.
func Of(specs []string) *containerv1.ContainerRequest {
	return &containerv1.ContainerRequest{Packages: &containerv1.Packages{Type: "CONDA", Entries: specs}}
}

// A Report is the result of a comparison, with the compared builds.
type Report struct {
	shadow.Report
	// Direct and Classic are the ids of the builds of the two images, and Lock is the lock of
	// both.
	Direct  string `json:"direct"`
	Classic string `json:"classic"`
	Lock    string `json:"lock"`
}

// Run builds both images and compares them.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Server == "" {
		o.Server = o.Config.PublicURL
	}
	s := &service{base: strings.TrimRight(o.Server, "/"), token: o.Token}
	direct, err := directRequest(o.Request)
	if err != nil {
		return Report{}, err
	}
	o.Progress("Assembling the image from its packages")
	one, err := s.make(ctx, direct)
	if err != nil {
		return Report{}, fmt.Errorf("assembling the image: %w", err)
	}
	out := Report{Direct: one.build}
	if out.Lock, err = s.lock(ctx, one.build); err != nil {
		return out, err
	}
	o.Progress("Installing the same packages in a container")
	two, err := s.make(ctx, classicRequest(o, direct, out.Lock))
	if err != nil {
		return out, fmt.Errorf("installing the packages: %w", err)
	}
	out.Classic = two.build
	o.Progress("Comparing " + one.name + " with " + two.name)
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

// directRequest returns the request without steps and targets, since the comparison is
// about how packages are installed.
func directRequest(r *containerv1.ContainerRequest) (*containerv1.ContainerRequest, error) {
	switch {
	case r.GetPackages() == nil && (r.GetCondaFile() == "" || r.GetContainerFile() != ""):
		return nil, errors.New("the request has no Conda packages: give packages, or condaFile without containerFile")
	case strings.Contains(r.GetContainerPlatform(), ","):
		return nil, errors.New("containerPlatform names two platforms; compare one at a time")
	}
	for _, entry := range r.GetPackages().GetEntries() {
		if strings.HasPrefix(entry, "pip:") {
			return nil, fmt.Errorf("%s comes from PyPI, which requires a container in both images: remove it", entry)
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

// installer is a Dockerfile that installs a lock, which is conda.yml in the build's context.
// micromamba recognises a lock by its suffix.
const installer = `FROM %s AS build
USER 0
COPY conda.yml /slipway-lock.txt
RUN ["sh", "-c", "set -e; micromamba install -y -p /opt/conda -f /slipway-lock.txt; micromamba clean -a -y"]

FROM %s
` + installs

// classicRequest returns the request that installs a lock on the same base image.
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
