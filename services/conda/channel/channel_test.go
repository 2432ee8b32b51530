package channel_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/upstream"
)

// web is a channel's server, whose files and manners a test sets.
type web struct {
	*httptest.Server
	mu sync.Mutex
	// files are by path; answer, if set, answers instead.
	files  map[string][]byte
	answer http.HandlerFunc
	asked  []*http.Request
}

func newWeb(t *testing.T) *web {
	t.Helper()
	s := &web{files: map[string][]byte{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r)
		answer, file, ok := s.answer, s.files[r.URL.Path], s.files[r.URL.Path] != nil
		s.mu.Unlock()
		switch {
		case answer != nil:
			answer(w, r)
		case !ok:
			http.NotFound(w, r)
		default:
			w.Header().Set("Etag", fmt.Sprintf("\"%x\"", sha256.Sum256(file)))
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *web) set(path string, file []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[path] = file
}

func (s *web) answers(f http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// paths are those that were asked for since the last call, of whole files.
func (s *web) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, r := range s.asked {
		out = append(out, r.URL.Path)
	}
	s.asked = nil
	return out
}

func (s *web) host() string { return strings.TrimPrefix(s.URL, "http://") }

// clock is a test's.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// world is a store before a channel.
type world struct {
	*channel.Store
	web   *web
	clock *clock
	log   *bytes.Buffer
	stop  context.CancelFunc
	ended chan error
}

// open starts a store that may reach web alone.
func open(t *testing.T, web *web, dir string, change ...func(*channel.Options)) *world {
	t.Helper()
	egress, err := upstream.NewEgress([]string{web.host()})
	if err != nil {
		t.Fatal(err)
	}
	names, err := channel.NewNames(web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{web: web, clock: &clock{at: time.Now()}, log: &bytes.Buffer{}, ended: make(chan error, 1)}
	o := channel.Options{
		Dir: dir, Refresh: time.Hour, Names: names, Client: channel.NewClient(upstream.NewTransport(egress)),
		Metrics: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(w.log, nil)), Now: w.clock.now,
	}
	for _, f := range change {
		f(&o)
	}
	if w.Store, err = channel.New(o); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = sync.OnceFunc(func() { stop(); <-w.ended })
	go func() { w.ended <- w.Run(ctx) }()
	t.Cleanup(w.stop)
	return w
}

// versions are those of package a in the channel c.
func (w *world) versions(t *testing.T) (string, error) {
	t.Helper()
	state, err := w.get(t, channel.Access{})
	if err != nil || state.Index == nil {
		return "", err
	}
	records, err := state.Index.Records("a")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range records {
		out = append(out, r.Version)
	}
	return strings.Join(out, " "), nil
}

func (w *world) get(t *testing.T, a channel.Access) (channel.State, error) {
	t.Helper()
	c, err := w.Resolve("c")
	if err != nil {
		t.Fatal(err)
	}
	return w.Get(t.Context(), c, "linux-64", a)
}

// settled waits until the store has nothing to do.
func (w *world) settled() { w.Settle() }

func repodata(version string) []byte {
	return []byte(`{"packages.conda":{"a-` + version + `-0.conda":{"name":"a","version":"` + version + `","build":"0"}}}`)
}

func compress(raw []byte) []byte {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	return z.EncodeAll(raw, nil)
}

func TestFetch(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"zstd": "/c/linux-64/repodata.json.zst", "plain": "/c/linux-64/repodata.json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := newWeb(t)
			pack := func(b []byte) []byte { return b }
			if name == "zstd" {
				pack = compress
			}
			site.set(path, pack(repodata("1")))
			w := open(t, site, t.TempDir())
			if got, err := w.versions(t); got != "1" || err != nil {
				t.Fatalf("got %q, %v", got, err)
			}
			site.paths()
			if got, _ := w.versions(t); got != "1" || len(site.paths()) != 0 {
				t.Error("a fresh index was asked for again")
			}
			// The next hour: nothing new, then something.
			w.clock.forward(2 * time.Hour)
			if got, _ := w.versions(t); got != "1" {
				t.Errorf("got %q", got)
			}
			w.settled()
			if state, _ := w.get(t, channel.Access{}); !state.Checked.Equal(w.clock.now()) || state.Failure != "" {
				t.Errorf("the channel had nothing new, and the state is %+v", state)
			}
			site.set(path, pack(repodata("2")))
			w.clock.forward(2 * time.Hour)
			if got, _ := w.versions(t); got != "1" {
				t.Errorf("a caller was kept waiting for news, and got %q", got)
			}
			w.settled()
			if got, _ := w.versions(t); got != "2" {
				t.Errorf("after a refresh: %q", got)
			}
		})
	}
}

// TestBrokenChannel: whatever a channel does, the index of before is served, with what
// went wrong; and who comes first is told.
func TestBrokenChannel(t *testing.T) {
	t.Parallel()
	elsewhere := newWeb(t) // at an address of this machine that may not be reached
	elsewhere.set("/", repodata("7"))
	good, bomb := compress(repodata("2")), compress(bytes.Repeat([]byte(" "), 128<<20))
	serve := func(b []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, ".json.zst") {
				_, _ = w.Write(b)
				return
			}
			http.NotFound(w, r)
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	cases := map[string]struct {
		answer http.HandlerFunc
		kind   fault.Kind
	}{
		"garbage":          {serve([]byte("<html>sorry</html>")), fault.Unavailable},
		"no JSON":          {serve(compress([]byte("<html>sorry</html>"))), fault.Unavailable},
		"half":             {serve(good[:len(good)/2]), fault.Unavailable},
		"half of the text": {serve(compress(repodata("2")[:40])), fault.Unavailable},
		"cut off": {func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, ".json.zst") {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(good)))
			_, _ = w.Write(good[:len(good)-3])
		}, fault.Unavailable},
		"500":      {status(500), fault.Unavailable},
		"429":      {status(429), fault.Exhausted},
		"401":      {status(401), fault.Denied},
		"redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }, fault.Invalid},
		"a circle": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, fault.Unavailable},
		"a bomb":   {serve(bomb), fault.Unavailable},
		"shards":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bomb) }, fault.Unavailable},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := newWeb(t)
			site.answers(c.answer)
			w := open(t, site, t.TempDir())
			if got, err := w.versions(t); !errors.Is(err, c.kind) {
				t.Errorf("who came first got %q, %v; want %v", got, err, c.kind)
			}
			site.answers(nil)
			site.set("/c/linux-64/repodata.json.zst", compress(repodata("1")))
			w.clock.forward(time.Hour)
			if got, err := w.versions(t); got != "1" || err != nil {
				t.Fatalf("when it had recovered: %q, %v", got, err)
			}
			site.answers(c.answer)
			w.clock.forward(3 * time.Hour)
			for range 2 {
				if got, err := w.versions(t); got != "1" || err != nil {
					t.Errorf("with an index: %q, %v", got, err)
				}
				w.settled()
			}
			state, err := w.get(t, channel.Access{})
			if err != nil || state.Failure == "" || w.clock.now().Sub(state.Checked) < 3*time.Hour {
				t.Errorf("the state is %+v, %v; want the failure and the age", state, err)
			}
			left, _ := filepath.Glob(filepath.Join(w.Dir(), ".new-*"))
			if len(left) > 0 {
				t.Errorf("%v was left", left)
			}
		})
	}
	if got := elsewhere.paths(); len(got) > 0 {
		t.Errorf("an address that is not allowed was asked for %q", got)
	}
}

// TestRetryAfter: a channel that wants to be left alone is.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	site := newWeb(t)
	site.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	w := open(t, site, t.TempDir())
	_, err := w.versions(t)
	if f, ok := fault.As(err); !ok || f.Kind != fault.Exhausted || f.RetryAfter != 10*time.Minute {
		t.Errorf("got %v", err)
	}
	site.paths()
	w.clock.forward(9 * time.Minute)
	if _, err := w.versions(t); !errors.Is(err, fault.Exhausted) || len(site.paths()) > 0 {
		t.Errorf("within the time: %v, and it was asked", err)
	}
	site.answers(nil)
	site.set("/c/linux-64/repodata.json", repodata("1"))
	w.clock.forward(2 * time.Minute)
	if got, err := w.versions(t); got != "1" || err != nil {
		t.Errorf("after the time: %q, %v", got, err)
	}
}

// TestWithoutNetwork: a process that starts without network serves what it has, and
// says how old it is.
func TestWithoutNetwork(t *testing.T) {
	t.Parallel()
	site, dir := newWeb(t), t.TempDir()
	site.set("/c/linux-64/repodata.json", repodata("1"))
	w := open(t, site, dir)
	if got, err := w.versions(t); got != "1" || err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
	w.stop()
	site.Close()
	if err := os.WriteFile(filepath.Join(dir, ".new-123"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := open(t, site, dir)
	again.clock.forward(5 * time.Hour)
	if got, err := again.versions(t); got != "1" || err != nil {
		t.Fatalf("without network: %q, %v", got, err)
	}
	again.settled()
	state, err := again.get(t, channel.Access{})
	if age := again.clock.now().Sub(state.Checked); err != nil || age < 4*time.Hour || age > 6*time.Hour || !strings.Contains(state.Failure, "cannot be reached") {
		t.Errorf("the state is %+v, %v", state, err)
	}
	if err := again.Ready(t.Context()); err != nil {
		t.Errorf("with an index it is not ready: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".new-*")); len(left) > 0 {
		t.Errorf("%v was left", left)
	}
	// What is damaged meanwhile is fetched anew, and else an error.
	again.stop()
	files, _ := filepath.Glob(filepath.Join(dir, "*.idx"))
	if err := os.WriteFile(files[0], []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, site, dir).versions(t); !errors.Is(err, fault.Unavailable) {
		t.Errorf("with a damaged file: %q, %v", got, err)
	}
}

// TestTogether: many who ask at once are one request.
func TestTogether(t *testing.T) {
	t.Parallel()
	site := newWeb(t)
	site.set("/c/linux-64/repodata.json", repodata("1"))
	w := open(t, site, t.TempDir())
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got, err := w.versions(t); got != "1" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	all.Wait()
	if got := site.paths(); len(got) != 3 {
		t.Errorf("asked for %q, want each file once", got)
	}
}

// TestPrivate: a login is shown to its channel alone, in the form that its user name
// says; what was read with it is nobody else's; and it stands in no log and no text.
func TestPrivate(t *testing.T) {
	t.Parallel()
	for form, a := range map[string]channel.Access{
		"basic":  {Scope: "u1", Username: "ada", Password: "s3cret"},
		"bearer": {Scope: "u1", Username: "bearer", Password: "s3cret"},
		"token":  {Scope: "u1", Username: "token", Password: "s3cret"},
	} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			site := newWeb(t)
			shown := map[string]func(*http.Request) bool{
				"basic":  func(r *http.Request) bool { u, p, _ := r.BasicAuth(); return u == "ada" && p == "s3cret" },
				"bearer": func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer s3cret" },
				"token":  func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/t/s3cret/c/linux-64/") },
			}[form]
			broken := false
			site.answers(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case !shown(r):
					w.WriteHeader(http.StatusForbidden)
				case broken:
					w.WriteHeader(http.StatusBadGateway)
				case strings.HasSuffix(r.URL.Path, "/repodata.json"):
					_, _ = w.Write(repodata("1"))
				default:
					w.WriteHeader(http.StatusNotFound)
				}
			})
			w := open(t, site, t.TempDir())
			state, err := w.get(t, a)
			if err != nil {
				t.Fatal(err)
			}
			records, err := state.Index.Records("a")
			if err != nil || len(records) != 1 || strings.Contains(records[0].URL, "s3cret") || records[0].URL != site.URL+"/c/linux-64/a-1-0.conda" {
				t.Errorf("records are %+v, %v", records, err)
			}
			if got, err := w.versions(t); !errors.Is(err, fault.Denied) {
				t.Errorf("without the login: %q, %v", got, err)
			}
			broken = true
			w.clock.forward(2 * time.Hour)
			_, _ = w.get(t, a)
			w.settled()
			site.Close()
			w.clock.forward(2 * time.Hour)
			_, _ = w.get(t, a)
			w.settled()
			state, _ = w.get(t, a)
			w.stop()
			if text := w.log.String() + state.Failure; strings.Contains(text, "s3cret") || state.Failure == "" {
				t.Errorf("the log, or the error: %s", text)
			}
		})
	}
}

// TestRedirectTakesNoToken: another host learns neither login nor address.
func TestRedirectTakesNoToken(t *testing.T) {
	t.Parallel()
	files, site := newWeb(t), newWeb(t)
	files.answers(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(repodata("1")) })
	site.answers(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "repodata.json") {
			http.NotFound(w, r)
			return
		}
		http.Redirect(w, r, "http://localhost:"+port(files)+"/file", http.StatusFound)
	})
	for _, a := range []channel.Access{{Scope: "1", Username: "token", Password: "s3cret"}, {Scope: "2", Username: "ada", Password: "s3cret"}} {
		egress, err := upstream.NewEgress([]string{"127.0.0.1", "localhost"})
		if err != nil {
			t.Fatal(err)
		}
		w := open(t, site, t.TempDir(), func(o *channel.Options) { o.Client = channel.NewClient(upstream.NewTransport(egress)) })
		if _, err := w.get(t, a); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range files.asked {
		if r.Header.Get("Authorization") != "" || r.Header.Get("Referer") != "" {
			t.Errorf("the other host was told %v", r.Header)
		}
	}
	if len(files.asked) != 2 {
		t.Errorf("%d requests came there", len(files.asked))
	}
}

func port(s *web) string {
	u, err := url.Parse(s.URL)
	if err != nil {
		panic(err)
	}
	return u.Port()
}

// TestPrune: the indexes keep to their room, and those stay that are used.
func TestPrune(t *testing.T) {
	t.Parallel()
	site, dir := newWeb(t), t.TempDir()
	w := open(t, site, dir, func(o *channel.Options) { o.Size = 1200 })
	for i := range 6 {
		site.set(fmt.Sprintf("/c%d/linux-64/repodata.json", i), repodata("1"))
		c, err := w.Resolve(fmt.Sprintf("c%d", i))
		if err != nil {
			t.Fatal(err)
		}
		w.clock.forward(time.Second)
		if _, err := w.Get(t.Context(), c, "linux-64", channel.Access{}); err != nil {
			t.Fatal(err)
		}
		w.settled()
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.idx"))
	var total int64
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		total += st.Size()
	}
	if total > 1200 || len(files) == 0 {
		t.Errorf("%d files take %d bytes", len(files), total)
	}
	site.paths()
	last, _ := w.Resolve("c5")
	if _, err := w.Get(t.Context(), last, "linux-64", channel.Access{}); err != nil || len(site.paths()) > 0 {
		t.Errorf("the newest went: %v", err)
	}
}
