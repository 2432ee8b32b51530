package request

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// Added is what the request adds to its image, or to what is built, without contents; nil
// for nothing.
func (r Request) Added() *containerv1.ContainerConfig {
	out := withoutContents(r.Raw.GetContainerConfig())
	if len(r.Included.Layers) == 0 {
		return out
	}
	if out == nil {
		out = &containerv1.ContainerConfig{}
	}
	out.Layers = append(out.Layers, r.Included.Layers...)
	return out
}

// Makes says whether what the request adds goes into an image that outlives every name.
func (r Request) Makes() bool { return r.Raw.GetFreeze() || r.IsSif() }

// checkIncludes wants names of images.
func checkIncludes(r *containerv1.ContainerRequest) ([]oci.Reference, error) {
	var out []oci.Reference
	for i, name := range r.GetContainerIncludes() {
		ref, err := oci.ParseReference(name)
		if err != nil {
			return nil, fault.In(fmt.Sprintf("containerIncludes[%d]", i), err)
		}
		out = append(out, ref)
	}
	return out, nil
}

// CheckCount bounds the layers that are put on top of one image.
func CheckCount(what string, layers []*containerv1.Layer) error {
	own, included, most := 0, map[string]int{}, 0
	for _, l := range layers {
		from := l.GetIncludedFrom()
		if from == nil {
			own++
			continue
		}
		included[from.GetArchitecture()]++
		most = max(most, included[from.GetArchitecture()])
	}
	if own > limits.Layers {
		return fault.Invalid.Newf("%s there are %d layers; the maximum is %d", what, own, limits.Layers)
	}
	if most > limits.IncludedLayers {
		return fault.Invalid.Newf("containerIncludes: the images have %d layers together; the maximum is %d", most, limits.IncludedLayers)
	}
	return nil
}

// Includes says whether a configuration has layers of other images.
func Includes(c *containerv1.ContainerConfig) bool {
	for _, l := range c.GetLayers() {
		if l.GetIncludedFrom() != nil {
			return true
		}
	}
	return false
}

// WithoutIncluded is a configuration as a request could have it.
func WithoutIncluded(c *containerv1.ContainerConfig) *containerv1.ContainerConfig {
	if !Includes(c) {
		return c
	}
	out := proto.CloneOf(c)
	out.Layers = nil
	for _, l := range c.GetLayers() {
		if l.GetIncludedFrom() == nil {
			out.Layers = append(out.Layers, l)
		}
	}
	return withoutContents(out)
}

// GivenAmong are those of a recipe's images that the request was given by their names, in
// the service's own repository.
func (r Request) GivenAmong(images []oci.Reference) []*containerv1.Source {
	var out []*containerv1.Source
	for _, image := range images {
		if _, ok := r.Given[image]; ok {
			out = append(out, &containerv1.Source{Registry: image.Registry, Repository: image.Repository, Reference: image.Digest.String()})
		}
	}
	return out
}

// Inclusions are layers of other images; the zero value is none.
type Inclusions struct {
	Layers []*containerv1.Layer
	// Until is when the first of the names ends that this service gave out, and that were
	// the right to read an image; zero for never.
	Until time.Time
}

// EndBy notes that a name ends; a zero one does not.
func (i *Inclusions) EndBy(until time.Time) {
	if i.Until.IsZero() || !until.IsZero() && until.Before(i.Until) {
		i.Until = until
	}
}
