package channel_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/fault"
)

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
				t.Error("a fresh index was fetched again")
			}
			// After an hour the channel is unchanged; later it has a new record.
			w.clock.forward(2 * time.Hour)
			if got, _ := w.versions(t); got != "1" {
				t.Errorf("got %q", got)
			}
			w.settled()
			if state, _ := w.get(t, channel.Access{}); !state.Checked.Equal(w.clock.now()) || state.Failure != "" {
				t.Errorf("after an unchanged response the state is %+v", state)
			}
			site.set(path, pack(repodata("2")))
			w.clock.forward(2 * time.Hour)
			if got, _ := w.versions(t); got != "1" {
				t.Errorf("a caller waited for the refresh and got %q", got)
			}
			w.settled()
			if got, _ := w.versions(t); got != "2" {
				t.Errorf("after a refresh: %q", got)
			}
		})
	}
}

// TestBrokenChannel checks that the previous index is served when a channel fails, together
// with the reason, and that without a previous index the caller receives the error.
func TestBrokenChannel(t *testing.T) {
	t.Parallel()
	elsewhere := newWeb(t) // at an address of this machine that egress rules forbid
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
		"garbage":              {serve([]byte("<html>sorry</html>")), fault.Unavailable},
		"no JSON":              {serve(compress([]byte("<html>sorry</html>"))), fault.Unavailable},
		"half of the download": {serve(good[:len(good)/2]), fault.Unavailable},
		"half of the text":     {serve(compress(repodata("2")[:40])), fault.Unavailable},
		"a closed connection": {func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, ".json.zst") {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(good)))
			_, _ = w.Write(good[:len(good)-3])
		}, fault.Unavailable},
		"500":                  {status(500), fault.Unavailable},
		"429":                  {status(429), fault.Exhausted},
		"401":                  {status(401), fault.Denied},
		"redirect":             {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }, fault.Invalid},
		"a redirect loop":      {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, fault.Unavailable},
		"a decompression bomb": {serve(bomb), fault.Unavailable},
		"malformed shards":     {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bomb) }, fault.Unavailable},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := newWeb(t)
			site.answers(c.answer)
			w := open(t, site, t.TempDir())
			if got, err := w.versions(t); !errors.Is(err, c.kind) {
				t.Errorf("the first caller got %q, %v; want %v", got, err, c.kind)
			}
			site.answers(nil)
			site.set("/c/linux-64/repodata.json.zst", compress(repodata("1")))
			w.clock.forward(time.Hour)
			if got, err := w.versions(t); got != "1" || err != nil {
				t.Fatalf("after the channel recovered: %q, %v", got, err)
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
				t.Errorf("%v was not removed", left)
			}
		})
	}
	if got := elsewhere.paths(); len(got) > 0 {
		t.Errorf("a forbidden address received requests for %q", got)
	}
}

// TestRetryAfter checks that Retry-After is respected.
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
		t.Errorf("before Retry-After the channel was contacted: %v", err)
	}
	site.answers(nil)
	site.set("/c/linux-64/repodata.json", repodata("1"))
	w.clock.forward(2 * time.Minute)
	if got, err := w.versions(t); got != "1" || err != nil {
		t.Errorf("after Retry-After: %q, %v", got, err)
	}
}
