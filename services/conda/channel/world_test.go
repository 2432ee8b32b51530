package channel_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// A web is a channel server whose files and behaviour the test controls.
type web struct {
	*httptest.Server
	mu sync.Mutex
	// files is indexed by path. answer, if set, handles all requests instead.
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

// paths returns the paths that were requested since the last call.
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

// A clock is a manual clock.
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

// A world is a store with its channel server.
type world struct {
	*channel.Store
	web   *web
	clock *clock
	log   *testkit.Output
	stop  context.CancelFunc
	ended chan error
}

// open starts a store that may only reach web.
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
	w := &world{web: web, clock: &clock{at: time.Now()}, log: &testkit.Output{}, ended: make(chan error, 1)}
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

// versions returns the versions of package a in the channel c.
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

// settled waits until the store is idle.
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
