package conda_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/conda"
	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// A platform is a platform service with one user, who has one login.
type platform struct {
	platformv1.AccessServiceClient
	host string
}

func (p platform) Authorize(_ context.Context, in *platformv1.AuthorizeRequest, _ ...grpc.CallOption) (*platformv1.AuthorizeResponse, error) {
	if in.GetAccessToken() == "admin" {
		return &platformv1.AuthorizeResponse{Administrator: true}, nil
	}
	if in.GetAccessToken() != "token" {
		return nil, fault.Denied.Newf("The access token is not valid")
	}
	return &platformv1.AuthorizeResponse{Identity: &platformv1.Identity{Endpoint: "e", UserId: 1, WorkspaceId: in.GetWorkspaceId()}}, nil
}

func (p platform) GetCredentials(_ context.Context, in *platformv1.GetCredentialsRequest, _ ...grpc.CallOption) (*platformv1.GetCredentialsResponse, error) {
	out := &platformv1.GetCredentialsResponse{}
	if in.GetRegistry() == "conda/"+p.host+"/private" && in.GetIdentity().GetWorkspaceId() != other {
		out.Credentials = &platformv1.Credentials{Username: "bearer", Password: "s3cret"}
	}
	return out, nil
}

// other is a workspace that has no logins.
const other = 8

const library = `{"packages.conda":{
 "samtools-1.20-h1_0.conda":{"name":"samtools","version":"1.20","build":"h1_0","depends":["htslib >=1.20","__glibc >=2.17"],"size":10,"license":"MIT","timestamp":1700000000000,"md5":"0123456789abcdef0123456789abcdef"},
 "samtools-1.21-h1_0.conda":{"name":"samtools","version":"1.21","build":"h1_0","depends":["htslib >=1.21"],"size":11,"timestamp":1800000000000},
 "htslib-1.17-0.conda":{"name":"htslib","version":"1.17","build":"0","size":3},
 "htslib-1.20-0.conda":{"name":"htslib","version":"1.20","build":"0","size":4,"sha256":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
 "htslib-1.21-0.conda":{"name":"htslib","version":"1.21","build":"0","size":5,"timestamp":1800000000000},
 "newer-1-0.conda":{"name":"newer","version":"1","build":"0","depends":["__glibc >=2.99"]}
}}`

// start starts a service with two channels: lab, and private, which requires a login.
func start(t *testing.T) (condav1.CondaServiceClient, string) {
	t.Helper()
	return startWith(t, nil)
}

// startWith is start with a build service, which may be nil.
func startWith(t *testing.T, builds buildv1.BuildServiceClient) (condav1.CondaServiceClient, string) {
	t.Helper()
	return serve(t, builds, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/private/") && r.Header.Get("Authorization") != "Bearer s3cret":
			w.WriteHeader(http.StatusForbidden)
		case strings.HasSuffix(r.URL.Path, "/linux-64/repodata.json") && (strings.HasPrefix(r.URL.Path, "/lab/") || strings.HasPrefix(r.URL.Path, "/private/")):
			_, _ = io.WriteString(w, library)
		case r.URL.Path == "/conda-forge/linux-64/repodata.json":
			_, _ = io.WriteString(w, `{"packages.conda":{"procps-ng-4-0.conda":{"name":"procps-ng","version":"4","build":"0"}}}`)
		case r.URL.Path == "/bioconda/linux-64/repodata.json":
			_, _ = io.WriteString(w, `{"packages.conda":{"bwa-1-0.conda":{"name":"bwa","version":"1","build":"0"}}}`)
		default:
			http.NotFound(w, r)
		}
	})
}

// serve serves the service with the channels of a handler.
func serve(t *testing.T, builds buildv1.BuildServiceClient, handler http.HandlerFunc) (condav1.CondaServiceClient, string) {
	t.Helper()
	return serveWith(t, func(d *conda.Deps) { d.Build = builds }, handler)
}

// serveWith is serve with changed dependencies; change may be nil.
func serveWith(t *testing.T, change func(*conda.Deps), handler http.HandlerFunc) (condav1.CondaServiceClient, string) {
	t.Helper()
	return serveStore(t, change, func(*channel.Options) {}, handler)
}

// serveStore is serveWith with changed options of the package lists.
func serveStore(t *testing.T, change func(*conda.Deps), options func(*channel.Options), handler http.HandlerFunc) (condav1.CondaServiceClient, string) {
	t.Helper()
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	host := strings.TrimPrefix(web.URL, "http://")
	egress, err := upstream.NewEgress([]string{host})
	if err != nil {
		t.Fatal(err)
	}
	names, err := channel.NewNames(web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := channel.Options{
		Dir: t.TempDir(), Refresh: time.Hour, Names: names, Client: channel.NewClient(upstream.NewTransport(egress)),
		Metrics: prometheus.NewRegistry(), Log: testkit.Log(t), Now: time.Now,
	}
	options(&o)
	channels, err := channel.New(o)
	if err != nil {
		t.Fatal(err)
	}
	people := platform{host: host}
	deps := conda.Deps{
		Platform: people, Keychain: caller.NewKeychain(nil, people), Limiter: ratelimit.New(testkit.Redis(t), prometheus.NewRegistry(), testkit.Log(t)),
		Channels: channels, Turns: fairshare.NewTurns(10, time.Minute), Metrics: prometheus.NewRegistry(), Now: time.Now, AnonymousAccess: true,
	}
	deps.Limiter.SetLimits(ratelimit.Limits{ratelimit.Searches: {Anonymous: ratelimit.Limit{{Count: 100, Window: time.Hour}}}})
	if change != nil {
		change(&deps)
	}
	s := conda.New(deps)
	testkit.Run(t, s.Run)
	conn, _ := testkit.Serve(t, s.Register, "gateway", "container")
	return condav1.NewCondaServiceClient(conn), web.URL
}

func lockOf(t *testing.T, service condav1.CondaServiceClient, q *condav1.LockQuery) (*condav1.LockPackagesResponse, error) {
	t.Helper()
	if q.Packages != nil && q.Packages.Type == "" {
		q.Packages.Type = "CONDA"
	}
	return service.LockPackages(t.Context(), &condav1.LockPackagesRequest{Lock: q})
}

func entries(channel string, specs ...string) *condav1.CondaPackages {
	return &condav1.CondaPackages{Entries: specs, Channels: []string{channel}}
}

// chosen returns the names and versions of the first lock.
func chosen(r *condav1.LockPackagesResponse) string {
	var out []string
	for _, l := range r.GetLocks() {
		for _, p := range l.GetPackages() {
			out = append(out, p.GetName()+"="+p.GetVersion())
		}
	}
	return strings.Join(out, " ")
}

func TestLock(t *testing.T) {
	t.Parallel()
	service, at := start(t)
	got, err := lockOf(t, service, &condav1.LockQuery{Packages: entries("lab", "samtools=1.20", "htslib=1.20")})
	if err != nil {
		t.Fatal(err)
	}
	if c := chosen(got); c != "htslib=1.20 samtools=1.20" {
		t.Fatalf("got %s: %s", c, got.GetMessage())
	}
	l := got.GetLocks()[0]
	p := l.GetPackages()[1]
	if l.GetPlatform() != "linux/amd64" || l.GetSize() != 14 || l.GetVirtualPackages()["__glibc"] != "2.39" || l.GetVirtualPackages()["__archspec"] != "1=x86_64_v3" ||
		!strings.HasPrefix(l.GetSnapshots()["lab/linux-64"], "sha256:") || p.GetUrl() != at+"/lab/linux-64/samtools-1.20-h1_0.conda" || p.GetLicense() != "MIT" || p.Sha256 != nil {
		t.Errorf("the lock is %v", l)
	}

	for name, c := range map[string]struct {
		q    *condav1.LockQuery
		want string
	}{
		"newest":        {&condav1.LockQuery{Packages: entries("lab", "samtools")}, "htslib=1.21 samtools=1.21"},
		"excludeNewer":  {&condav1.LockQuery{Packages: entries("lab", "samtools"), ExcludeNewer: "2024-01-01T00:00:00Z"}, "htslib=1.20 samtools=1.20"},
		"a new machine": {&condav1.LockQuery{Packages: entries("lab", "newer"), VirtualPackages: map[string]string{"__glibc": "3.0"}}, "newer=1"},
		"a file":        {&condav1.LockQuery{Packages: &condav1.CondaPackages{Environment: "Y2hhbm5lbHM6IFtsYWJdCmRlcGVuZGVuY2llczogW2h0c2xpYj0xLjE3XQ"}}, "htslib=1.17"},
		"channel::name": {&condav1.LockQuery{Packages: entries("bioconda", "bwa", "lab::htslib=1.17")}, "bwa=1 htslib=1.17"},
		"by URL":        {&condav1.LockQuery{Packages: entries(at+"/lab", "htslib=1.17")}, "htslib=1.17"},
	} {
		got, err := lockOf(t, service, c.q)
		if err != nil || chosen(got) != c.want {
			t.Errorf("%s: %s, %v: %s", name, chosen(got), err, got.GetMessage())
		}
	}
}

func TestLockAsText(t *testing.T) {
	t.Parallel()
	service, at := start(t)
	for format, want := range map[string]string{
		"explicit": at + "/lab/linux-64/samtools-1.20-h1_0.conda#0123456789abcdef0123456789abcdef", "conda-lock": "samtools", "pixi": "samtools",
	} {
		got, err := lockOf(t, service, &condav1.LockQuery{Packages: entries("lab", "samtools=1.20", "htslib=1.20"), Format: format})
		if err != nil || !strings.Contains(got.GetText(), want) || got.GetLocks() != nil {
			t.Errorf("%s: %v, %v", format, got, err)
		}
	}
}

// TestImpossible checks the explanation of an unsatisfiable request, as text and as data,
// and that the suggestions are solvable.
func TestImpossible(t *testing.T) {
	t.Parallel()
	service, _ := start(t)
	got, err := lockOf(t, service, &condav1.LockQuery{Packages: entries("lab", "samtools=1.20", "htslib=1.17")})
	if err != nil || got.GetLocks() != nil || len(got.GetConflict().GetReasons()) == 0 || len(got.GetSuggestions()) == 0 {
		t.Fatalf("got %v, %v", got, err)
	}
	for _, word := range []string{"samtools", "htslib", "1.17", ">=1.20", "What would work:"} {
		if !strings.Contains(got.GetMessage(), word) {
			t.Errorf("the message lacks %q:\n%s", word, got.GetMessage())
		}
	}
	for _, s := range got.GetSuggestions() {
		again, err := lockOf(t, service, &condav1.LockQuery{Packages: entries("lab", s.GetPackages()...)})
		if err != nil || again.GetLocks() == nil {
			t.Errorf("the suggestion %q is not solvable: %v, %v", s.GetChange(), again, err)
		}
	}
	got, err = lockOf(t, service, &condav1.LockQuery{Packages: entries("lab", "samtols")})
	if err != nil || len(got.GetConflict().GetMissing()) != 1 || !slices.Contains(got.GetConflict().GetMissing()[0].GetNearest(), "samtools") {
		t.Errorf("for a misspelt name: %v, %v", got, err)
	}
}

// TestForContainer checks that the base packages of containers are part of the solve, and
// that no suggestion mentions them.
func TestForContainer(t *testing.T) {
	t.Parallel()
	service, _ := start(t)
	got, err := lockOf(t, service, &condav1.LockQuery{Packages: entries("lab", "samtools=1.20"), ForContainer: true})
	if err != nil || !strings.Contains(chosen(got), "procps-ng=4") || !strings.Contains(chosen(got), "samtools=1.20") {
		t.Errorf("got %v, %v", got, err)
	}
	got, err = lockOf(t, service, &condav1.LockQuery{Packages: entries("lab", "samtools=1.20", "htslib=1.17"), ForContainer: true})
	if err != nil || len(got.GetSuggestions()) == 0 {
		t.Fatalf("got %v, %v", got, err)
	}
	for _, s := range got.GetSuggestions() {
		if n := len(s.GetPackages()); n == 0 || n > 2 || strings.Contains(strings.Join(s.GetPackages(), " "), "procps") {
			t.Errorf("the suggestion %q is %q", s.GetChange(), s.GetPackages())
		}
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	service, at := start(t)
	many := make([]string, 1001)
	for i := range many {
		many[i] = "a"
	}
	for name, c := range map[string]struct {
		q    *condav1.LockQuery
		kind fault.Kind
		text string
	}{
		"no packages":                       {&condav1.LockQuery{}, fault.Invalid, "packages"},
		"another type":                      {&condav1.LockQuery{Packages: &condav1.CondaPackages{Type: "CRAN", Entries: []string{"a"}}}, fault.Invalid, "CONDA"},
		"no entries":                        {&condav1.LockQuery{Packages: &condav1.CondaPackages{}}, fault.Invalid, "entries"},
		"a malformed specification":         {&condav1.LockQuery{Packages: entries("lab", "a >=")}, fault.Invalid, "packages"},
		"a package of pip":                  {&condav1.LockQuery{Packages: entries("lab", "pip:numpy")}, fault.Invalid, "pip"},
		"too many packages":                 {&condav1.LockQuery{Packages: entries("lab", many...)}, fault.Invalid, "1000"},
		"an unsupported platform":           {&condav1.LockQuery{Packages: entries("lab", "htslib"), Platforms: []string{"windows/amd64"}}, fault.Invalid, "platforms[0]"},
		"an unknown format":                 {&condav1.LockQuery{Packages: entries("lab", "htslib"), Format: "xml"}, fault.Invalid, "format"},
		"a malformed time":                  {&condav1.LockQuery{Packages: entries("lab", "htslib"), ExcludeNewer: "yesterday"}, fault.Invalid, "excludeNewer"},
		"an invalid virtual package":        {&condav1.LockQuery{Packages: entries("lab", "htslib"), VirtualPackages: map[string]string{"glibc": "2"}}, fault.Invalid, "virtualPackages"},
		"a login in a URL":                  {&condav1.LockQuery{Packages: entries("https://u:p@example.org/c", "htslib")}, fault.Invalid, "login"},
		"plain http":                        {&condav1.LockQuery{Packages: entries("http://example.org/c", "htslib")}, fault.Invalid, "https"},
		"a private host":                    {&condav1.LockQuery{Packages: entries("https://127.0.0.2:1/c", "htslib")}, fault.Invalid, "not a public address"},
		"a missing channel":                 {&condav1.LockQuery{Packages: entries("nowhere", "htslib")}, fault.Invalid, "There is no channel nowhere, or it has nothing for the platform"},
		"a missing channel of a package":    {&condav1.LockQuery{Packages: entries("lab", "nowhere::htslib")}, fault.Invalid, "nothing for the platform (nowhere::htslib is to come from it)"},
		"a misspelt channel":                {&condav1.LockQuery{Packages: entries("conda-forg", "htslib")}, fault.Invalid, "did you mean conda-forge?"},
		"a private channel without a login": {&condav1.LockQuery{Packages: entries(at+"/private", "htslib")}, fault.Denied, "credentials add NAME --channel URL"},
		"an invalid access token":           {&condav1.LockQuery{Packages: entries("lab", "htslib"), PlatformAccessToken: "x"}, fault.Unauthenticated, "token"},
	} {
		got, err := lockOf(t, service, c.q)
		f, ok := fault.As(err)
		if !ok || !errors.Is(err, c.kind) || !strings.Contains(f.Public, c.text) {
			t.Errorf("%s: %v, %v; want %v with %q", name, got, err, c.kind, c.text)
		}
	}
}

// TestDefaults checks that "nodefaults" is ignored, and that "defaults" resolves to the
// operator's channels, or is ignored with a note.
func TestDefaults(t *testing.T) {
	t.Parallel()
	service, _ := start(t)
	const note = `The channel "defaults" is ignored`
	for _, c := range []struct {
		channels    []string
		spec, want  string
		says, error string
	}{
		{channels: []string{"lab", "nodefaults"}, spec: "htslib=1.17", want: "htslib=1.17"},
		{channels: []string{"nodefaults"}, spec: "bwa", want: "bwa=1"},
		{channels: []string{"defaults"}, spec: "bwa", want: "bwa=1", says: note},
		{channels: []string{"lab", "defaults"}, spec: "htslib=1.17", want: "htslib=1.17", says: note},
	} {
		got, err := lockOf(t, service, &condav1.LockQuery{Packages: &condav1.CondaPackages{Entries: []string{c.spec}, Channels: c.channels}})
		if err != nil || chosen(got) != c.want || !strings.HasPrefix(strings.Join(got.GetNotes(), "|"), c.says) || c.says == "" && got.GetNotes() != nil {
			t.Errorf("%q: %s, %q, %v", c.channels, chosen(got), got.GetNotes(), err)
		}
	}
}

// TestPrivateChannel checks that a user's own login gives access to a private channel, and
// that no response contains it.
func TestPrivateChannel(t *testing.T) {
	t.Parallel()
	service, at := start(t)
	got, err := lockOf(t, service, &condav1.LockQuery{Packages: entries(at+"/private", "htslib=1.17"), PlatformAccessToken: "token"})
	if err != nil || chosen(got) != "htslib=1.17" {
		t.Fatalf("got %v, %v", got, err)
	}
	if strings.Contains(got.String(), "s3cret") {
		t.Errorf("the response contains the login: %v", got)
	}
	if _, err := lockOf(t, service, &condav1.LockQuery{Packages: entries(at+"/private", "htslib=1.17")}); !errors.Is(err, fault.Denied) {
		t.Errorf("another user got %v", err)
	}
}

// TestChannels checks that only administrators can list the age of the package lists,
// without the names of callers' channels and private channels.
func TestChannels(t *testing.T) {
	t.Parallel()
	service, at := start(t)
	for name, q := range map[string]*condav1.LockQuery{
		"known":   {Packages: entries("bioconda", "bwa")},
		"named":   {Packages: entries(at+"/lab", "htslib=1.17")},
		"private": {Packages: entries(at+"/private", "htslib=1.17"), PlatformAccessToken: "token"},
	} {
		if got, err := lockOf(t, service, q); err != nil || got.GetLocks() == nil {
			t.Fatalf("%s: %v, %v", name, got, err)
		}
	}
	as := func(token string) (*condav1.ListChannelsResponse, error) {
		return service.ListChannels(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token), &condav1.ListChannelsRequest{})
	}
	if got, err := as("token"); !errors.Is(err, fault.Denied) {
		t.Errorf("a user got %v, %v", got, err)
	}
	if got, err := service.ListChannels(t.Context(), &condav1.ListChannelsRequest{}); !errors.Is(err, fault.Unauthenticated) {
		t.Errorf("an anonymous caller got %v, %v", got, err)
	}
	got, err := as("admin")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.GetChannels()) != 1 || strings.Contains(got.String(), "lab") || strings.Contains(got.String(), "private") {
		t.Fatalf("the channels are %v", got)
	}
	c, others := got.GetChannels()[0], got.GetOthers()
	if c.GetChannel() != "bioconda" || c.GetSubdir() != "linux-64" || c.GetSize() == 0 || c.Problem != nil || time.Since(c.GetCheckedTime().AsTime()) > time.Minute {
		t.Errorf("bioconda's state is %v", c)
	}
	if others.GetSize() == 0 || others.GetCheckedTime() == nil || others.Channel != nil {
		t.Errorf("the state of the others is %v", others)
	}
}

// TestSearchInAWorkspace checks that a search uses the logins of the requested workspace.
func TestSearchInAWorkspace(t *testing.T) {
	t.Parallel()
	service, at := start(t)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer token")
	for workspace, want := range map[int64]error{0: nil, 7: nil, other: fault.Denied} {
		got, err := service.SearchPackages(ctx, &condav1.SearchPackagesRequest{Channel: at + "/private", WorkspaceId: workspace})
		if !errors.Is(err, want) || want == nil && len(got.GetPackages()) == 0 {
			t.Errorf("in the workspace %d: %v, %v", workspace, got, err)
		}
	}
}

func TestSolvePackages(t *testing.T) {
	t.Parallel()
	service, _ := start(t)
	packages := entries("lab", "htslib=1.20")
	packages.Type = "CONDA"
	got, err := service.SolvePackages(t.Context(), &condav1.SolvePackagesRequest{Lock: &condav1.LockQuery{Packages: packages, Platforms: []string{"linux/amd64", "amd64"}}})
	if err != nil || len(got.GetRecords()) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
	if got.GetPrivate() || !slices.Equal(got.GetSubdirs(), []string{"linux-64"}) || !slices.Equal(got.GetChannels(), []string{"lab"}) {
		t.Errorf("the package is from %v, %v, private: %v", got.GetSubdirs(), got.GetChannels(), got.GetPrivate())
	}
	var records []struct{ Name, Fn, URL string }
	if err := json.Unmarshal([]byte(got.GetRecords()[0]), &records); err != nil || len(records) != 1 || records[0].Fn != "htslib-1.20-0.conda" {
		t.Errorf("the records are %s, %v", got.GetRecords()[0], err)
	}
}

func TestSearchAndDescribe(t *testing.T) {
	t.Parallel()
	service, _ := start(t)
	got, err := service.SearchPackages(t.Context(), &condav1.SearchPackagesRequest{Q: "samtols", Channel: "lab"})
	want := &condav1.SearchPackagesResponse{Total: proto.Int32(1), Packages: []*condav1.FoundPackage{
		{Name: proto.String("samtools"), Version: proto.String("1.21"), Channel: proto.String("lab"), Platforms: []string{"linux-64"}, Dependents: proto.Int32(0)},
	}}
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	all, err := service.SearchPackages(t.Context(), &condav1.SearchPackagesRequest{Channel: "lab", Max: 1, Offset: 1})
	if err != nil || all.GetTotal() != 3 || len(all.GetPackages()) != 1 || all.GetPackages()[0].GetName() != "newer" {
		t.Errorf("the second page of all: %v, %v", all, err)
	}
	for _, bad := range []*condav1.SearchPackagesRequest{{Max: 101}, {Offset: -1}, {Platform: "x"}, {Channel: "a b"}, {Q: strings.Repeat("a", 1000)}} {
		if got, err := service.SearchPackages(t.Context(), bad); !errors.Is(err, fault.Invalid) {
			t.Errorf("%v: %v, %v", bad, got, err)
		}
	}
	one, err := service.DescribePackage(t.Context(), &condav1.DescribePackageRequest{Channel: "lab", Name: "SAMtools"})
	if err != nil || len(one.GetVersions()) != 2 || one.GetVersions()[0].GetVersion() != "1.21" || one.GetVersions()[1].GetBuilds()[0].GetDate() != "2023-11-14T22:13:20Z" {
		t.Errorf("got %v, %v", one, err)
	}
	if _, err := service.DescribePackage(t.Context(), &condav1.DescribePackageRequest{Channel: "lab", Name: "nothing"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("for a package that does not exist: %v", err)
	}
}
