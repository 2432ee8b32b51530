package build_test

import (
	"errors"
	"testing"

	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestMountedEnvironment checks that an image with mount is only complete with the artifact that its
// worker has reported, and that the artifact has provenance.
func TestMountedEnvironment(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		r, w := p.replica(t, 100), newWorker(t, p, 1)
		artifact := testkit.Image(t, "arm64", true)
		p.up.Push(t, "builds:artifact", artifact)
		pushed, err := artifact.Digest()
		if err != nil {
			t.Fatal(err)
		}
		there := pushed.String()
		for name, c := range map[string]struct {
			mount     bool
			reported  string
			known     string // the digest in the record
			isMissing bool   // whether the image is built again
		}{
			"there":            {true, there, there, false},
			"deleted":          {true, digest.FromString("deleted").String(), digest.FromString("deleted").String(), true},
			"malformed":        {true, "sha256:x", "", true},
			"an older release": {true, "", "", true},
			"without mount":    {false, there, "", false},
		} {
			req := p.request(name, "", nil)
			req.Recipe.Mount = c.mount
			r.submit(t, req)
			j := w.take(t, r, 1)
			image := p.push(t, req, j.id)
			j.report(t, &buildv1.Result{Succeeded: true, Digest: image, Environment: c.reported})
			j.ended(t, r)
			described, err := r.DescribeBuild(t.Context(), &buildv1.DescribeBuildRequest{BuildId: j.id})
			if err != nil || described.GetBuild().GetEnvironment() != c.known {
				t.Errorf("%s: the record has %q, %v", name, described.GetBuild().GetEnvironment(), err)
			}
			if again := r.submit(t, req); again.GetSucceeded() == c.isMissing {
				t.Errorf("%s: the next request got %v", name, again)
			} else if c.isMissing {
				w.take(t, r, 1).report(t, &buildv1.Result{Reason: "build"})
			}
			if c.known == "" {
				continue
			}
			in, err := r.DescribeInputs(t.Context(), &buildv1.DescribeInputsRequest{BuildId: j.id, Digest: c.known})
			if err != nil || in.GetBuild().GetBuildId() != j.id {
				t.Errorf("%s: the inputs of the artifact: %v, %v", name, in, err)
			}
			if _, err := r.DescribeInputs(t.Context(), &buildv1.DescribeInputsRequest{BuildId: j.id, Digest: digest.FromString("other").String()}); !errors.Is(err, fault.NotFound) {
				t.Errorf("%s: another artifact has inputs: %v", name, err)
			}
		}
	})
}
