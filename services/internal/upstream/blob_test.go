package upstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// layer returns the digest and the content of the first layer of w's image.
func (w world) layer(t testing.TB) (digest.Digest, []byte) {
	t.Helper()
	layers, err := w.image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	d, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	r, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return digest.Digest(d.String()), raw
}

func TestBlob(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.Bearer)
	d, raw := w.layer(t)
	last := len(raw) - 1
	for _, tc := range []struct {
		name, method, ranged string
		status               int
		contentRange         string
		want                 []byte
	}{
		{"whole", http.MethodGet, "", 200, "", raw},
		{"head", http.MethodHead, "", 200, "", nil},
		{"a part", http.MethodGet, "bytes=5-9", 206, fmt.Sprintf("bytes 5-9/%d", len(raw)), raw[5:10]},
		{"the end", http.MethodGet, "bytes=-3", 206, fmt.Sprintf("bytes %d-%d/%d", last-2, last, len(raw)), raw[last-2:]},
		{"from", http.MethodGet, fmt.Sprintf("bytes=%d-", last), 206, fmt.Sprintf("bytes %d-%d/%d", last, last, len(raw)), raw[last:]},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b, err := w.client.Blob(t.Context(), tc.method, w.repo, d, ada, tc.ranged)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Body.Close()
			got, err := io.ReadAll(b.Body)
			if err != nil || !bytes.Equal(got, tc.want) {
				t.Errorf("got %d bytes, %v; want %d", len(got), err, len(tc.want))
			}
			size := int64(len(tc.want))
			if tc.method == http.MethodHead {
				size = int64(len(raw))
			}
			if b.Status != tc.status || b.ContentRange != tc.contentRange || b.Size != size || b.Redirect != nil {
				t.Errorf("got %+v", b)
			}
		})
	}
}

func TestBlobRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.Open)
	d, raw := w.layer(t)
	_, err := w.client.Blob(t.Context(), http.MethodGet, w.repo, d, anonymous, fmt.Sprintf("bytes=%d-", len(raw)))
	if !upstream.IsRange(err) || !errors.Is(err, fault.Invalid) {
		t.Errorf("a range after the end: got %v", err)
	}
	_, err = w.client.Blob(t.Context(), http.MethodGet, w.repo, digest.FromString("x"), anonymous, "")
	if !errors.Is(err, fault.NotFound) || upstream.IsRange(err) {
		t.Errorf("a missing blob: got %v", err)
	}
}

// A breaking registry serves raw, but closes the first connections after the given numbers
// of bytes. how selects an invalid response for later requests.
type breaking struct {
	raw []byte
	how string

	mu     sync.Mutex
	cuts   []int
	ranges []string
}

func (b *breaking) next(r *http.Request) (length int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ranges = append(b.ranges, r.Header.Get("Range"))
	length = len(b.raw)
	if len(b.cuts) > 0 {
		length, b.cuts = b.cuts[0], b.cuts[1:]
	}
	return length
}

func (b *breaking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	length := b.next(r)
	from, to := 0, len(b.raw)-1
	if ranged := r.Header.Get("Range"); ranged != "" && b.how != "whole again" {
		_, _ = fmt.Sscanf(ranged, "bytes=%d-%d", &from, &to)
		stated := from
		if b.how == "elsewhere" && from > 0 {
			stated--
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", stated, to, len(b.raw)))
	}
	part := b.raw[from : to+1]
	w.Header().Set("Content-Length", strconv.Itoa(len(part)))
	if w.Header().Get("Content-Range") != "" {
		w.WriteHeader(http.StatusPartialContent)
	}
	_, _ = w.Write(part[:min(length, len(part))])
	if length < len(part) {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func TestBlobResumesAfterInterruption(t *testing.T) {
	t.Parallel()
	raw := bytes.Repeat([]byte("0123456789"), 1000)
	for _, tc := range []struct {
		name, ranged, how string
		cuts              []int
		want              []byte // nil: it fails
		ranges            []string
	}{
		{"once", "", "", []int{4000}, raw, []string{"", "bytes=4000-9999"}},
		{"twice", "", "", []int{4000, 1000}, raw, []string{"", "bytes=4000-9999", "bytes=5000-9999"}},
		{"at once", "", "", []int{0}, raw, []string{"", "bytes=0-9999"}},
		{"a part", "bytes=100-299", "", []int{50}, raw[100:300], []string{"bytes=100-299", "bytes=150-299"}},
		{"the response is the whole blob", "", "whole again", []int{4000}, nil, []string{"", "bytes=4000-9999"}},
		{"the response is another part", "", "elsewhere", []int{4000}, nil, []string{"", "bytes=4000-9999"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := &breaking{raw: raw, how: tc.how, cuts: tc.cuts}
			client, repo := serve(t, b)
			blob, err := client.Blob(t.Context(), http.MethodGet, repo, digest.FromBytes(raw), anonymous, tc.ranged)
			if err != nil {
				t.Fatal(err)
			}
			defer blob.Body.Close()
			got, err := io.ReadAll(blob.Body)
			if (err == nil) != (tc.want != nil) || tc.want != nil && !bytes.Equal(got, tc.want) {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
			if fmt.Sprint(b.ranges) != fmt.Sprint(tc.ranges) {
				t.Errorf("asked for %q, want %q", b.ranges, tc.ranges)
			}
		})
	}
}

func TestBlobEndsWithItsReader(t *testing.T) {
	t.Parallel()
	raw := bytes.Repeat([]byte("x"), 1000)
	gone := make(chan struct{})
	a := &answers{list: []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
		_, _ = w.Write(raw[:10])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	}}}
	client, repo := serve(t, a)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b, err := client.Blob(ctx, http.MethodGet, repo, digest.FromBytes(raw), anonymous, "")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Body.Close()
	if _, err := io.ReadFull(b.Body, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(b.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-gone // the test hangs if the upstream connection is not closed
	if n := len(a.times()); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestBlobOfUnknownLength(t *testing.T) {
	t.Parallel()
	client, repo := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("first"))
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write([]byte("second"))
	}))
	b, err := client.Blob(t.Context(), http.MethodGet, repo, digest.FromString("x"), anonymous, "")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Body.Close()
	if got, err := io.ReadAll(b.Body); err != nil || string(got) != "firstsecond" || b.Size != -1 {
		t.Errorf("got %q of %d, %v", got, b.Size, err)
	}
}
