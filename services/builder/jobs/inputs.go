package jobs

import (
	"slices"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/internal/limits"
)

// AddInput adds an image or a layer to what a build has read, unless the list has it. A list that is
// full becomes incomplete.
func AddInput(to *buildv1.Inputs, in *buildv1.Input) {
	switch {
	case slices.ContainsFunc(to.GetInputs(), func(i *buildv1.Input) bool { return proto.Equal(i, in) }):
	case len(to.GetInputs()) == limits.BuildInputs:
		to.Incomplete = true
	default:
		to.Inputs = append(to.Inputs, in)
	}
}

// HasRead reports what was read to make the image.
func (j Job) HasRead(in *buildv1.Inputs) {
	if j.Inputs != nil {
		j.Inputs(in)
	}
}
