package layers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// A site serves one layer at several URLs and counts requests.
type site struct {
	*httptest.Server
	layer           []byte
	whole, firsts   atomic.Int32
	stuck, finished chan struct{}
}

func newSite(t *testing.T, layer []byte) *site {
	t.Helper()
	s := &site{layer: layer, stuck: make(chan struct{}), finished: make(chan struct{})}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP implements http.Handler.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Range") != "" {
		s.firsts.Add(1)
		w.WriteHeader(http.StatusPartialContent)
		return
	}
	s.whole.Add(1)
	switch r.URL.Path {
	case "/moved":
		http.Redirect(w, r, "/layer", http.StatusFound)
	case "/unsaid": // without a length
		for _, b := range [][]byte{s.layer[:1], s.layer[1:]} {
			_, _ = w.Write(b)
			_ = http.NewResponseController(w).Flush()
		}
	case "/short":
		w.Header().Set("Content-Length", fmt.Sprint(len(s.layer)))
		_, _ = w.Write(s.layer[:len(s.layer)/2])
	case "/slow":
		w.Header().Set("Content-Length", fmt.Sprint(len(s.layer)))
		_, _ = w.Write(s.layer[:1])
		_ = http.NewResponseController(w).Flush()
		close(s.stuck)
		<-r.Context().Done()
		close(s.finished)
	case "/text":
		_, _ = w.Write(bytes.Repeat([]byte("x"), len(s.layer)))
	default:
		_, _ = w.Write(s.layer)
	}
}

func (s *site) at(path string, change func(*containerv1.Layer)) *containerv1.Layer {
	size := int64(len(s.layer))
	l := &containerv1.Layer{
		Location: s.URL + path, GzipSize: &size, GzipDigest: digest.FromBytes(s.layer).String(), TarDigest: digest.FromBytes(make([]byte, 1<<20)).String(),
	}
	if change != nil {
		change(l)
	}
	return l
}

// verifier returns a function that verifies layers like a request, and its log.
func verifier(t *testing.T) (verify func(context.Context, *containerv1.Layer) error, logged *testkit.Output) {
	t.Helper()
	e, err := upstream.NewEgress([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	logged = &testkit.Output{}
	l := NewLinks(upstream.New(upstream.Options{Egress: e, Metrics: prometheus.NewRegistry()}), prometheus.NewRegistry(), slog.New(slog.NewTextHandler(logged, nil)))
	return func(fetching context.Context, layer *containerv1.Layer) error {
		return l.Verify(t.Context(), fetching, &Unpacking{left: limits.LayersExpanded}, "f", layer)
	}, logged
}

// TestLayersAtAddresses checks that layers are fetched once and verified against the
// request.
func TestLayersAtAddresses(t *testing.T) {
	t.Parallel()
	s := newSite(t, zeros(t, 1<<20))
	other := digest.FromString("other").String()
	longer, shorter, huge := int64(len(s.layer))+1, int64(len(s.layer))-1, int64(limits.LayerFetched)+1
	for name, c := range map[string]struct {
		layer *containerv1.Layer
		want  string // "" if valid
	}{
		"valid":                     {s.at("/layer", nil), ""},
		"moved":                     {s.at("/moved", nil), ""},
		"without a length":          {s.at("/unsaid", nil), ""},
		"unreachable":               {s.at("/gone/", func(l *containerv1.Layer) { l.Location = "http://127.0.0.1:1/" }), "f.location: 127.0.0.1:1 cannot be reached"},
		"at a private address":      {s.at("", func(l *containerv1.Layer) { l.Location = "http://169.254.169.254/" }), "f.location: 169.254.169.254 is not a public address"},
		"shorter":                   {s.at("/layer", func(l *containerv1.Layer) { l.GzipSize = &longer }), "f.gzipSize is " + fmt.Sprint(longer)},
		"longer":                    {s.at("/layer", func(l *containerv1.Layer) { l.GzipSize = &shorter }), "f.gzipSize is " + fmt.Sprint(shorter)},
		"shorter, without a length": {s.at("/unsaid", func(l *containerv1.Layer) { l.GzipSize = &longer }), "there are " + fmt.Sprint(len(s.layer)) + " bytes"},
		"longer, without a length":  {s.at("/unsaid", func(l *containerv1.Layer) { l.GzipSize = &shorter }), "there are more bytes"},
		"another digest":            {s.at("/layer", func(l *containerv1.Layer) { l.GzipDigest = other }), "f.gzipDigest does not match what is at its location, whose digest is sha256:"},
		"another tar digest":        {s.at("/layer", func(l *containerv1.Layer) { l.TarDigest = other }), "f.tarDigest does not match"},
		"interrupted":               {s.at("/short", nil), "broke off after"},
		"no gzip":                   {s.at("/text", nil), "f.location: the content is not a gzip file"},
		"too large to be verified":  {s.at("/layer", func(l *containerv1.Layer) { l.GzipSize = &huge }), ""},
	} {
		verify, _ := verifier(t)
		err := verify(t.Context(), c.layer)
		f, ok := fault.As(err)
		if c.want == "" && err != nil || c.want != "" && (!ok || !errors.Is(err, fault.Invalid) || !strings.Contains(f.Public, c.want)) {
			t.Errorf("a layer that is %s: %v, want %q", name, err, c.want)
		}
	}
}

// TestRightLayersAreRemembered checks that verified layers are cached while their URL
// responds.
func TestRightLayersAreRemembered(t *testing.T) {
	t.Parallel()
	s := newSite(t, zeros(t, 1<<20))
	verify, logged := verifier(t)
	for range 3 {
		if err := verify(t.Context(), s.at("/layer", nil)); err != nil {
			t.Fatal(err)
		}
	}
	if s.whole.Load() != 1 || s.firsts.Load() != 0 || logged.String() != "" {
		t.Errorf("%d complete downloads and %d requests for the first byte; the log: %s", s.whole.Load(), s.firsts.Load(), logged)
	}
	// A different tar at the same URL is another layer.
	if err := verify(t.Context(), s.at("/layer", func(l *containerv1.Layer) { l.TarDigest = digest.FromString("x").String() })); err == nil {
		t.Error("a different layer was accepted")
	}
}

// TestSlowLayers checks that slow layers are not verified, with a line in the log.
func TestSlowLayers(t *testing.T) {
	t.Parallel()
	s := newSite(t, zeros(t, 1<<20))
	verify, logged := verifier(t)
	fetching, stop := context.WithTimeout(t.Context(), time.Hour)
	go func() {
		<-s.stuck
		stop() // time is up
	}()
	if err := verify(fetching, s.at("/slow", nil)); err != nil {
		t.Error(err)
	}
	<-s.finished // the download is cancelled
	if s.firsts.Load() != 1 || !strings.Contains(logged.String(), "A layer at an address was not verified") || strings.Contains(logged.String(), "/slow") {
		t.Errorf("%d requests for the first byte; the log: %s", s.firsts.Load(), logged)
	}
}

// TestBombsAtAddresses checks that decompression bombs are not read to their end, and that
// the bytes that were read are counted.
func TestBombsAtAddresses(t *testing.T) {
	t.Parallel()
	s := newSite(t, zeros(t, limits.LayerFloor+200*limits.LayerRatio<<10))
	e, err := upstream.NewEgress([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	l := NewLinks(upstream.New(upstream.Options{Egress: e, Metrics: prometheus.NewRegistry()}), prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	u := &Unpacking{left: limits.LayersExpanded}
	if err := l.Verify(t.Context(), t.Context(), u, "f", s.at("/layer", nil)); err != nil {
		t.Error(err)
	}
	if read := limits.LayersExpanded - u.left; read != limits.LayerFloor+limits.LayerRatio*int64(len(s.layer))+1 {
		t.Errorf("%d bytes were read", read)
	}
}

// TestLayersOfOneClient checks that one client's downloads are limited and do not delay
// those of others.
func TestLayersOfOneClient(t *testing.T) {
	t.Parallel()
	s := newSite(t, zeros(t, 1<<20))
	e, err := upstream.NewEgress([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	l := NewLinks(upstream.New(upstream.Options{Egress: e, Metrics: prometheus.NewRegistry()}), prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	one, other := fairshare.User("one"), fairshare.User("other")
	for range limits.LayerFetchesClient {
		if _, err := l.turns.TryAcquire(fairshare.Request{Client: one}); err != nil {
			t.Fatal(err)
		}
	}
	layer := s.at("/layer", nil)
	for _, tc := range []struct {
		client fairshare.Client
		want   bool
	}{{one, false}, {other, true}} {
		fetching, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Verify(t.Context(), fetching, &Unpacking{client: tc.client, left: limits.LayersExpanded}, "f", layer); err != nil {
			t.Error(err)
		}
		_, verified := l.right.Get(linkedLayer{layer.GetLocation(), digest.Digest(layer.GetGzipDigest()), digest.Digest(layer.GetTarDigest()), layer.GetGzipSize()})
		if verified != tc.want {
			t.Errorf("the layer is verified: %t, want %t", verified, tc.want)
		}
	}
}
