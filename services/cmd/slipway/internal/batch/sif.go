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
	recorded := r.recordedSifs()
	sifs := newRun(r.c, nil)
	made := map[*container]*container{}
	for _, c := range r.all {
		if c.isSif() || c.failed() || c.pending || recorded[c.name] != nil {
			continue
		}
		one := c.sif(used)
		made[c] = one
		sifs.all = append(sifs.all, one)
	}
	sifs.progress = newProgress(cmd.ErrOrStderr(), isLive, len(sifs.all))
	sifs.submit(cmd.Context())
	sifs.finish(cmd.Context(), true, nil)
	err := sifs.progress.end()
	out := make([]Image, 0, len(r.all)+len(sifs.all))
	paired := map[*container]bool{}
	for _, c := range r.all {
		image := c.image()
		one := made[c]
		if of := recorded[c.name]; one == nil && of != nil && !c.isSif() && !c.failed() {
			one, paired[of] = of, true
		}
		if one != nil {
			sif := one.image()
			image.Sif = &sif
		}
		out = append(out, image)
	}
	rest := out[:0]
	for i, c := range r.all {
		if !paired[c] {
			rest = append(rest, out[i])
		}
	}
	return rest, err
}

// recordedSifs returns the Singularity images of lock files that are inputs, by the names of their
// containers. `slipway nf-core` adds a suffix to these.
func (r *run) recordedSifs() map[string]*container {
	out := map[string]*container{}
	for _, c := range r.all {
		if c.isSif() && c.isInput {
			out[strings.TrimSuffix(c.name, sifSuffix)] = c
		}
	}
	return out
}

// sifSuffix is the suffix of the names of Singularity images in lock files of `slipway nf-core`.
const sifSuffix = " (sif)"

// sif returns the request of the Singularity image with the same content: if the packages of the image
// are locked, with these.
func (c *container) sif(used lockFile) *container {
	asSif := func(request *containerv1.ContainerRequest) *containerv1.ContainerRequest {
		out := proto.CloneOf(request)
		if out.Format = formatSif; out.GetMirror() { // of the image itself
			out.Mirror, out.BuildRepository = false, ""
		}
		return out
	}
	one := &container{name: c.name, isProcess: c.isProcess, request: asSif(c.request), text: c.text}
	one.sent = asSif(c.sent)
	if c.sent.GetContainerImage() == "" {
		one.sent = lockFile{Locks: map[string]string{c.record.Lock: c.text}}.apply(locked{Lock: c.record.Lock}, one.sent)
	}
	if found, ok := used.find(c.name, one.request); ok {
		one.record, one.locked, one.fromLock = found, found, true
	}
	one.record.Request, one.record.Lock = requestDigest(one.request), c.record.Lock
	return one
}
