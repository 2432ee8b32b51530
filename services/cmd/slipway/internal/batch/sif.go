package batch

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

const (
	// formatSif is the format of requests for Singularity images.
	formatSif = "sif"
	// formatEnvironment is the format of requests for environments without an image.
	formatEnvironment = "environment"
	// orasScheme is the prefix of the names of Singularity images.
	orasScheme = "oras://"
)

// isSif reports whether a request is for a Singularity image.
func isSif(r *containerv1.ContainerRequest) bool {
	return r.GetFormat() == formatSif || strings.HasPrefix(r.GetContainerImage(), orasScheme)
}

// format returns the format that a lock file records.
func (c *container) format() string {
	if c.isSif() {
		return formatSif
	}
	if c.request.GetFormat() == formatEnvironment {
		return formatEnvironment
	}
	return ""
}

// direct sets the result of an existing Singularity image, which the server has no name for: it is read from
// its registry.
func (c *container) direct() error {
	image := c.request.GetContainerImage()
	if !strings.HasPrefix(image, orasScheme) {
		return nil
	}
	if c.adds() {
		return errors.New("nothing can be added to a Singularity image; give the image that it was made of")
	}
	c.result = &containerv1.ContainerResult{Response: &containerv1.SubmitContainerResponse{
		TargetImage: proto.String(image), ContainerImage: proto.String(image), Succeeded: proto.Bool(true),
	}}
	return nil
}

// withSifs requests a Singularity image for each image of the run, and returns all images.
func (r *run) withSifs(cmd *cobra.Command, isLive bool, used lockFile) ([]Image, error) {
	sifs := newRun(r.c, nil)
	of, paired := map[*container]*container{}, map[*container]bool{}
	for _, c := range r.all {
		if c.isSif() || c.failed() || c.pending {
			continue
		}
		if of[c] = r.recordedSif(c); of[c] != nil {
			paired[of[c]] = true
			continue
		}
		of[c] = c.sif(used)
		sifs.all = append(sifs.all, of[c])
	}
	sifs.progress = newProgress(cmd.ErrOrStderr(), isLive, len(sifs.all))
	sifs.submit(cmd.Context())
	sifs.finish(cmd.Context(), true, nil)
	out := make([]Image, 0, len(r.all))
	for _, c := range r.all {
		if paired[c] {
			continue // it is that of another image
		}
		image := c.image()
		if one := of[c]; one != nil {
			sif := one.image()
			image.Sif = &sif
		}
		out = append(out, image)
	}
	return out, sifs.progress.end()
}

// recordedSif returns the Singularity image with the packages of an image, if both are recorded in a lock file
// that is an input; nil otherwise. `slipway nf-core` adds a suffix to its name. One with other packages is of
// an earlier run.
func (r *run) recordedSif(of *container) *container {
	if !of.isInput || of.record.Lock == "" {
		return nil
	}
	for _, c := range r.all {
		if c.isSif() && c.isInput && strings.TrimSuffix(c.name, sifSuffix) == of.name && c.record.Lock == of.record.Lock {
			return c
		}
	}
	return nil
}

// sifSuffix is the suffix of the names of Singularity images in lock files of `slipway nf-core`.
const sifSuffix = " (sif)"

// sif returns the request of the Singularity image with the same content: if the packages of the image
// are locked, with these, and otherwise of the image that was built.
func (c *container) sif(used lockFile) *container {
	asSif := func(request *containerv1.ContainerRequest) *containerv1.ContainerRequest {
		out := proto.CloneOf(request)
		out.Format, out.Soci, out.SociPrefetch = formatSif, false, nil
		return out
	}
	one := &container{name: c.name, isProcess: c.isProcess, request: asSif(c.request), text: c.text, sent: asSif(c.sent)}
	switch isImage := c.sent.GetContainerImage() != ""; {
	case c.record.Lock != "" && !isImage:
		one.sent = lockFile{Locks: map[string]string{c.record.Lock: c.text}}.apply(locked{Lock: c.record.Lock}, one.sent)
	case !isImage || c.sent.GetMirror():
		one.sent = ofBuilt(one.sent, c.result.GetResponse().GetTargetImage())
	}
	if found, ok := used.find(c.name, one.request); ok {
		one.record, one.locked, one.fromLock = found, found, true
	}
	one.record.Request, one.record.Lock = requestDigest(one.request), c.record.Lock
	return one
}

// ofBuilt returns a request for an existing image, for the caller and the target of another request.
func ofBuilt(of *containerv1.ContainerRequest, image string) *containerv1.ContainerRequest {
	out := proto.CloneOf(of)
	out.ContainerImage, out.ContainerFile, out.CondaFile, out.Packages, out.BuildTemplate = image, "", "", nil, ""
	out.ContainerConfig, out.ContainerIncludes, out.BuildContext, out.CacheRepository = nil, nil, nil, ""
	out.AsOf, out.MinAge, out.MinAgeExcept, out.Refresh = "", "", nil, false
	if out.GetMirror() {
		out.Mirror, out.BuildRepository = false, ""
	}
	return out
}
