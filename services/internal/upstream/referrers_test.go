package upstream_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// listOf returns a list of referrers with digests of texts.
func listOf(texts ...string) string {
	var entries []string
	for _, t := range texts {
		entries = append(entries, fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":%q,"size":1}`, digest.FromString(t)))
	}
	return `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[` + strings.Join(entries, ",") + `]}`
}

// TestReferrers checks registries with and without the referrers API. A list is complete, or an
// error is returned.
func TestReferrers(t *testing.T) {
	t.Parallel()
	const list = "/v2/team/app/referrers/"
	for _, tc := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request)
		want   []string
		fault  error
	}{
		{name: "none", answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, listOf()) }},
		{name: "two pages", want: []string{"a", "b", "c"}, answer: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("after") == "b" {
				_, _ = io.WriteString(w, listOf("c"))
				return
			}
			w.Header().Set("Link", "<"+r.URL.Path+`?after=b>; rel="next"`)
			_, _ = io.WriteString(w, listOf("a", "b"))
		}},
		{name: "the fallback tag", want: []string{"f"}, answer: func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, list) {
				http.NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, listOf("f"))
		}},
		{name: "neither", answer: http.NotFound},
		{name: "endless pages", fault: fault.Invalid, answer: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "<"+r.URL.Path+`?again>; rel="next"`)
			_, _ = io.WriteString(w, listOf("a"))
		}},
		{name: "a page elsewhere", fault: fault.Unavailable, answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", `</v2/other/app/referrers/x>; rel="next"`)
			_, _ = io.WriteString(w, listOf("a"))
		}},
		{name: "an error of the registry", fault: fault.Unavailable, answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }},
		{name: "a limit of the registry", fault: fault.Exhausted, answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
		}},
		{name: "a path instead of a digest", fault: fault.Invalid, answer: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Replace(listOf("a"), digest.FromString("a").String(), "x:/../../other", 1))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testkit.Open)
			w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/v2/" {
					return false
				}
				rw.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
				tc.answer(rw, r)
				return true
			})
			got, err := w.client.Referrers(t.Context(), w.repo, w.digest(t), upstream.Access{})
			if tc.fault != nil {
				if !errors.Is(err, tc.fault) {
					t.Errorf("got %v, %v, want %v", got, err, tc.fault)
				}
				return
			}
			var digests, want []string
			for _, d := range got {
				digests = append(digests, d.Digest.String())
			}
			for _, text := range tc.want {
				want = append(want, digest.FromString(text).String())
			}
			if err != nil || strings.Join(digests, " ") != strings.Join(want, " ") {
				t.Errorf("got %v, %v, want %v", digests, err, want)
			}
		})
	}
}

// TestReadBlobIsResumed checks that a redirected download continues after disconnections, but not
// without end.
func TestReadBlobIsResumed(t *testing.T) {
	t.Parallel()
	for _, endless := range []bool{false, true} {
		w := newWorld(t, testkit.Open)
		d, raw := w.layer(t)
		var calls atomic.Int32
		w.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
			switch {
			case strings.HasSuffix(r.URL.Path, "/blobs/"+d.String()):
				http.Redirect(rw, r, "http://"+strings.Replace(w.Host, "127.0.0.1", "localhost", 1)+"/v2/storage", http.StatusTemporaryRedirect)
			case r.URL.Path == "/v2/storage":
				var from, to int
				_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to)
				rw.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(raw)))
				rw.Header().Set("Content-Length", fmt.Sprint(to-from+1))
				rw.WriteHeader(http.StatusPartialContent)
				if n := calls.Add(1); n <= 3 || endless { // one byte, then it disconnects
					_, _ = rw.Write(raw[from : from+1])
					_ = http.NewResponseController(rw).Flush()
					panic(http.ErrAbortHandler)
				}
				_, _ = rw.Write(raw[from : to+1])
			default:
				return false
			}
			return true
		})
		r, err := w.client.ReadBlob(t.Context(), w.repo, d, upstream.Access{}, 0, int64(len(raw)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		_ = r.Close()
		if endless && (err == nil || calls.Load() > 10) || !endless && (err != nil || string(got) != string(raw)) {
			t.Errorf("endless %t: %d calls, %d bytes of %d, %v", endless, calls.Load(), len(got), len(raw), err)
		}
	}
}
