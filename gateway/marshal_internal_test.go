package gateway

import (
	"fmt"
	"runtime"
	"testing"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
)

// TestLargeResponses checks that the memory for encoding a response is bounded, since many
// may be encoded concurrently.
//
//nolint:paralleltest // it measures what is allocated meanwhile
func TestLargeResponses(t *testing.T) {
	labels := map[string]string{}
	for i := range 30_000 {
		labels[fmt.Sprint(i)] = fmt.Sprintf("%0100d", i)
	}
	answer := &inspectv1.InspectImageResponse{Container: &inspectv1.ContainerInspection{
		Config: &inspectv1.ImageConfig{Config: &inspectv1.RuntimeConfig{Labels: labels}},
	}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	raw, err := newMarshaler(jsonLimits{}).Marshal(answer)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 8*uint64(len(raw)) {
		t.Errorf("%d bytes of JSON took %d bytes to write", len(raw), used)
	}
}
