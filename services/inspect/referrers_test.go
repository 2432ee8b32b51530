package inspect_test

import (
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"google.golang.org/protobuf/proto"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/internal/testkit"
)

// TestReferrers checks that the referrers of an index and of its image are returned on request.
func TestReferrers(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 1000)
	index := testkit.Index(t, true, "amd64", "arm64")
	many := r.open.Push(t, "lib/many:v1", index)
	images, err := partial.Manifests(index)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for tag, subject := range map[string]partial.Describable{"a": index, "b": images[0], "c": images[1]} {
		d, err := partial.Descriptor(subject)
		if err != nil {
			t.Fatal(err)
		}
		signed, ok := mutate.Subject(testkit.Image(t, "amd64", true), *d).(v1.Image)
		if !ok {
			t.Fatal("no image")
		}
		r.open.Push(t, "lib/many:"+tag, signed)
		if h, err := signed.Digest(); err != nil {
			t.Fatal(err)
		} else if tag != "c" { // tag c is the image for the other platform
			want = append(want, h.String())
		}
	}
	ask := func(referrers bool) []*inspectv1.Descriptor {
		out, err := r.InspectImage(t.Context(), &inspectv1.InspectImageRequest{Image: &inspectv1.ImageQuery{ContainerImage: many}, Referrers: proto.Bool(referrers)})
		if err != nil {
			t.Fatal(err)
		}
		return out.GetReferrers()
	}
	got := ask(true)
	if len(got) != 2 || got[0].GetSize() == 0 || !slices.Contains(want, got[0].GetDigest()) || !slices.Contains(want, got[1].GetDigest()) || got[0].GetDigest() == got[1].GetDigest() {
		t.Errorf("got referrers %v, want %v", got, want)
	}
	if got := ask(false); got != nil {
		t.Errorf("without a request for referrers: %v", got)
	}
}
