package build_test

import (
	"errors"
	"testing"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestInputs checks which inputs of a build are in the provenance of its image, which everyone
// can read who can pull the image.
func TestInputs(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		r := p.replica(t, 100)
		w := newWorker(t, p, 1)
		made := func(text, scope string, private bool) (id, digest string) {
			req := p.request(text, scope, nil)
			req.Recipe.Source = &containerv1.Source{Registry: "private.example.org", Repository: "team/base", Reference: "sha256:" + text}
			req.Lock = lockOf("linux/amd64", "linux-64")
			req.Lock.Private = private
			r.submit(t, req)
			j := w.take(t, r, 1)
			d := p.push(t, req, j.id)
			j.succeed(t, d)
			j.ended(t, r)
			return j.id, d
		}
		inputs := func(id, digest string) *buildv1.DescribeInputsResponse {
			t.Helper()
			in, err := r.DescribeInputs(t.Context(), &buildv1.DescribeInputsRequest{BuildId: id, Digest: digest})
			if err != nil {
				t.Fatal(err)
			}
			return in
		}
		id, digest := made("shared", "", false)
		in := inputs(id, digest)
		if in.GetBuild().GetBuildId() != id || in.GetImages()[0].GetRepository() != "team/base" || len(in.GetLocks()) != 1 || in.GetFinishedAt() == nil || in.GetBuild().UserId != nil {
			t.Errorf("a shared build: %v", in)
		}
		scopedID, scopedDigest := made("scoped", "user7", true)
		in = inputs(scopedID, scopedDigest)
		if len(in.GetLocks()) != 0 || in.GetImages()[0].GetRegistry() != "" || in.GetImages()[0].GetReference() != "sha256:scoped" || in.GetBuild().BuildId != nil || in.GetBuild().ContainerFile != nil {
			t.Errorf("a build of one user with a private channel: %v", in)
		}
		for _, c := range []struct{ id, digest string }{{id, scopedDigest}, {id, "sha256:other"}, {"0000000000000000_1", digest}} {
			if got, err := r.DescribeInputs(t.Context(), &buildv1.DescribeInputsRequest{BuildId: c.id, Digest: c.digest}); !errors.Is(err, fault.NotFound) {
				t.Errorf("%v: got %v, %v", c, got, err)
			}
		}
	})
}
