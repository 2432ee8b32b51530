package request

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// With returns what the request and its included images add to an image or a build result,
// without contents; nil for nothing.
func (p Parsed) With(included Inclusions) *containerv1.ContainerConfig {
	out := withoutContents(p.Raw.GetContainerConfig())
	if len(included.Layers) == 0 {
		return out
	}
	if out == nil {
		out = &containerv1.ContainerConfig{}
	}
	out.Layers = append(out.Layers, included.Layers...)
	return out
}

// checkIncludes parses the names of included images.
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

// CheckCount limits the number of layers that are added to one image.
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

// Includes reports whether a configuration has layers of other images.
func Includes(c *containerv1.ContainerConfig) bool {
	return slices.ContainsFunc(c.GetLayers(), isIncluded)
}

func isIncluded(l *containerv1.Layer) bool { return l.GetIncludedFrom() != nil }

// WithoutIncluded returns a configuration without the layers of other images, as a request
// could have it.
func WithoutIncluded(c *containerv1.ContainerConfig) *containerv1.ContainerConfig {
	if !Includes(c) {
		return c
	}
	out := proto.CloneOf(c)
	out.Layers = slices.DeleteFunc(out.Layers, isIncluded)
	return withoutContents(out)
}

// Inclusions holds the included images of a request; the zero value has none.
type Inclusions struct {
	// Images lists the images by digest.
	Images []string
	Layers []*containerv1.Layer
	// Until is the earliest expiry of the issued names that authorized access to an image;
	// zero for never.
	Until time.Time
}

// EndBy sets an earlier expiry; a zero time has no effect.
func (i *Inclusions) EndBy(until time.Time) {
	if i.Until.IsZero() || !until.IsZero() && until.Before(i.Until) {
		i.Until = until
	}
}
