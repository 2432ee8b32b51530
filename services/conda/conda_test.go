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
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// platform knows one user, who has one login.
type platform struct {
	platformv1.PlatformServiceClient
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

// start serves a room before two channels: lab, and private, which needs a login.
func start(t *testing.T) (condav1.CondaServiceClient, string) {
	t.Helper()
	return startWith(t, nil)
}

// startWith does so beside a build room, which may be nil.
func startWith(t *testing.T, builds buildv1.BuildServiceClient) (condav1.CondaServiceClient, string) {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	}))
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
	channels, err := channel.New(channel.Options{
		Dir: t.TempDir(), Refresh: time.Hour, Names: names, Client: channel.NewClient(upstream.NewTransport(egress)),
		Metrics: prometheus.NewRegistry(), Log: testkit.Log(t), Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	people := platform{host: host}
	s := conda.New(conda.Deps{
		Platform: people, Build: builds, Keychain: caller.NewKeychain(nil, people), Limiter: ratelimit.New(testkit.Redis(t), prometheus.NewRegistry(), testkit.Log(t)),
		Channels: channels, Metrics: prometheus.NewRegistry(), Now: time.Now, AnonymousAccess: true,
		SearchesAnonymous: ratelimit.Limit{{Count: 100, Window: time.Hour}},
	})
	testkit.Run(t, s.Run)
	conn, _ := testkit.Serve(t, s.Register, "gateway", "container")
	return condav1.NewCondaServiceClient(conn), web.URL
}

func lockOf(t *testing.T, room condav1.CondaServiceClient, q *condav1.LockQuery) (*condav1.LockPackagesResponse, error) {
	t.Helper()
	if q.Packages != nil && q.Packages.Type == "" {
		q.Packages.Type = "CONDA"
	}
	return room.LockPackages(t.Context(), &condav1.LockPackagesRequest{Lock: q})
}

func entries(channel string, specs ...string) *condav1.CondaPackages {
	return &condav1.CondaPackages{Entries: specs, Channels: []string{channel}}
}

// chosen are the names and versions of the first lock.
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
	room, at := start(t)
	got, err := lockOf(t, room, &condav1.LockQuery{Packages: entries("lab", "samtools=1.20", "htslib=1.20")})
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
		got, err := lockOf(t, room, c.q)
		if err != nil || chosen(got) != c.want {
			t.Errorf("%s: %s, %v: %s", name, chosen(got), err, got.GetMessage())
		}
	}
}

func TestLockAsText(t *testing.T) {
	t.Parallel()
	room, at := start(t)
	for format, want := range map[string]string{
		"explicit": at + "/lab/linux-64/samtools-1.20-h1_0.conda#0123456789abcdef0123456789abcdef", "conda-lock": "samtools", "pixi": "samtools",
	} {
		got, err := lockOf(t, room, &condav1.LockQuery{Packages: entries("lab", "samtools=1.20", "htslib=1.20"), Format: format})
		if err != nil || !strings.Contains(got.GetText(), want) || got.GetLocks() != nil {
			t.Errorf("%s: %v, %v", format, got, err)
		}
	}
}

// TestImpossible: why, in words and as data, and what would work; and that it does.
func TestImpossible(t *testing.T) {
	t.Parallel()
	room, _ := start(t)
	got, err := lockOf(t, room, &condav1.LockQuery{Packages: entries("lab", "samtools=1.20", "htslib=1.17")})
	if err != nil || got.GetLocks() != nil || len(got.GetConflict().GetReasons()) == 0 || len(got.GetSuggestions()) == 0 {
		t.Fatalf("got %v, %v", got, err)
	}
	for _, word := range []string{"samtools", "htslib", "1.17", ">=1.20", "What would work:"} {
		if !strings.Contains(got.GetMessage(), word) {
			t.Errorf("the message lacks %q:\n%s", word, got.GetMessage())
		}
	}
	for _, s := range got.GetSuggestions() {
		again, err := lockOf(t, room, &condav1.LockQuery{Packages: entries("lab", s.GetPackages()...)})
		if err != nil || again.GetLocks() == nil {
			t.Errorf("the suggestion %q does not work: %v, %v", s.GetChange(), again, err)
		}
	}
	got, err = lockOf(t, room, &condav1.LockQuery{Packages: entries("lab", "samtols")})
	if err != nil || len(got.GetConflict().GetMissing()) != 1 || !slices.Contains(got.GetConflict().GetMissing()[0].GetNearest(), "samtools") {
		t.Errorf("of a name that is misspelt: %v, %v", got, err)
	}
}

// TestForContainer: what every container gets is solved with the rest, and no suggestion
// speaks of it.
func TestForContainer(t *testing.T) {
	t.Parallel()
	room, _ := start(t)
	got, err := lockOf(t, room, &condav1.LockQuery{Packages: entries("lab", "samtools=1.20"), ForContainer: true})
	if err != nil || !strings.Contains(chosen(got), "procps-ng=4") || !strings.Contains(chosen(got), "samtools=1.20") {
		t.Errorf("got %v, %v", got, err)
	}
	got, err = lockOf(t, room, &condav1.LockQuery{Packages: entries("lab", "samtools=1.20", "htslib=1.17"), ForContainer: true})
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
	room, at := start(t)
	many := make([]string, 1001)
	for i := range many {
		many[i] = "a"
	}
	for name, c := range map[string]struct {
		q    *condav1.LockQuery
		kind fault.Kind
		text string
	}{
		"no packages":    {&condav1.LockQuery{}, fault.Invalid, "packages"},
		"another type":   {&condav1.LockQuery{Packages: &condav1.CondaPackages{Type: "CRAN", Entries: []string{"a"}}}, fault.Invalid, "CONDA"},
		"nothing":        {&condav1.LockQuery{Packages: &condav1.CondaPackages{}}, fault.Invalid, "entries"},
		"a bad spec":     {&condav1.LockQuery{Packages: entries("lab", "a >=")}, fault.Invalid, "packages"},
		"of pip":         {&condav1.LockQuery{Packages: entries("lab", "pip:numpy")}, fault.Invalid, "pip"},
		"too many":       {&condav1.LockQuery{Packages: entries("lab", many...)}, fault.Invalid, "1000"},
		"a platform":     {&condav1.LockQuery{Packages: entries("lab", "htslib"), Platforms: []string{"windows/amd64"}}, fault.Invalid, "platforms[0]"},
		"a format":       {&condav1.LockQuery{Packages: entries("lab", "htslib"), Format: "xml"}, fault.Invalid, "format"},
		"a time":         {&condav1.LockQuery{Packages: entries("lab", "htslib"), ExcludeNewer: "yesterday"}, fault.Invalid, "excludeNewer"},
		"a machine":      {&condav1.LockQuery{Packages: entries("lab", "htslib"), VirtualPackages: map[string]string{"glibc": "2"}}, fault.Invalid, "virtualPackages"},
		"a login":        {&condav1.LockQuery{Packages: entries("https://u:p@example.org/c", "htslib")}, fault.Invalid, "login"},
		"plain http":     {&condav1.LockQuery{Packages: entries("http://example.org/c", "htslib")}, fault.Invalid, "https"},
		"a private host": {&condav1.LockQuery{Packages: entries("https://127.0.0.2:1/c", "htslib")}, fault.Invalid, "not a public address"},
		"no channel":     {&condav1.LockQuery{Packages: entries("nowhere", "htslib")}, fault.NotFound, "nowhere"},
		"no access":      {&condav1.LockQuery{Packages: entries(at+"/private", "htslib")}, fault.Denied, "provider conda"},
		"a bad token":    {&condav1.LockQuery{Packages: entries("lab", "htslib"), PlatformAccessToken: "x"}, fault.Unauthenticated, "token"},
	} {
		got, err := lockOf(t, room, c.q)
		f, ok := fault.As(err)
		if !ok || !errors.Is(err, c.kind) || !strings.Contains(f.Public, c.text) {
			t.Errorf("%s: %v, %v; want %v with %q", name, got, err, c.kind, c.text)
		}
	}
}

// TestPrivateChannel: a user's own login opens a channel to them; it stands in no
// answer.
func TestPrivateChannel(t *testing.T) {
	t.Parallel()
	room, at := start(t)
	got, err := lockOf(t, room, &condav1.LockQuery{Packages: entries(at+"/private", "htslib=1.17"), PlatformAccessToken: "token"})
	if err != nil || chosen(got) != "htslib=1.17" {
		t.Fatalf("got %v, %v", got, err)
	}
	if strings.Contains(got.String(), "s3cret") {
		t.Errorf("the login stands in %v", got)
	}
	if _, err := lockOf(t, room, &condav1.LockQuery{Packages: entries(at+"/private", "htslib=1.17")}); !errors.Is(err, fault.Denied) {
		t.Errorf("somebody else got %v", err)
	}
}

// TestChannels: the administrator, and nobody else, is told how old the lists are, and of
// what callers name, or is private, no names.
func TestChannels(t *testing.T) {
	t.Parallel()
	room, at := start(t)
	for name, q := range map[string]*condav1.LockQuery{
		"known":   {Packages: entries("bioconda", "bwa")},
		"named":   {Packages: entries(at+"/lab", "htslib=1.17")},
		"private": {Packages: entries(at+"/private", "htslib=1.17"), PlatformAccessToken: "token"},
	} {
		if got, err := lockOf(t, room, q); err != nil || got.GetLocks() == nil {
			t.Fatalf("%s: %v, %v", name, got, err)
		}
	}
	as := func(token string) (*condav1.ListChannelsResponse, error) {
		return room.ListChannels(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token), &condav1.ListChannelsRequest{})
	}
	if got, err := as("token"); !errors.Is(err, fault.Denied) {
		t.Errorf("a user is told %v, %v", got, err)
	}
	if got, err := room.ListChannels(t.Context(), &condav1.ListChannelsRequest{}); !errors.Is(err, fault.Unauthenticated) {
		t.Errorf("somebody without a token is told %v, %v", got, err)
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
		t.Errorf("bioconda stands so: %v", c)
	}
	if others.GetSize() == 0 || others.GetCheckedTime() == nil || others.Channel != nil {
		t.Errorf("the others stand so: %v", others)
	}
}

// TestSearchInAWorkspace: a channel is read with the logins of the workspace that is asked
// for.
func TestSearchInAWorkspace(t *testing.T) {
	t.Parallel()
	room, at := start(t)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer token")
	for workspace, want := range map[int64]error{0: nil, 7: nil, other: fault.Denied} {
		got, err := room.SearchPackages(ctx, &condav1.SearchPackagesRequest{Channel: at + "/private", WorkspaceId: workspace})
		if !errors.Is(err, want) || want == nil && len(got.GetPackages()) == 0 {
			t.Errorf("in the workspace %d: %v, %v", workspace, got, err)
		}
	}
}

func TestSolveForARoom(t *testing.T) {
	t.Parallel()
	room, _ := start(t)
	packages := entries("lab", "htslib=1.20")
	packages.Type = "CONDA"
	got, err := room.SolvePackages(t.Context(), &condav1.SolvePackagesRequest{Lock: &condav1.LockQuery{Packages: packages, Platforms: []string{"linux/amd64", "amd64"}}})
	if err != nil || len(got.GetRecords()) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
	if got.GetPrivate() || !slices.Equal(got.GetSubdirs(), []string{"linux-64"}) || !slices.Equal(got.GetChannels(), []string{"lab"}) {
		t.Errorf("it is of %v, %v, private: %v", got.GetSubdirs(), got.GetChannels(), got.GetPrivate())
	}
	var records []struct{ Name, Fn, URL string }
	if err := json.Unmarshal([]byte(got.GetRecords()[0]), &records); err != nil || len(records) != 1 || records[0].Fn != "htslib-1.20-0.conda" {
		t.Errorf("the records are %s, %v", got.GetRecords()[0], err)
	}
}

func TestSearchAndDescribe(t *testing.T) {
	t.Parallel()
	room, _ := start(t)
	got, err := room.SearchPackages(t.Context(), &condav1.SearchPackagesRequest{Q: "samtols", Channel: "lab"})
	want := &condav1.SearchPackagesResponse{Total: proto.Int32(1), Packages: []*condav1.FoundPackage{
		{Name: proto.String("samtools"), Version: proto.String("1.21"), Channel: proto.String("lab"), Platforms: []string{"linux-64"}},
	}}
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	all, err := room.SearchPackages(t.Context(), &condav1.SearchPackagesRequest{Channel: "lab", Max: 1, Offset: 1})
	if err != nil || all.GetTotal() != 3 || len(all.GetPackages()) != 1 || all.GetPackages()[0].GetName() != "newer" {
		t.Errorf("the second page of all: %v, %v", all, err)
	}
	for _, bad := range []*condav1.SearchPackagesRequest{{Max: 101}, {Offset: -1}, {Platform: "x"}, {Channel: "a b"}, {Q: strings.Repeat("a", 1000)}} {
		if got, err := room.SearchPackages(t.Context(), bad); !errors.Is(err, fault.Invalid) {
			t.Errorf("%v: %v, %v", bad, got, err)
		}
	}
	one, err := room.DescribePackage(t.Context(), &condav1.DescribePackageRequest{Channel: "lab", Name: "SAMtools"})
	if err != nil || len(one.GetVersions()) != 2 || one.GetVersions()[0].GetVersion() != "1.21" || one.GetVersions()[1].GetBuilds()[0].GetDate() != "2023-11-14T22:13:20Z" {
		t.Errorf("got %v, %v", one, err)
	}
	if _, err := room.DescribePackage(t.Context(), &condav1.DescribePackageRequest{Channel: "lab", Name: "nothing"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("of a package that is not there: %v", err)
	}
}
