package dockerfile

import (
	"strings"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// base is the part of an image's configuration that affects stages built from the image.
type base struct {
	Env        []string
	OnBuild    []string
	WorkingDir string
}

// WithBase returns by how many bytes the Dockerfile can grow in stages that are built from an
// image with this configuration. It expands nothing. The image's variables apply to every
// instruction, and its ONBUILD triggers run first. All stages that may be built from the image
// are included. It returns fault.Invalid if the configuration is malformed, or makes the
// Dockerfile grow beyond the limits of Read.
func (f *File) WithBase(config []byte) (more int, err error) {
	var image struct {
		Config base `json:"config"`
	}
	if err := oci.Decode(config, &image); err != nil {
		return 0, fault.Invalid.New("the configuration of the image is malformed", err)
	}
	if err := image.Config.check(); err != nil {
		return 0, err
	}
	g := newGrowth(f.escape)
	g.base = &image.Config
	if err := g.file(f.stages, f.args); err != nil {
		if e, ok := fault.As(err); ok {
			return 0, fault.In("with its variables and ONBUILD instructions", e)
		}
		return 0, err
	}
	return max(0, g.spent-f.expanded), nil
}

// check limits the input of the parser.
func (b *base) check() error {
	if len(b.Env) > limits.DockerfileVariables {
		return fault.Invalid.Newf("the image sets %d variables; the maximum is %d", len(b.Env), limits.DockerfileVariables)
	}
	length, n := 0, 0
	for _, t := range b.OnBuild {
		length += len(t)
		n += words(t)
	}
	if length > limits.Dockerfile || n > limits.DockerfileWords || len(b.OnBuild) > limits.DockerfileInstructions {
		return fault.Invalid.Newf("the image has %d ONBUILD instructions of %d bytes and %d words; the maximum is %d of %d bytes and %d words",
			len(b.OnBuild), length, n, limits.DockerfileInstructions, limits.Dockerfile, limits.DockerfileWords)
	}
	return nil
}

// start sets the image's values in a stage.
func (b *base) start(st *stage) {
	for _, v := range b.Env {
		name, value, _ := strings.Cut(v, "=")
		st.carried = min(st.carried+st.lengths.set(name, len(value), true), huge)
	}
	st.dir = max(st.dir, len(b.WorkingDir))
}
