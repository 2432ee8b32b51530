package pullthrough_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/pullthrough"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// A store keeps documents in memory.
type store struct {
	mu        sync.Mutex
	documents map[string][]byte
}

func (s *store) Document(_ context.Context, name string) (io.ReadCloser, int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.documents[name]
	return io.NopCloser(bytes.NewReader(content)), int64(len(content)), ok
}

func (s *store) SetDocument(name string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.documents[name] = content
}

// change changes everything that is stored.
func (s *store) change(f func([]byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, content := range s.documents {
		s.documents[name] = f(slices.Clone(content))
	}
}

// A site is a registry with an image, and a store. Its clock stands still.
type site struct {
	t     *testing.T
	up    *testkit.Registry
	repo  upstream.Repository
	store *store
	log   testkit.Output
	reg   *prometheus.Registry
	now   time.Time
	// index, image and config are the digests of the image's documents.
	index, image digest.Digest
	config       ocispec.Descriptor
	freshness    time.Duration
	wait         time.Duration
	*pullthrough.Reader
}

var (
	ada       = upstream.Access{Scope: "1", Login: upstream.Login{Username: testkit.User, Password: testkit.Password}}
	bob       = upstream.Access{Scope: "2", Login: upstream.Login{Username: "bob", Password: "x"}}
	colleague = upstream.Access{Scope: "3", Login: ada.Login}
	operator  = upstream.Access{Login: ada.Login, Service: true}
	anonymous = upstream.Access{}
	stranger  = upstream.Access{Scope: "4"}
)

func newSite(t *testing.T, auth testkit.Auth) *site {
	t.Helper()
	s := &site{t: t, up: testkit.NewRegistry(t, auth), store: &store{documents: map[string][]byte{}}, wait: time.Minute, now: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}
	s.repo = upstream.Repository{Host: s.up.Host, Name: "lib/tool"}
	s.up.Push(t, "lib/tool:v1", testkit.Index(t, true, "amd64", "arm64"))
	s.restart()
	a := anonymous
	if auth != testkit.Open {
		a = ada
	}
	direct := pullthrough.Direct(s.client())
	root := s.read(direct, "v1", a)
	s.index = root.Digest
	var index ocispec.Index
	var image ocispec.Manifest
	s.parse(root.Bytes, &index)
	s.image = index.Manifests[0].Digest
	s.parse(s.read(direct, s.image.String(), a).Bytes, &image)
	s.config = image.Config
	s.up.Requests()
	return s
}

func (s *site) read(from *pullthrough.Reader, ref string, a upstream.Access) pullthrough.Document {
	s.t.Helper()
	doc, err := from.Manifest(s.t.Context(), s.repo, ref, a)
	if err != nil {
		s.t.Fatal(err)
	}
	return doc
}

func (s *site) parse(raw []byte, into any) {
	s.t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) client() *upstream.Client {
	s.t.Helper()
	egress, err := upstream.NewEgress([]string{"127.0.0.1"})
	if err != nil {
		s.t.Fatal(err)
	}
	return upstream.New(upstream.Options{Egress: egress, Plain: []string{s.up.Host}, Metrics: prometheus.NewRegistry()})
}

// restart replaces the reader by one with the same store.
func (s *site) restart() {
	s.t.Helper()
	s.reg = prometheus.NewRegistry()
	s.Reader = pullthrough.New(pullthrough.Options{
		Client: s.client(), Store: s.store, Documents: upstream.NewDocuments(), Recheck: time.Hour, Freshness: s.freshness, Wait: s.wait,
		Metrics: s.reg, Log: slog.New(slog.NewTextHandler(&s.log, nil)), Now: func() time.Time { return s.now },
	})
}

// pull reads the image by a reference as a pull does, and returns whether any of it is stale.
func (s *site) pull(ref string, a upstream.Access) (stale bool, err error) {
	ctx := s.t.Context()
	root, err := s.Manifest(ctx, s.repo, ref, a)
	if err != nil {
		return false, err
	}
	image, err := s.Manifest(ctx, s.repo, s.image.String(), a)
	if err != nil {
		return false, err
	}
	config, old, err := s.Blob(ctx, s.repo, s.config, a)
	if err == nil && (root.Digest != s.index || image.Digest != s.image || digest.FromBytes(config) != s.config.Digest) {
		s.t.Errorf("read %s, %s, %s", root.Digest, image.Digest, config)
	}
	return root.Stale || image.Stale || old, err
}

// pulls is a pull that must succeed with the given number of requests to the registry.
func (s *site) pulls(what, ref string, a upstream.Access, requests int) {
	s.t.Helper()
	s.up.Requests()
	stale, err := s.pull(ref, a)
	if got := s.up.Requests(); err != nil || stale || len(got) != requests {
		s.t.Errorf("%s: stale %v, %v, with the requests %q, want %d", what, stale, err, got, requests)
	}
}

// fails makes the registry answer with a status.
func (s *site) fails(status int, after string) {
	s.up.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		if after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.WriteHeader(status)
		return true
	})
}

// TestNothingIsReadTwice checks that a digest is requested once, and of a tag only its digest, also
// by later processes with the same store.
func TestNothingIsReadTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.Open)
	s.pulls("first by tag", "v1", anonymous, 3)
	s.pulls("again by tag", "v1", anonymous, 1)
	s.pulls("by digest", s.index.String(), anonymous, 0)
	s.pulls("by digest, another user", s.index.String(), stranger, 0)
	s.restart()
	s.pulls("by digest after a restart", s.index.String(), anonymous, 0)
	s.pulls("by tag after a restart", "v1", stranger, 1)
	s.up.Requests()
	if tag, err := s.Resolve(t.Context(), s.repo, s.index.String(), stranger); err != nil || tag.Digest != s.index || len(s.up.Requests()) != 0 {
		t.Errorf("the digest is resolved to %v, %v", tag, err)
	}
	const counts = `
# HELP slipway_upstream_cache_total Reads of tags, manifests and blobs with upstream_cache, by kind and result: hit (kept), stale (kept, but the registry could not be asked about it), miss (the registry was asked).
# TYPE slipway_upstream_cache_total counter
slipway_upstream_cache_total{kind="blob",result="hit"} 2
slipway_upstream_cache_total{kind="blob",result="miss"} 0
slipway_upstream_cache_total{kind="blob",result="stale"} 0
slipway_upstream_cache_total{kind="manifest",result="hit"} 5
slipway_upstream_cache_total{kind="manifest",result="miss"} 0
slipway_upstream_cache_total{kind="manifest",result="stale"} 0
slipway_upstream_cache_total{kind="tag",result="hit"} 0
slipway_upstream_cache_total{kind="tag",result="miss"} 1
slipway_upstream_cache_total{kind="tag",result="stale"} 0
`
	if err := testutil.GatherAndCompare(s.reg, strings.NewReader(counts)); err != nil {
		t.Error(err)
	}
}

// TestTagsOfOtherProcesses checks that processes which share a store ask about a tag once in
// tag_freshness.
func TestTagsOfOtherProcesses(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.Open)
	s.freshness = time.Minute
	s.restart()
	s.pulls("first", "v1", anonymous, 3)
	s.restart()
	s.now = s.now.Add(59 * time.Second)
	s.pulls("another process within the freshness", "v1", anonymous, 0)
	s.now = s.now.Add(2 * time.Second)
	s.pulls("after it", "v1", anonymous, 1)
	s.now = s.now.Add(-time.Hour)
	s.pulls("with a clock that is behind", "v1", anonymous, 1)
}

// TestMovedTag checks that a tag which moves is noticed.
func TestMovedTag(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.Open)
	s.pulls("first", "v1", anonymous, 3)
	s.up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	if doc, err := s.Manifest(t.Context(), s.repo, "v1", anonymous); err != nil || doc.Digest == s.index {
		t.Errorf("it is %s, %v", doc.Digest, err)
	}
}

// TestRights checks that what was read with a login is only for logins that the registry allows to
// read it, and asked again after an hour.
func TestRights(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.Bearer)
	refused := func(what string, a upstream.Access) {
		t.Helper()
		for _, ref := range []string{"v1", s.index.String(), s.image.String()} {
			if _, err := s.Manifest(t.Context(), s.repo, ref, a); !errors.Is(err, fault.Unauthenticated) {
				t.Errorf("%s reads %s: %v", what, ref, err)
			}
			if _, err := s.Resolve(t.Context(), s.repo, ref, a); !errors.Is(err, fault.Unauthenticated) {
				t.Errorf("%s resolves %s: %v", what, ref, err)
			}
		}
		if _, _, err := s.Blob(t.Context(), s.repo, s.config, a); !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("%s reads the config: %v", what, err)
		}
		for _, rights := range s.Rights(a) {
			if rights == "public" {
				continue // nothing is kept with these rights
			}
			if _, err := s.MayRead(t.Context(), s.repo, s.config.Digest, rights, a); !errors.Is(err, fault.Unauthenticated) {
				t.Errorf("%s may read with %s: %v", what, rights, err)
			}
		}
	}
	refused("bob, before it is kept,", bob)
	if _, err := s.pull("v1", ada); err != nil {
		t.Fatal(err)
	}
	refused("bob", bob)
	refused("an anonymous caller", anonymous)
	s.pulls("by digest with the login", s.index.String(), ada, 0)
	s.pulls("by digest with the same login", s.index.String(), colleague, 0)
	s.now = s.now.Add(59 * time.Minute)
	s.pulls("within an hour", s.index.String(), ada, 0)
	s.now = s.now.Add(2 * time.Minute)
	s.pulls("after an hour", s.index.String(), ada, 3)
	s.restart()
	s.pulls("with another process", s.index.String(), ada, 4) // one without its new token
	s.fails(http.StatusForbidden, "")
	s.pulls("with a permission that is recent", s.index.String(), ada, 0)
	s.now = s.now.Add(61 * time.Minute)
	if _, err := s.pull(s.index.String(), ada); !errors.Is(err, fault.Denied) {
		t.Errorf("after the login lost its permission: %v", err)
	}
	if strings.Contains(string(bytes.Join(s.all(), nil)), testkit.Password) {
		t.Error("the login is stored")
	}
}

// all returns everything that is stored.
func (s *site) all() (out [][]byte) {
	s.store.change(func(b []byte) []byte { out = append(out, b); return b })
	return out
}

// TestAnonymousContentIsForEveryone checks that content which became public is not kept from
// anonymous callers because a login read it first.
func TestAnonymousContentIsForEveryone(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.Open)
	s.pulls("with a login", "v1", ada, 3)
	s.pulls("without, first", "v1", anonymous, 3)
	s.pulls("without, again", s.index.String(), anonymous, 0)
	s.pulls("with any other login", s.index.String(), bob, 0)
}

// TestOutages checks that what is known is served as stale while the registry is unavailable, that
// the registry is not asked about it for a while, and that nothing else is served.
func TestOutages(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		after  string
		pause  time.Duration
	}{
		"unavailable":            {http.StatusServiceUnavailable, "", 10 * time.Second},
		"limits requests":        {http.StatusTooManyRequests, "120", 2 * time.Minute},
		"limits them for a week": {http.StatusTooManyRequests, strconv.Itoa(7 * 86400), 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, testkit.Open)
			s.pulls("first", "v1", anonymous, 3)
			s.fails(tc.status, tc.after)
			for range 3 {
				if stale, err := s.pull("v1", stranger); !stale || err != nil {
					t.Errorf("it is stale: %v, %v", stale, err)
				}
			}
			if tag, err := s.Resolve(t.Context(), s.repo, "v1", anonymous); !tag.Stale || tag.Digest != s.index || err != nil {
				t.Errorf("it resolves to %v, %v", tag, err)
			}
			if n := len(s.up.Requests()); n > 3 { // one request with its retries
				t.Errorf("the registry was asked %d times", n)
			}
			s.pulls("by digest", s.index.String(), anonymous, 0)
			_, err := s.Manifest(t.Context(), s.repo, "v2", anonymous)
			if e, ok := fault.As(err); !ok || !errors.Is(e, fault.Unavailable) || e.RetryAfter < 10*time.Second || !upstream.IsRegistry(e) {
				t.Errorf("what is not known is answered %v", err)
			}
			s.up.Intercept(nil)
			s.now = s.now.Add(tc.pause - time.Second)
			if stale, err := s.pull("v1", anonymous); !stale || err != nil {
				t.Errorf("during the pause it is stale: %v, %v", stale, err)
			}
			s.now = s.now.Add(2 * time.Second)
			s.pulls("after the pause", "v1", anonymous, 1)
			if log := s.log.String(); strings.Count(log, "is unavailable or limits requests") != 1 {
				t.Errorf("the log is\n%s", log)
			}
		})
	}
}

// TestOutagesOfPrivateRegistries checks that a login of a user reads stored content for as long as
// its permission is recent, and the operator's login whatever it was last allowed to read.
func TestOutagesOfPrivateRegistries(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadGateway, http.StatusTooManyRequests} {
		s := newSite(t, testkit.Bearer)
		for _, a := range []upstream.Access{ada, operator} {
			if _, err := s.pull("v1", a); err != nil {
				t.Fatal(err)
			}
		}
		s.fails(status, "")
		for _, a := range []upstream.Access{ada, operator} {
			if stale, err := s.pull("v1", a); !stale || err != nil {
				t.Errorf("it is stale: %v, %v", stale, err)
			}
		}
		s.now = s.now.Add(61 * time.Minute)
		for _, ref := range []string{"v1", s.index.String()} {
			if _, err := s.pull(ref, ada); !errors.Is(err, fault.Unavailable) {
				t.Errorf("a permission that is too old: %v", err)
			}
			if _, err := s.MayRead(t.Context(), s.repo, s.config.Digest, s.Own(ada), ada); !errors.Is(err, fault.Unavailable) {
				t.Errorf("a permission for a blob that is too old: %v", err)
			}
			if stale, err := s.pull(ref, operator); !stale || err != nil {
				t.Errorf("with the operator's login it is stale: %v, %v", stale, err)
			}
		}
		s.restart()
		for _, a := range []upstream.Access{operator, {Login: upstream.Login{Username: testkit.User, Password: "another account"}, Service: true}} {
			if _, err := s.pull(s.index.String(), a); err == nil {
				t.Error("a process that has not seen the login allowed serves its content")
			}
		}
		if _, err := s.pull(s.index.String(), anonymous); !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("without a login: %v", err)
		}
	}
}

// TestRefusalBeforeAnOutage checks that what the operator's login may not read any more is not
// served in an outage.
func TestRefusalBeforeAnOutage(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.Bearer)
	if _, err := s.pull("v1", operator); err != nil {
		t.Fatal(err)
	}
	s.now = s.now.Add(61 * time.Minute)
	s.fails(http.StatusForbidden, "")
	if _, err := s.pull(s.index.String(), operator); !errors.Is(err, fault.Denied) {
		t.Errorf("a refused login: %v", err)
	}
	s.fails(http.StatusBadGateway, "")
	for _, ref := range []string{s.index.String(), "v1"} {
		if _, err := s.pull(ref, operator); !errors.Is(err, fault.Unavailable) {
			t.Errorf("%s after the refusal, in an outage: %v", ref, err)
		}
	}
}

// TestOutagesOfOthers checks that neither errors of other repositories and logins, nor wrong
// answers, make a registry count as unavailable.
func TestOutagesOfOthers(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]func(*site){
		"another repository": func(s *site) {
			s.fails(http.StatusServiceUnavailable, "300")
			_, _ = s.Manifest(s.t.Context(), upstream.Repository{Host: s.up.Host, Name: "evil/x"}, "v1", anonymous)
		},
		"another login": func(s *site) {
			s.fails(http.StatusTooManyRequests, "300")
			_, _ = s.Manifest(s.t.Context(), s.repo, "v1", bob)
		},
		"a wrong answer": func(s *site) {
			s.fails(http.StatusBadRequest, "")
			_, _ = s.Manifest(s.t.Context(), s.repo, "v1", anonymous)
		},
		"a large answer": func(s *site) {
			s.up.Intercept(func(w http.ResponseWriter, _ *http.Request) bool { _, _ = w.Write(make([]byte, 5<<20)); return true })
			_, _ = s.Manifest(s.t.Context(), s.repo, "sha256:"+strings.Repeat("0", 64), anonymous)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, testkit.Open)
			s.pulls("first", "v1", anonymous, 3)
			attack(s)
			s.up.Intercept(nil)
			s.up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
			if doc, err := s.Manifest(t.Context(), s.repo, "v1", anonymous); err != nil || doc.Stale || doc.Digest == s.index {
				t.Errorf("after %s the tag is %s, stale %v, %v", name, doc.Digest, doc.Stale, err)
			}
		})
	}
}

// TestWrongSize checks that a blob of another size than its image states is not kept.
func TestWrongSize(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.Open)
	s.config.Size--
	if _, _, err := s.Blob(t.Context(), s.repo, s.config, anonymous); !errors.Is(err, fault.Invalid) || len(s.all()) != 0 {
		t.Errorf("it is answered %v, and %d documents are kept", err, len(s.all()))
	}
}

// TestPassing checks that what a search reads is not kept.
func TestPassing(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.Open)
	if _, err := s.Manifest(pullthrough.Passing(t.Context()), s.repo, s.image.String(), anonymous); err != nil || len(s.all()) != 0 {
		t.Errorf("%d documents are kept, %v", len(s.all()), err)
	}
}

// TestSlowRegistries checks that known content does not wait for a slow registry.
func TestSlowRegistries(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.Open)
	s.pulls("first", "v1", anonymous, 3)
	s.up.Intercept(func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true })
	hasty, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if tag, err := s.Resolve(hasty, s.repo, "v1", anonymous); err != nil || !tag.Stale {
		t.Errorf("a caller in haste gets %v, %v", tag, err)
	}
	s.up.Intercept(nil)
	s.pulls("afterwards", "v1", anonymous, 1) // a caller in haste does not make the registry unavailable
	s.wait = time.Second
	s.restart()
	s.up.Intercept(func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true })
	for range 2 {
		if stale, err := s.pull("v1", anonymous); !stale || err != nil {
			t.Errorf("it is stale: %v, %v", stale, err)
		}
	}
	if n := len(s.up.Requests()); n != 1 {
		t.Errorf("the registry was asked %d times", n)
	}
}

// TestDeletedTag checks that a tag which the registry has deleted is not served in an outage.
func TestDeletedTag(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden} {
		s := newSite(t, testkit.Open)
		s.pulls("first", "v1", anonymous, 3)
		s.fails(status, "")
		if _, err := s.pull("v1", anonymous); err == nil {
			t.Error("a deleted tag is served")
		}
		s.fails(http.StatusServiceUnavailable, "")
		if _, err := s.pull("v1", anonymous); !errors.Is(err, fault.Unavailable) {
			t.Errorf("in an outage a deleted tag is answered %v", err)
		}
	}
}

// TestLiars checks that content with another digest than requested is neither served nor kept.
func TestLiars(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.Open)
	s.up.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		_, _ = w.Write([]byte(`{"schemaVersion":2}`))
		return true
	})
	if _, err := s.Manifest(t.Context(), s.repo, s.image.String(), anonymous); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a manifest: %v", err)
	}
	if _, _, err := s.Blob(t.Context(), s.repo, s.config, anonymous); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a config: %v", err)
	}
	if n := len(s.all()); n != 0 {
		t.Errorf("%d documents are kept", n)
	}
}

// TestDamagedStore checks that damaged documents are requested again.
func TestDamagedStore(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func([]byte) []byte{
		"empty":     func([]byte) []byte { return nil },
		"truncated": func(b []byte) []byte { return b[:len(b)/2] },
		"changed":   func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"longer":    func(b []byte) []byte { return append(b, 'x') },
		"huge":      func([]byte) []byte { return make([]byte, 5<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, testkit.Open)
			s.pulls("first", "v1", anonymous, 3)
			s.store.change(damage)
			s.pulls("damaged", "v1", anonymous, 3)
			s.pulls("mended", s.index.String(), anonymous, 0)
		})
	}
}

// TestDirect checks that a reader that keeps nothing asks the registry each time.
func TestDirect(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.Open)
	s.Reader = pullthrough.Direct(s.client())
	for range 2 {
		s.pulls("direct", "v1", anonymous, 3)
		if _, err := s.MayRead(t.Context(), s.repo, s.config.Digest, s.Own(anonymous), anonymous); err != nil || len(s.up.Requests()) != 1 {
			t.Errorf("it was not asked for permission: %v", err)
		}
	}
	s.fails(http.StatusServiceUnavailable, "")
	if _, err := s.pull("v1", anonymous); !errors.Is(err, fault.Unavailable) {
		t.Error(err)
	}
}
