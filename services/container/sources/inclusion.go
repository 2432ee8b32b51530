package sources

import (
	"time"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// Inclusion is an included image as it is now, and who may read it.
type Inclusion struct {
	Field string
	// Image is as the request names it, source where it lies, by its digest.
	Image, Source oci.Reference
	Access        upstream.Access
	Identity      *platformv1.Identity
	BuildID       string
	// Above is what a request put on top of it, and its platforms are those that it did
	// that for; "" for all.
	Above     []*containerv1.Layer
	Platforms string
	// Layers are what it brings, of its own and above.
	Layers []*containerv1.Layer
	// Until is when the name ends that was the right to read it; zero for never.
	Until time.Time
}
