package conda_test

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
)

// layers is a build service that has some layers.
type layers struct {
	buildv1.BuildServiceClient
	there []spec.LayerKey
	fails bool
	hangs bool
	asked int
}

func (l *layers) FindLayers(ctx context.Context, in *buildv1.FindLayersRequest, _ ...grpc.CallOption) (*buildv1.FindLayersResponse, error) {
	l.asked++
	if l.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if l.fails {
		return nil, fault.Unavailable.Newf("the bus is away")
	}
	out := &buildv1.FindLayersResponse{}
	for _, k := range in.GetKeys() {
		out.There = append(out.There, slices.Contains(l.there, spec.LayerKey(k)))
	}
	return out, nil
}

// TestExistingLayers checks that a lock reports which packages exist as layers, if that
// is known, and that private layers are not counted.
func TestExistingLayers(t *testing.T) {
	t.Parallel()
	builds := &layers{}
	service, at := startWith(t, builds)
	rec := spec.Record{
		Name: "htslib", Version: "1.20", Build: "0", Size: 4, SHA256: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		Channel: "lab", Subdir: "linux-64", FileName: "htslib-1.20-0.conda", URL: at + "/lab/linux-64/htslib-1.20-0.conda",
	}
	key, err := rec.LayerKey(spec.Python{}, spec.Gzip, "")
	if err != nil {
		t.Fatal(err)
	}
	query := func(channel string) *condav1.LockQuery {
		return &condav1.LockQuery{Packages: entries(channel, "samtools=1.20", "htslib=1.20"), PlatformAccessToken: "token"}
	}
	lock := func(q *condav1.LockQuery) *condav1.PlatformLock {
		t.Helper()
		got, err := lockOf(t, service, q)
		if err != nil {
			t.Fatal(err)
		}
		return got.GetLocks()[0]
	}
	if got := lock(query("lab")); got.KnownLayers == nil || got.GetKnownLayers() != 0 || got.GetMissingBytes() != 14 {
		t.Errorf("with no existing layer: %v", got)
	}
	builds.there = []spec.LayerKey{key}
	if got := lock(query("lab")); got.GetKnownLayers() != 1 || got.GetMissingBytes() != 10 {
		t.Errorf("with one existing layer: %v", got)
	}
	before := builds.asked
	if got := lock(query("private")); got.KnownLayers != nil || got.MissingBytes != nil || builds.asked != before {
		t.Errorf("from a private channel: %v", got)
	}
	file := query("lab")
	file.Format = "explicit"
	if got, err := lockOf(t, service, file); err != nil || got.Text == nil || builds.asked != before {
		t.Errorf("as a file: %v, %v", got, err)
	}
	builds.fails = true
	if got := lock(query("lab")); got.KnownLayers != nil || got.MissingBytes != nil || len(got.GetPackages()) != 2 {
		t.Errorf("when the lookup fails: %v", got)
	}
	builds.hangs = true
	if got := lock(query("lab")); got.KnownLayers != nil || len(got.GetPackages()) != 2 {
		t.Errorf("when the lookup does not respond: %v", got)
	}
}
