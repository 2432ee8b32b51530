package container_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container"
	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/mount/environment"
)

// locks is a fake build service with builds for environments. Like the real one, it only filters by scope, so that all
// other rules are those of the container service.
type locks struct {
	buildv1.UnimplementedBuildServiceServer
	// order holds the ids of the builds of the only lock, and located the builds.
	lock    string
	order   []string
	located map[string]*buildv1.LocateBuildResponse
	// ignoresScopes is set for a build service that returns the builds of all.
	ignoresScopes bool
}

func (l *locks) FindEnvironments(_ context.Context, req *buildv1.FindEnvironmentsRequest) (*buildv1.FindEnvironmentsResponse, error) {
	out := &buildv1.FindEnvironmentsResponse{}
	for _, id := range l.order {
		scope := l.located[id].GetScope()
		if req.GetLockDigest() == l.lock && (l.ignoresScopes || scope == "" || scope == req.GetScope()) {
			out.BuildIds = append(out.BuildIds, id)
		}
	}
	return out, nil
}

func (l *locks) LocateBuild(_ context.Context, req *buildv1.LocateBuildRequest) (*buildv1.LocateBuildResponse, error) {
	if b, ok := l.located[req.GetBuildId()]; ok {
		return b, nil
	}
	return nil, fault.NotFound.Newf("There is no such build")
}

// newLockSite returns a site with a fake build service without builds.
func newLockSite(t *testing.T, change func(*container.Deps)) (*site, *locks) {
	t.Helper()
	l := &locks{lock: strings.Repeat("3c", 32), located: map[string]*buildv1.LocateBuildResponse{}}
	client := buildv1.NewBuildServiceClient(serve(t, func(to *rpc.Server) {
		buildv1.RegisterBuildServiceServer(to, l)
		testkit.AllowRoles(to, "gateway")
	}))
	return newSiteWith(t, testkit.SQLite(t), func(d *container.Deps) {
		d.Build = client
		change(d)
	}), l
}

// add adds a build, the newest, in a repository of the open registry.
func (s *site) add(l *locks, id string, b *buildv1.LocateBuildResponse) {
	b.Target = &buildv1.Target{Registry: s.up.Host, Repository: "envs", Tag: id}
	b.Platform, b.Format = "linux/amd64", request.FormatEnvironment
	l.order, l.located[id] = append([]string{id}, l.order...), b
}

// environment returns the environment of the lock for the user of a token, or anonymously for "".
func (s *site) environment(t *testing.T, who, lock string, workspace int64) (*containerv1.GetEnvironmentResponse, error) {
	t.Helper()
	return s.GetEnvironment(signed(t.Context(), who), &containerv1.GetEnvironmentRequest{LockDigest: lock, WorkspaceId: workspace})
}

// pushEnvironment pushes an environment with a package, and returns its manifest and the digest of that.
func pushEnvironment(t *testing.T, to *testkit.Registry) (m ocispec.Manifest, d digest.Digest) {
	t.Helper()
	blob := func(mediaType, content string, annotations map[string]string) ocispec.Descriptor {
		d := digest.FromString(content)
		send(t, http.MethodPost, "http://"+to.Host+"/v2/envs/blobs/uploads/?digest="+d.String(), "application/octet-stream", []byte(content))
		return ocispec.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(content)), Annotations: annotations}
	}
	id := strings.Repeat("b1", 32)
	config, err := json.Marshal(environment.Config{Prefix: "/opt/conda", Index: digest.FromString("raw"), Packages: []environment.Package{{Name: "zlib", Blob: id}}})
	if err != nil {
		t.Fatal(err)
	}
	m = ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: environment.Type,
		Config: blob(environment.TypeConfig, string(config), nil),
		Layers: []ocispec.Descriptor{blob(environment.TypeIndex, "index", nil), blob("application/vnd.slipway.package.v1+zstd", "files", map[string]string{environment.BlobAnnotation: id})},
	}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	d = digest.FromBytes(raw)
	send(t, http.MethodPut, "http://"+to.Host+"/v2/envs/manifests/"+d.String(), m.MediaType, raw)
	return m, d
}

// send sends content that a registry has to store.
func send(t *testing.T, method, url, mediaType string, content []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", mediaType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("%s %s: %s", method, url, resp.Status)
	}
}

// TestEnvironmentOfLock checks what is returned for a lock: nothing, a pending build, the environment, and what is left if
// the registry has deleted an environment or a build has failed.
func TestEnvironmentOfLock(t *testing.T) {
	t.Parallel()
	s, l := newLockSite(t, func(*container.Deps) {})
	missing := func(when string) {
		t.Helper()
		if got, err := s.environment(t, "", l.lock, 0); !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "format environment") {
			t.Errorf("%s: %v, %v", when, got, err)
		}
	}
	missing("without builds")
	s.add(l, "fa11ed0000000000_1", &buildv1.LocateBuildResponse{State: buildv1.BuildState_BUILD_STATE_FAILED})
	missing("with a failed build")
	s.add(l, "de1e7ed000000000_1", &buildv1.LocateBuildResponse{State: buildv1.BuildState_BUILD_STATE_SUCCEEDED, Environment: digest.FromString("deleted").String()})
	missing("with a deleted environment")
	s.add(l, "0000000000000000_1", &buildv1.LocateBuildResponse{State: buildv1.BuildState_BUILD_STATE_RUNNING})
	want := &containerv1.GetEnvironmentResponse{
		LockDigest: proto.String("sha256:" + l.lock), Status: proto.String("PENDING"), BuildId: proto.String("0000000000000000_1"), Platform: proto.String("linux/amd64"),
	}
	got, err := s.environment(t, "", l.lock, 0)
	if diff := cmp.Diff(want, got, protocmp.Transform()); err != nil || diff != "" {
		t.Errorf("while it is made: %v, (-want +got):\n%s", err, diff)
	}
	m, d := pushEnvironment(t, s.up)
	s.add(l, "1111111111111111_2", &buildv1.LocateBuildResponse{State: buildv1.BuildState_BUILD_STATE_SUCCEEDED, Environment: d.String()})
	want.Status, want.BuildId, want.Digest = proto.String("COMPLETED"), proto.String("1111111111111111_2"), proto.String(d.String())
	want.Index = &containerv1.EnvironmentIndex{Digest: proto.String(m.Layers[0].Digest.String()), Size: proto.Float64(5), MediaType: proto.String(environment.TypeIndex)}
	want.Packages = []*containerv1.EnvironmentPackage{{Name: proto.String("zlib"), Digest: proto.String(m.Layers[1].Digest.String()), Size: proto.Float64(5)}}
	for _, lock := range []string{l.lock, "sha256:" + l.lock} {
		got, err := s.environment(t, "", lock, 0)
		if diff := cmp.Diff(want, got, protocmp.Transform()); err != nil || diff != "" {
			t.Errorf("%s: %v, (-want +got):\n%s", lock, err, diff)
		}
	}
}

// TestEnvironmentOfAnother checks that the environments of private channels and repositories are only shown to the users,
// workspaces and tokens that have requested them, and that no identity other than theirs is asked of the build service.
func TestEnvironmentOfAnother(t *testing.T) {
	t.Parallel()
	s, l := newLockSite(t, func(*container.Deps) {})
	_, d := pushEnvironment(t, s.up)
	ada := &platformv1.Identity{Endpoint: "http://localhost:9091", UserId: 1, WorkspaceId: 7}
	s.add(l, "ada0000000000000_1", &buildv1.LocateBuildResponse{
		State: buildv1.BuildState_BUILD_STATE_SUCCEEDED, Environment: d.String(), Identity: ada, Scope: request.ScopeOf(caller.Of(ada)),
	})
	s.add(l, "f11e500000000000_1", &buildv1.LocateBuildResponse{State: buildv1.BuildState_BUILD_STATE_SUCCEEDED, Environment: d.String(), PrivateInputs: true})
	for _, l.ignoresScopes = range []bool{false, true} {
		for _, c := range []struct {
			who       string
			workspace int64
			want      error
		}{
			{"", 0, fault.NotFound}, {"bob", 0, fault.NotFound}, {"bob", 7, fault.NotFound}, {"ada", 0, fault.NotFound},
			{"ada team/x", 7, fault.NotFound}, {"", 7, fault.Unauthenticated}, {"mallory", 0, fault.Unauthenticated}, {"ada", -1, fault.Invalid},
			{"ada", 7, nil},
		} {
			got, err := s.environment(t, c.who, l.lock, c.workspace)
			if !errors.Is(err, c.want) || (c.want == nil) != (got.GetBuildId() == "ada0000000000000_1") {
				t.Errorf("%q in workspace %d: %v, %v", c.who, c.workspace, got, err)
			}
		}
	}
	closed, _ := newLockSite(t, func(d *container.Deps) { d.AnonymousAccess = false })
	if _, err := closed.environment(t, "", l.lock, 0); !errors.Is(err, fault.Unauthenticated) {
		t.Errorf("a server that requires a login returns %v", err)
	}
}

// TestMalformedLockDigest checks that anything but the digest of a lock is rejected.
func TestMalformedLockDigest(t *testing.T) {
	t.Parallel()
	s, l := newLockSite(t, func(*container.Deps) {})
	for _, bad := range []string{"", "x", "sha256:", "sha512:" + l.lock, l.lock[1:], strings.ToUpper(l.lock), "sha256:sha256:" + l.lock, l.lock + "/"} {
		if got, err := s.environment(t, "", bad, 0); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "lockDigest") {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
}
