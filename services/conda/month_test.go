package conda_test

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/testing/protocmp"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda"
	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/testkit/condadata"
	"slipway.dev/services/internal/upstream"
)

// A month is a channel that changes each day, with the directory and the clock of the servers
// that read it.
type month struct {
	*httptest.Server
	dir    string
	offset atomic.Int64
	day    atomic.Pointer[map[string][]byte]
	lists  map[string]*condadata.Month
}

func newMonth(t *testing.T) *month {
	t.Helper()
	m := &month{dir: t.TempDir(), lists: map[string]*condadata.Month{}}
	for _, subdir := range []string{"linux-64", "noarch"} {
		m.lists[subdir] = condadata.NewMonth(t, "conda-forge", subdir)
	}
	m.set(t, 0)
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file, ok := (*m.day.Load())[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *month) now() time.Time { return time.Now().Add(time.Duration(m.offset.Load())) }

// set sets the clock and the channel to a day.
func (m *month) set(t *testing.T, day int) {
	t.Helper()
	m.offset.Store(int64(day) * int64(24*time.Hour))
	files := map[string][]byte{}
	for subdir, list := range m.lists {
		files["/conda-forge/"+subdir+"/repodata.json"] = list.Repodata(t, day)
	}
	m.day.Store(&files)
}

// server starts a server with the directory.
func (m *month) server(t *testing.T) condav1.CondaServiceClient {
	t.Helper()
	names, err := channel.NewNames(m.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	egress, err := upstream.NewEgress([]string{strings.TrimPrefix(m.URL, "http://")})
	if err != nil {
		t.Fatal(err)
	}
	service, _ := serveStore(t, func(d *conda.Deps) {
		d.Now = m.now
		d.Limiter.SetLimits(nil)
	}, func(o *channel.Options) {
		o.Dir, o.Now, o.History = m.dir, m.now, 60*24*time.Hour
		o.Names, o.Client = names, channel.NewClient(upstream.NewTransport(egress))
	}, http.NotFound)
	return service
}

// requests returns n requests that have a solution: realistic ones, and then single packages.
func requests(t *testing.T, n int) (out [][]string) {
	t.Helper()
	for _, s := range condadata.Solves(t) {
		if s.Rattler != nil {
			out = append(out, s.Specs)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(condadata.Records(t, "conda-forge", "noarch"))) {
		out = append(out, []string{name})
	}
	if len(out) < n {
		t.Fatalf("there are only %d requests", len(out))
	}
	return out[:n]
}

// answers solves requests with the lists as of a time, "" for the present.
func answers(t *testing.T, service condav1.CondaServiceClient, all [][]string, asOf string) []*condav1.SolvePackagesResponse {
	t.Helper()
	out := make([]*condav1.SolvePackagesResponse, len(all))
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, specs := range all {
		group.Go(func() (err error) {
			packages := entries("conda-forge", specs...)
			packages.Type = "CONDA"
			out[i], err = service.SolvePackages(ctx, &condav1.SolvePackagesRequest{Lock: &condav1.LockQuery{Packages: packages, AsOf: asOf}, Brief: true})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return out
}

// plain removes the fields that depend on the time of a request.
func plain(r *condav1.SolvePackagesResponse) *condav1.SolvePackagesResponse {
	r.GetAnswer().Notes = nil
	for _, l := range r.GetAnswer().GetLocks() {
		l.AsOf, l.HistorySince = nil, nil
	}
	return r
}

// TestMonth checks that a server solves requests as of a day as it did that day, although the
// channel has patched, removed and added records each day since and the server was restarted.
// SLIPWAY_TEST_MONTH=1 compares 1,000 requests, which takes minutes.
func TestMonth(t *testing.T) {
	t.Parallel()
	n := 60
	if os.Getenv("SLIPWAY_TEST_MONTH") != "" {
		n = 1000
	}
	m := newMonth(t)
	service := m.server(t)
	var all [][]string
	var before []*condav1.SolvePackagesResponse
	candidates := requests(t, n+n/10)
	for i, got := range answers(t, service, candidates, "") {
		if got.GetAnswer().GetConflict() == nil && len(all) < n {
			all, before = append(all, candidates[i]), append(before, got)
		}
	}
	if len(all) < n {
		t.Fatalf("only %d requests have a solution", len(all))
	}
	asOf := m.now().Add(time.Second).UTC().Format(time.RFC3339) // the history begins within this second
	for day := 1; day <= condadata.Days; day++ {
		m.set(t, day)
		if _, err := service.LockPackages(t.Context(), &condav1.LockPackagesRequest{Lock: &condav1.LockQuery{
			Packages: &condav1.CondaPackages{Type: "CONDA", Entries: []string{"xz"}, Channels: []string{"conda-forge"}}, Refresh: true,
		}}); err != nil {
			t.Fatal(err)
		}
	}
	service = m.server(t)
	for i, got := range answers(t, service, all, asOf) {
		if got.GetAnswer().GetConflict() != nil {
			t.Fatalf("%q: %s", all[i], got.GetAnswer().GetMessage())
		}
		l := got.GetAnswer().GetLocks()[0]
		if l.GetAsOf() != asOf || l.GetHistorySince() > asOf || !strings.Contains(strings.Join(got.GetAnswer().GetNotes(), "|"), "Solved with the package lists as of "+asOf) {
			t.Fatalf("%q: as of %q, since %q, notes %q", all[i], l.GetAsOf(), l.GetHistorySince(), got.GetAnswer().GetNotes())
		}
		if diff := cmp.Diff(plain(before[i]), plain(got), protocmp.Transform()); diff != "" {
			t.Fatalf("%q differs:\n%s", all[i], diff)
		}
	}
	changed := 0
	some := all[:n/10]
	for i, now := range answers(t, service, some, "") {
		now, old := plain(now), before[i]
		for _, l := range slices.Concat(now.GetAnswer().GetLocks(), old.GetAnswer().GetLocks()) {
			l.Snapshots = nil
		}
		if cmp.Diff(old, now, protocmp.Transform()) != "" {
			changed++
		}
	}
	if changed < max(1, len(some)/10) {
		t.Errorf("only %d of %d requests resolve to something else today, so that the test proves little", changed, len(some))
	}
	index, history := sizeOf(t, m.dir, "*.idx"), sizeOf(t, m.dir, "*.history")
	if history > index*condadata.Days*2/100 || history == 0 {
		t.Errorf("the history has %d bytes, the indexes %d", history, index)
	}
	t.Logf("%d locks are equal; of %d requests %d resolve to something else today; the history has %d bytes, the indexes %d: %.3f%% a day",
		n, len(some), changed, history, index, 100*float64(history)/float64(index)/condadata.Days)
}

func sizeOf(t *testing.T, dir, pattern string) (n int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		n += st.Size()
	}
	return n
}
