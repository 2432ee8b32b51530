package registry

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/httprecord"
	"slipway.dev/services/internal/upstream"
)

// moves counts the bytes that a mover moves.
type moves struct {
	io.Reader
	mover
	n int64
}

func (m *moves) MoveTo(w io.Writer, n int64, within time.Duration) (int64, error) {
	n, err := m.mover.MoveTo(w, n, within)
	m.n += n
	return n, err
}

// TestBlobsAreMoved checks that the kernel moves blobs from the registry's connection to
// the client's, however the registry's connection ends.
func TestBlobsAreMoved(t *testing.T) {
	t.Parallel()
	raw := make([]byte, 9<<20+12345)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(raw)
	for name, c := range map[string]struct {
		ranged string
		cuts   []int
		want   []byte
	}{
		"whole":          {"", nil, raw},
		"a part":         {"bytes=100-", nil, raw[100:]},
		"small":          {"bytes=0-99", nil, raw[:100]},
		"cut":            {"", []int{3<<20 + 17}, raw},
		"cut twice":      {"bytes=5-", []int{2 << 20, 4<<20 + 1}, raw[5:]},
		"cut at its end": {"", []int{len(raw) - 1}, raw},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				from, to := 0, len(raw)-1
				if ranged := r.Header.Get("Range"); ranged != "" {
					_, _ = fmt.Sscanf(ranged, "bytes=%d-%d", &from, &to)
					w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(raw)))
				}
				part := raw[from : to+1]
				w.Header().Set("Content-Length", strconv.Itoa(len(part)))
				if w.Header().Get("Content-Range") != "" {
					w.WriteHeader(http.StatusPartialContent)
				}
				if i := int(asked.Add(1)) - 1; i < len(c.cuts) {
					_, _ = w.Write(part[:c.cuts[i]])
					_ = http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				}
				_, _ = w.Write(part)
			}))
			t.Cleanup(up.Close)
			host := strings.TrimPrefix(up.URL, "http://")
			egress, err := upstream.NewEgress([]string{"127.0.0.1"})
			if err != nil {
				t.Fatal(err)
			}
			client := upstream.New(upstream.Options{Egress: egress, Plain: []string{host}, Metrics: prometheus.NewRegistry()})
			moved, sent := make(chan int64, 1), make(chan int64, 1)
			ours := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				b, err := client.Blob(r.Context(), http.MethodGet, upstream.Repository{Host: host, Name: "a"}, digest.FromBytes(raw), upstream.Access{}, c.ranged)
				if err != nil {
					t.Error(err)
					return
				}
				defer b.Body.Close()
				rec := &httprecord.Writer{ResponseWriter: &httprecord.Writer{ResponseWriter: w}} // as the edge and the registry wrap it
				rec.Header().Set("Content-Length", strconv.FormatInt(b.Size, 10))
				m := &moves{Reader: b.Body, mover: b.Body.(mover)}
				if err := newStreams().copy(rec, m, true); err != nil {
					t.Error(err)
				}
				moved <- m.n
				sent <- rec.Bytes
			}))
			t.Cleanup(ours.Close)
			resp, err := http.Get(ours.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if err != nil || !bytes.Equal(got, c.want) {
				t.Fatalf("got %d bytes, %v; want %d", len(got), err, len(c.want))
			}
			if n := <-moved; len(c.want) > 2*largePiece && n < int64(len(c.want))/2 {
				t.Errorf("%d of %d bytes were moved", n, len(c.want))
			}
			if n := <-sent; n != int64(len(c.want)) {
				t.Errorf("%d bytes were counted", n)
			}
			if n := int(asked.Load()); n != 1+len(c.cuts) {
				t.Errorf("asked %d times", n)
			}
		})
	}
}
