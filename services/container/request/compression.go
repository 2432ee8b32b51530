package request

import (
	"cmp"
	"strconv"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
)

// How layers may be compressed.
const (
	modeGzip    = "gzip"
	modeZstd    = "zstd"
	modeEstargz = "estargz"
)

// levelsOf are the levels of a compression, from the least to the most work.
func levelsOf(mode string) (least, most int32) {
	if mode == modeZstd {
		return 1, 22
	}
	return 0, 9
}

// checkCompression looks at the values of a compression.
func checkCompression(c *containerv1.Compression) error {
	if err := oneOf("buildCompression.mode", c.GetMode(), []string{modeGzip, modeZstd, modeEstargz}); err != nil {
		return err
	}
	mode := cmp.Or(c.GetMode(), modeGzip)
	least, most := levelsOf(mode)
	if level := c.GetLevel(); c != nil && c.Level != nil && (level < least || level > most) {
		return fault.Invalid.Newf("buildCompression.level must be %d to %d for %s, not %d; leave it out for the usual one", least, most, mode, level)
	}
	return nil
}

// checkCompressed wants, for Conda packages, layers that whoever puts them together can
// make (gateway/contract/container-service.md#compression). The recipe is nil for an image.
func checkCompressed(r *containerv1.ContainerRequest, of *Recipe) error {
	const inSteps = "have the packages installed in steps, with buildTemplate conda/micromamba:v2"
	switch c := compressionOf(r); {
	case c == nil:
		return nil
	case of.Packages != nil && c.GetMode() == modeEstargz:
		return fault.Invalid.Newf("buildCompression.mode must be gzip or zstd for Conda packages: they are put together as layers, which are not made as estargz; take zstd, or %s", inSteps)
	case of.Packages != nil && c.GetForce():
		return fault.Invalid.Newf("buildCompression.force is not for Conda packages: they are put on their base image as it is, whose layers are not read; leave it out, or %s", inSteps)
	}
	return nil
}

// compressionOf is the compression that a request asks for, with nothing left to be
// understood; nil for what is usual, and for an existing image, since clients send their
// setting with every request.
func compressionOf(r *containerv1.ContainerRequest) *containerv1.Compression {
	if r.GetContainerImage() != "" {
		return nil
	}
	c := r.GetCompression()
	out := &containerv1.Compression{Mode: cmp.Or(c.GetMode(), modeGzip), Force: c.GetForce() || c.GetMode() == modeEstargz}
	if c != nil {
		out.Level = c.Level
	}
	if out.GetMode() == modeGzip && out.Level == nil && !out.GetForce() {
		return nil
	}
	return out
}

// compression counts where there is one: without, ids stay what they were before there
// was any.
func (w digester) compression(c *containerv1.Compression) {
	if c == nil {
		return
	}
	level := "usual"
	if c.Level != nil {
		level = strconv.Itoa(int(c.GetLevel()))
	}
	w.text("compression", c.GetMode(), level, strconv.FormatBool(c.GetForce()))
}
