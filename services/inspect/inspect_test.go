package inspect_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/inspect"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// adas is a platform with one access token and one login.
type adas struct {
	platformv1.AccessServiceClient
	registry string
}

func (adas) Authorize(_ context.Context, req *platformv1.AuthorizeRequest, _ ...grpc.CallOption) (*platformv1.AuthorizeResponse, error) {
	if req.GetAccessToken() != "token" {
		return nil, fault.Denied.Newf("The access token is not valid")
	}
	return &platformv1.AuthorizeResponse{Identity: &platformv1.Identity{Endpoint: "e", UserId: 1, UserName: "ada"}}, nil
}

func (a adas) GetCredentials(_ context.Context, req *platformv1.GetCredentialsRequest, _ ...grpc.CallOption) (*platformv1.GetCredentialsResponse, error) {
	if !strings.HasPrefix(req.GetRegistry(), a.registry+"/") {
		return &platformv1.GetCredentialsResponse{}, nil
	}
	return &platformv1.GetCredentialsResponse{Credentials: &platformv1.Credentials{
		Username: testkit.User, Password: testkit.Password,
	}}, nil
}

// A fixture is an inspect service with two registries, one of which requires a login.
type fixture struct {
	inspectv1.InspectServiceClient
	open, closed *testkit.Registry
}

func newFixture(t *testing.T, anonymous bool, pulls int) fixture {
	t.Helper()
	return newFixtureWith(t, anonymous, pulls, func(*inspect.Deps) {})
}

// newFixtureWith lets the test change the dependencies.
func newFixtureWith(t *testing.T, anonymous bool, pulls int, change func(*inspect.Deps)) fixture {
	t.Helper()
	r := fixture{open: testkit.NewRegistry(t, testkit.Open), closed: testkit.NewRegistry(t, testkit.Basic)}
	egress, err := upstream.NewEgress([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	to := upstream.Options{Egress: egress, Plain: []string{r.open.Host, r.closed.Host}, Metrics: prometheus.NewRegistry()}
	platform := adas{registry: r.closed.Host}
	limit := ratelimit.Limit{{Count: pulls, Window: time.Hour}}
	deps := inspect.Deps{
		Platform: platform, Upstream: upstream.New(to), Control: upstream.NewControl(to), Keychain: caller.NewKeychain(nil, platform),
		Limiter:         ratelimit.New(testkit.Redis(t), prometheus.NewRegistry(), testkit.Log(t)),
		Metrics:         prometheus.NewRegistry(),
		AnonymousAccess: anonymous,
	}
	deps.Limiter.SetLimits(ratelimit.Limits{ratelimit.Pulls: {User: limit, Anonymous: limit}})
	change(&deps)
	s := inspect.New(deps)
	conn, _ := testkit.Serve(t, s.Register, "gateway")
	r.InspectServiceClient = inspectv1.NewInspectServiceClient(conn)
	return r
}

// inspect inspects an image; platform and token may be "".
func (r fixture) inspect(ctx context.Context, image, platform, token string) (*inspectv1.InspectImageResponse, error) {
	req := &inspectv1.InspectImageRequest{Image: &inspectv1.ImageQuery{ContainerImage: image}}
	if platform != "" {
		req.Platform = proto.String(platform)
	}
	if token != "" {
		req.Image.PlatformAccessToken = token
	}
	return r.InspectImage(ctx, req)
}

func TestInspectImage(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 1000)
	index := testkit.Index(t, true, "amd64", "arm64")
	many, docker := r.open.Push(t, "lib/many:v1", index), r.open.Push(t, "lib/docker:v1", testkit.Image(t, "amd64", false))
	private := r.closed.Push(t, "team/tool:v1", testkit.Image(t, "arm64", true))
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, image, platform, token string
		holds                        func(*inspectv1.InspectImageResponse) bool
	}{
		{"index", many, "", "", func(a *inspectv1.InspectImageResponse) bool {
			x := a.GetIndex()
			return a.GetContainer().GetConfig().GetArchitecture() == "amd64" && x.GetDigest() == digest.String() && len(x.GetManifests()) == 2 &&
				x.GetManifests()[1].GetPlatform().GetArchitecture() == "arm64" && x.GetManifests()[1].GetSize() > 0
		}},
		{"entry of an index", many, "linux/arm64", "", func(a *inspectv1.InspectImageResponse) bool {
			c := a.GetContainer()
			return len(a.GetIndex().GetManifests()) == 2 && c.GetConfig().GetArchitecture() == "arm64" && c.GetOci() && !c.GetV2() && c.GetReference() == "v1" &&
				c.GetImageName() == "lib/many" && c.GetHostName() == "http://"+r.open.Host && len(c.GetManifest().GetLayers()) == 2
		}},
		{"Docker's manifest", docker, "", "", func(a *inspectv1.InspectImageResponse) bool {
			c := a.GetContainer()
			return c.GetV2() && !c.GetOci() && !c.GetV1() && len(c.GetConfig().GetConfig().GetEntrypoint()) > 0 && len(c.GetConfig().GetRootfs().GetDiffIds()) == 2 &&
				len(c.GetConfig().GetHistory()) == 2 && c.GetConfig().GetHistory()[1].GetCreatedBy() == "random"
		}},
		{"image alone, whatever platform", docker, "linux/amd64", "", func(a *inspectv1.InspectImageResponse) bool {
			return a.GetContainer().GetConfig().GetArchitecture() == "amd64"
		}},
		{"with a user's own login", private, "", "token", func(a *inspectv1.InspectImageResponse) bool {
			return a.GetContainer().GetRegistry() == r.closed.Host && a.GetContainer().GetDigest() != ""
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := r.inspect(t.Context(), tc.image, tc.platform, tc.token)
			if err != nil || !tc.holds(got) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestInspectImageRefuses(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 1000)
	image := r.open.Push(t, "lib/many:v1", testkit.Index(t, true, "amd64"))
	private := r.closed.Push(t, "team/tool:v1", testkit.Image(t, "amd64", true))
	for _, tc := range []struct {
		name, image, platform, token string
		kind                         fault.Kind
		says                         string
	}{
		{"nothing", "", "", "", fault.Invalid, "containerImage is missing"},
		{"malformed name", "http://a/b", "", "", fault.Invalid, "containerImage: "},
		{"malformed platform", image, "z80", "", fault.Invalid, "platform: "},
		{"platform that is not there", image, "linux/s390x", "", fault.NotFound, "linux/s390x"},
		{"image that is not there", r.open.Host + "/lib/none:v1", "", "", fault.NotFound, r.open.Host},
		{"private image, anonymous", private, "", "", fault.Unauthenticated, r.closed.Host},
		{"token that is not valid", image, "", "guess", fault.Unauthenticated, "not valid"},
		{"registry that may not be reached", "10.0.0.1/lib/tool:v1", "", "", fault.Invalid, "10.0.0.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := r.inspect(t.Context(), tc.image, tc.platform, tc.token)
			if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, %v; want %v, %q", got, err, tc.kind, tc.says)
			}
		})
	}
}

// TestHostileConfig checks that a config is verified against its digest.
func TestHostileConfig(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 1000)
	img := testkit.Image(t, "amd64", true)
	image := r.open.Push(t, "lib/tool:v1", img)
	digest, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	r.open.Intercept(func(w http.ResponseWriter, req *http.Request) bool {
		other := strings.HasSuffix(req.URL.Path, digest.String())
		if other {
			_, _ = w.Write([]byte(`{"architecture":"another"}`))
		}
		return other
	})
	if got, err := r.inspect(t.Context(), image, "", ""); !errors.Is(err, fault.Invalid) && !errors.Is(err, fault.Unavailable) {
		t.Errorf("a config with another digest: got %v, %v", got, err)
	}
}

// TestAnonymousAccess checks the setting, and that inspections are charged as pulls.
func TestAnonymousAccess(t *testing.T) {
	t.Parallel()
	shut := newFixture(t, false, 1)
	image := shut.open.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	if _, err := shut.inspect(t.Context(), image, "", ""); !errors.Is(err, fault.Unauthenticated) {
		t.Errorf("without a token: %v", err)
	}
	if _, err := shut.inspect(t.Context(), image, "", "token"); err != nil {
		t.Errorf("with a token: %v", err)
	}
	if _, err := shut.inspect(t.Context(), image, "", "token"); !errors.Is(err, fault.Exhausted) {
		t.Errorf("above the limit: %v", err)
	}
}

func TestValidateCredentials(t *testing.T) {
	t.Parallel()
	r, none := newFixture(t, true, 1000), fault.Kind{}
	for _, tc := range []struct {
		name, user, password, registry string
		valid                          bool
		kind                           fault.Kind
		says                           string
	}{
		{"good", testkit.User, testkit.Password, r.closed.Host, true, none, ""},
		{"as docker writes it", testkit.User, testkit.Password, "https://" + r.closed.Host + "/v1/", true, none, ""},
		{"wrong password", testkit.User, "wrong", r.closed.Host, false, none, ""},
		{"no user", "", "p", r.closed.Host, false, fault.Invalid, "userName is missing"},
		{"no password", "u", "", r.closed.Host, false, fault.Invalid, "password is missing"},
		{"no registry", "u", "p", "", false, fault.Invalid, "registry is missing"},
		{"no host", "u", "p", "a b", false, fault.Invalid, "registry must be a host"},
		{"registry that may not be reached", "u", "p", "10.0.0.1", false, fault.Invalid, "10.0.0.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := r.ValidateCredentials(t.Context(), &inspectv1.ValidateCredentialsRequest{
				Login: &inspectv1.Login{UserName: tc.user, Password: tc.password, Registry: tc.registry},
			})
			switch {
			case tc.says == "" && (err != nil || got.GetValid() != tc.valid):
				t.Errorf("got %v, %v", got, err)
			case tc.says != "" && (!errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.says)):
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// TestGuessesAreCharged checks that each validation of a login is charged as a pull.
func TestGuessesAreCharged(t *testing.T) {
	t.Parallel()
	r := newFixture(t, true, 2)
	try := func() error {
		_, err := r.ValidateCredentials(t.Context(), &inspectv1.ValidateCredentialsRequest{
			Login: &inspectv1.Login{UserName: "u", Password: "guess", Registry: r.closed.Host},
		})
		return err
	}
	for range 2 {
		if err := try(); err != nil {
			t.Errorf("within the limit: %v", err)
		}
	}
	if err := try(); !errors.Is(err, fault.Exhausted) {
		t.Errorf("above the limit: %v", err)
	}
}
