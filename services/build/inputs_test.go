package build_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/testing/protocmp"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
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
		if !in.GetIncomplete() {
			t.Error("the images of a worker of an earlier release count as complete")
		}
		for _, c := range []struct{ id, digest string }{{id, scopedDigest}, {id, "sha256:other"}, {"0000000000000000_1", digest}} {
			if got, err := r.DescribeInputs(t.Context(), &buildv1.DescribeInputsRequest{BuildId: c.id, Digest: c.digest}); !errors.Is(err, fault.NotFound) {
				t.Errorf("%v: got %v, %v", c, got, err)
			}
		}
	})
}

// TestReadInputs checks which of the images and layers that a worker reports are in the provenance.
func TestReadInputs(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		r := p.replica(t, 100)
		w := newWorker(t, p, 1)
		sum := func(of string) string { return digest.FromString(of).String() }
		described := func(text, scope string, change func(*buildv1.SubmitBuildRequest), in *buildv1.Inputs) *buildv1.DescribeInputsResponse {
			t.Helper()
			req := p.request(text, scope, nil)
			change(req)
			r.submit(t, req)
			j := w.take(t, r, 1)
			d := p.push(t, req, j.id)
			j.report(t, &buildv1.Result{Succeeded: true, Digest: d, Inputs: in})
			j.ended(t, r)
			out, err := r.DescribeInputs(t.Context(), &buildv1.DescribeInputsRequest{BuildId: j.id, Digest: d})
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		open := &buildv1.Input{Registry: "hub.test", Repository: "lib/base", Digest: sum("open")}
		images := func(list ...*containerv1.Source) *buildv1.DescribeInputsResponse {
			return &buildv1.DescribeInputsResponse{Images: list}
		}
		named := &containerv1.Source{Registry: "hub.test", Repository: "lib/base", Reference: sum("open")}
		for name, c := range map[string]struct {
			scope  string
			change func(*buildv1.SubmitBuildRequest)
			inputs *buildv1.Inputs
			want   *buildv1.DescribeInputsResponse
		}{
			"named and nameless": {
				inputs: &buildv1.Inputs{Inputs: []*buildv1.Input{open, {Digest: sum("private")}, {Digest: sum("open")}, {Digest: sum("private")}}},
				want:   images(named, &containerv1.Source{Reference: sum("private")}),
			},
			"of one user": {scope: "user7", inputs: &buildv1.Inputs{Inputs: []*buildv1.Input{{Digest: sum("open")}, open}}, want: images(named)},
			"of a private channel": {
				scope: "user8", inputs: &buildv1.Inputs{Inputs: []*buildv1.Input{open}}, want: images(&containerv1.Source{Reference: sum("open")}),
				change: func(req *buildv1.SubmitBuildRequest) {
					req.Lock = lockOf("linux/amd64", "linux-64")
					req.Lock.Private = true
				},
			},
			"of the service's own repository": {
				inputs: &buildv1.Inputs{Inputs: []*buildv1.Input{{Registry: p.up.Host, Repository: "builds/other", Digest: sum("own")}}}, want: images(&containerv1.Source{Reference: sum("own")}),
			},
			"layers": {
				inputs: &buildv1.Inputs{Inputs: []*buildv1.Input{open, {Digest: sum("1"), Layer: true}, {Digest: sum("2"), Layer: true}, {Digest: sum("1"), Layer: true}}},
				want:   &buildv1.DescribeInputsResponse{Images: []*containerv1.Source{named}, Layers: []string{sum("1"), sum("2")}},
			},
			"steps on an image that the build has pushed": {
				inputs: &buildv1.Inputs{}, want: images(&containerv1.Source{Reference: sum("first")}, named),
				change: func(req *buildv1.SubmitBuildRequest) {
					req.Recipe.Source = &containerv1.Source{Registry: p.up.Host, Repository: "builds", Reference: sum("first")}
					req.SubmittedRecipe = &buildv1.Recipe{Source: named}
				},
			},
			"malformed": {
				inputs: &buildv1.Inputs{Inputs: []*buildv1.Input{{Digest: "sha256:x"}, {Registry: "hub.test", Repository: "UP", Digest: sum("open")}, open}},
				want:   &buildv1.DescribeInputsResponse{Images: []*containerv1.Source{named}, Incomplete: true},
			},
			"too many": {
				inputs: &buildv1.Inputs{Inputs: slices.Repeat([]*buildv1.Input{open}, limits.BuildInputs+1)},
				want:   &buildv1.DescribeInputsResponse{Images: []*containerv1.Source{named}, Incomplete: true},
			},
			"unknown": {want: &buildv1.DescribeInputsResponse{Incomplete: true}},
		} {
			if c.change == nil {
				c.change = func(*buildv1.SubmitBuildRequest) {}
			}
			in := described(name, c.scope, c.change, c.inputs)
			got := &buildv1.DescribeInputsResponse{Images: in.GetImages(), Layers: in.GetLayers(), Incomplete: in.GetIncomplete()}
			if diff := cmp.Diff(c.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	})
}

// TestMirrorProvenance checks what is known of a mirror for its provenance, and how its state is noted.
func TestMirrorProvenance(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		r := p.replica(t, 100)
		w := newWorker(t, p, 1)
		w.appear(t, 1, &buildv1.Capability{Engine: "mirror", Architecture: "any"})
		sum := digest.FromString("image").String()
		mirror := func(text string, in *buildv1.Inputs) takenJob {
			req := p.request(text, "user7", nil)
			req.Recipe = &buildv1.Recipe{Engine: "mirror", Format: "oci", Source: &containerv1.Source{Registry: "hub.test", Repository: "lab/tool", Reference: sum}}
			req.Target = &buildv1.Target{Registry: p.up.Host, Repository: "mirror/lab/" + text, Tag: "v1"}
			r.submit(t, req)
			j := w.take(t, r, 1)
			j.report(t, &buildv1.Result{Succeeded: in != nil, Digest: sum, Inputs: in})
			j.ended(t, r)
			return j
		}
		note := func(id, state, message string) error {
			_, err := r.NoteMirrorProvenance(t.Context(), &buildv1.NoteMirrorProvenanceRequest{BuildId: id, State: state, Message: message})
			return err
		}
		public := mirror("public", &buildv1.Inputs{Inputs: []*buildv1.Input{{Registry: "hub.test", Repository: "lab/tool", Digest: sum}}})
		private := mirror("private", &buildv1.Inputs{Inputs: []*buildv1.Input{{Digest: sum}}})
		for id, want := range map[string]string{public.id: "lab/tool", private.id: ""} {
			at, err := r.LocateBuild(t.Context(), &buildv1.LocateBuildRequest{BuildId: id})
			if err != nil {
				t.Fatal(err)
			}
			if c := at.GetCopied(); c.GetSource().GetRepository() != want || c.GetSource().GetReference() != sum || c.GetContentDigest() == "" || c.GetStartedAt() == nil || c.GetFinishedAt() == nil {
				t.Errorf("it has copied %v, want %q", c, want)
			}
		}
		for _, c := range []struct{ state, message, wantState, wantMessage string }{
			{"", "", "", ""}, {"PENDING", "it is down", "PENDING", "it is down"}, {"ATTACHED", "", "ATTACHED", ""}, {"FAILED", "later", "ATTACHED", ""},
		} {
			if c.state != "" {
				if err := note(public.id, c.state, c.message); err != nil {
					t.Fatal(err)
				}
			}
			m, err := r.DescribeMirror(t.Context(), &buildv1.DescribeMirrorRequest{MirrorId: public.id})
			if err != nil || m.GetMirror().GetProvenance() != c.wantState || m.GetMirror().GetProvenanceMessage() != c.wantMessage {
				t.Errorf("after %q it is %v, %v", c.state, m, err)
			}
		}
		if err := note(private.id, "FAILED", strings.Repeat("x", 2*limits.MirrorNote)); err != nil {
			t.Fatal(err)
		}
		if m, err := r.DescribeMirror(t.Context(), &buildv1.DescribeMirrorRequest{MirrorId: private.id}); err != nil || m.GetMirror().GetProvenance() != "FAILED" || len(m.GetMirror().GetProvenanceMessage()) > limits.MirrorNote+3 {
			t.Errorf("after a refusal it is %v, %v", m, err)
		}
		failed := mirror("failed", nil)
		for id, want := range map[string]error{"x": fault.NotFound, "0000000000000000_1": fault.NotFound, failed.id: fault.NotFound} {
			if err := note(id, "ATTACHED", ""); !errors.Is(err, want) {
				t.Errorf("%s: %v", id, err)
			}
		}
		for _, c := range [][2]string{{"DONE", ""}, {"ATTACHED", "but"}, {"FAILED", ""}} {
			if err := note(public.id, c[0], c[1]); !errors.Is(err, fault.Invalid) {
				t.Errorf("%q: %v", c, err)
			}
		}
	})
}
