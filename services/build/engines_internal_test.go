package build

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/workers"
)

// TestEngines checks the list of engines, each with the architectures of all workers, or
// the reason why it is unavailable.
func TestEngines(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := &Service{workers: workers.New(func() time.Time { return now }, false)}
	now = now.Add(time.Hour)
	for _, p := range []*buildv1.Presence{
		{Worker: "a", Slots: 1, Capabilities: []*buildv1.Capability{{Engine: "buildkit", Architecture: "arm64"}, {Engine: "conda", Architecture: "any"}}},
		{Worker: "b", Slots: 1, Capabilities: []*buildv1.Capability{{Engine: "buildkit", Architecture: "amd64"}, {Engine: "buildkit", Architecture: "arm64"}}},
	} {
		raw, err := proto.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		s.workers.Observe(raw)
	}
	want := &buildv1.ListEnginesResponse{Engines: []*buildv1.Engine{
		{Name: "buildkit", Architectures: []string{"amd64", "arm64"}},
		{Name: "freeze", Problem: "no live worker has this engine"}, {Name: "mirror", Problem: "no live worker has this engine"}, {Name: "sif", Problem: "no live worker has this engine"},
		{Name: "conda", Architectures: []string{"any"}},
	}}
	if got, err := s.ListEngines(t.Context(), &buildv1.ListEnginesRequest{}); err != nil || !proto.Equal(got, want) {
		t.Errorf("got  %v, %v\nwant %v", got, err, want)
	}
}
