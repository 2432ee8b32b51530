package build

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/fault"
)

// TestNoWorker goes through what a request for a build hears while there is no
// worker, or the wrong one.
func TestNoWorker(t *testing.T) {
	t.Parallel()
	presence := func(p *buildv1.Presence) []byte {
		raw, err := proto.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	amd64 := presence(&buildv1.Presence{Worker: "w", Slots: 1, Capabilities: []*buildv1.Capability{{Engine: "buildkit", Architecture: "amd64"}}})
	broken := presence(&buildv1.Presence{Worker: "w", Problem: "there is no runc"})
	for _, tt := range []struct {
		name       string
		onDemand   bool
		heard      []byte
		arch       string
		ago        time.Duration
		able, wait bool
	}{
		{"none", false, nil, "amd64", 0, false, false},
		{"none yet, but started on demand", true, nil, "amd64", time.Minute, true, true},
		{"none for half an hour", true, nil, "amd64", 31 * time.Minute, true, false},
		{"one", false, amd64, "amd64", time.Hour, true, true},
		{"of another kind", false, amd64, "arm64", 0, false, false},
		{"of another kind, on demand", true, amd64, "arm64", 0, false, false},
		{"one that cannot", true, broken, "amd64", 0, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			w := newWorkers(func() time.Time { return now }, tt.onDemand)
			now = now.Add(time.Hour) // past the patience after the start
			if tt.heard != nil {
				w.hear(tt.heard)
			}
			if err := w.able("buildkit", tt.arch); (err == nil) != tt.able {
				t.Errorf("asked for a build: %v", err)
			}
			err := w.given(capability{"buildkit", tt.arch}, now.Add(-tt.ago))
			if (err == nil) != tt.wait {
				t.Errorf("waiting for a worker: %v", err)
			}
			if f, ok := fault.As(err); err != nil && (!ok || f.Kind != fault.Unsupported) {
				t.Errorf("the fault is %v", err)
			}
		})
	}
}
