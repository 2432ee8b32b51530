package request

import (
	"cmp"
	"strconv"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
)

// The compressions of layers.
const (
	modeGzip      = "gzip"
	modeZstd      = "zstd"
	modeEstargz   = "estargz"
	modeChunked   = "zstd:chunked"
	modeErofs     = "erofs"
	modeErofsZstd = "erofs+zstd"
)

// levelsOf returns the minimum and maximum level of a compression.
func levelsOf(mode string) (least, most int32) {
	if mode == modeZstd || mode == modeChunked || mode == modeErofsZstd {
		return 1, 22
	}
	return 0, 9
}

// checkCompression validates the values of a compression.
func checkCompression(c *containerv1.Compression) error {
	mode := cmp.Or(c.GetMode(), modeGzip)
	if mode == modeErofs && c.Level != nil {
		return fault.Invalid.Newf("buildCompression.level is not for erofs, whose layers are not compressed; leave it out, or use erofs+zstd")
	}
	least, most := levelsOf(mode)
	if level := c.GetLevel(); c != nil && c.Level != nil && (level < least || level > most) {
		return fault.Invalid.Newf("buildCompression.level must be %d to %d for %s, not %d; leave it out for the usual one", least, most, mode, level)
	}
	return nil
}

// checkSoci rejects a SOCI index of an image whose layers it cannot describe.
func checkSoci(r *containerv1.ContainerRequest) error {
	mode := compressionOf(r).GetMode()
	if r.GetSoci() && r.GetFormat() != FormatSif && mode != "" && mode != modeGzip && mode != modeEstargz {
		return fault.Invalid.Newf("soci requires layers with gzip, and buildCompression.mode is %s: leave one of them out", mode)
	}
	return nil
}

// checkCompressed rejects compressions of layers of Conda packages that workers cannot create
// (gateway/contract/container-service.md#compression).
func checkCompressed(r *containerv1.ContainerRequest) error {
	if r.GetCompression().GetForce() {
		return fault.Invalid.Newf("buildCompression.force is not for Conda packages: their base image is used unchanged; leave it out, or have the packages installed in steps, with buildTemplate conda/micromamba:v2")
	}
	return nil
}

// layersOnly returns the mode of the layers if the engine of builds in steps cannot create them;
// otherwise "".
func layersOnly(r *containerv1.ContainerRequest) string {
	switch mode := compressionOf(r).GetMode(); mode {
	case modeChunked, modeErofs, modeErofsZstd:
		return mode
	}
	return ""
}

// isErofs reports whether the layers are EROFS images.
func isErofs(r *containerv1.ContainerRequest) bool {
	mode := compressionOf(r).GetMode()
	return mode == modeErofs || mode == modeErofsZstd
}

// checkLayersOnly rejects layers of builds in steps, whose engine does not create them. steps is the part
// of the request that requires steps.
func checkLayersOnly(r *containerv1.ContainerRequest, steps string) error {
	if mode := layersOnly(r); mode != "" && steps != "" {
		return fault.Invalid.Newf("buildCompression.mode %s is for Conda packages that are put into layers as they are, but %s requires build steps; use estargz or zstd", mode, steps)
	}
	return nil
}

// compressionOf returns the requested compression with its defaults set; nil for the
// default compression, and for an existing image, because clients send their setting with
// every request.
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

// compression adds a compression only if there is one, so that the IDs of content without
// compression are unchanged.
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
