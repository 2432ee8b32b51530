package layering_test

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/upstream"
)

var content = strings.Repeat("an artifact ", 50_000)

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// channel serves one artifact. For each request, break is the number of bytes before the
// connection ends.
func channel(t *testing.T, handler http.HandlerFunc) spec.Record {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return spec.Record{FileName: "a-1-0.conda", URL: s.URL + "/a-1-0.conda", SHA256: sumOf(content), Size: int64(len(content))}
}

func fetcher() *layering.Fetcher {
	return &layering.Fetcher{Client: http.DefaultClient, Wait: func(context.Context, time.Duration) error { return nil }}
}

func serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"1"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
}

// broken ends the connection after some bytes.
type broken struct {
	http.ResponseWriter
	left int
}

func (b *broken) Write(p []byte) (int, error) {
	if len(p) > b.left {
		_, _ = b.ResponseWriter.Write(p[:b.left])
		panic(http.ErrAbortHandler)
	}
	b.left -= len(p)
	return b.ResponseWriter.Write(p)
}

// TestFetch checks the failures of a channel after which an artifact is still fetched.
func TestFetch(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]func(n int32, w http.ResponseWriter, r *http.Request){
		"at once":       func(_ int32, w http.ResponseWriter, r *http.Request) { serve(w, r) },
		"interrupted":   func(_ int32, w http.ResponseWriter, r *http.Request) { serve(&broken{w, 100_000}, r) },
		"unavailable":   func(n int32, w http.ResponseWriter, r *http.Request) { failing(n < 4, w, r) },
		"without range": func(n int32, w http.ResponseWriter, r *http.Request) { withoutRange(n, w, r) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n atomic.Int32
			var progressWriter atomic.Int64
			rec := channel(t, func(w http.ResponseWriter, r *http.Request) { handler(n.Add(1), w, r) })
			f := fetcher()
			f.Progress = func(n int64) { progressWriter.Add(n) }
			file, size, err := f.Fetch(context.Background(), rec)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = file.Close() }()
			raw, err := io.ReadAll(io.NewSectionReader(file, 0, size))
			if err != nil || string(raw) != content || progressWriter.Load() != size {
				t.Errorf("%d bytes came, %d were told of: %v", len(raw), progressWriter.Load(), err)
			}
		})
	}
}

// TestFetchStored checks that a stored copy of an artifact is used before the channel, unless it is damaged.
func TestFetchStored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stored string
		err    error
		asked  int32 // requests to the channel
	}{
		"a copy":          {content, nil, 0},
		"no copy":         {"", fault.NotFound.Newf("There is none"), 1},
		"a damaged copy":  {strings.ToUpper(content), nil, 1},
		"a part":          {content[:100_000], nil, 1},
		"a longer copy":   {content + "x", nil, 1},
		"an empty copy":   {"", nil, 1},
		"another's bytes": {strings.Repeat("x", 2*len(content)), nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			var progress atomic.Int64
			rec := channel(t, func(w http.ResponseWriter, r *http.Request) { asked.Add(1); serve(w, r) })
			f := fetcher()
			f.Progress = func(n int64) { progress.Add(n) }
			f.Stored = func(context.Context, spec.Record) (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(c.stored)), c.err
			}
			file, size, err := f.Fetch(t.Context(), rec)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = file.Close() }()
			raw, err := io.ReadAll(io.NewSectionReader(file, 0, size))
			if err != nil || string(raw) != content || asked.Load() != c.asked || progress.Load() != size {
				t.Errorf("%d bytes, %d requests to the channel, progress %d: %v", len(raw), asked.Load(), progress.Load(), err)
			}
		})
	}
}

func failing(fails bool, w http.ResponseWriter, r *http.Request) {
	if fails {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	serve(w, r)
}

func withoutRange(n int32, w http.ResponseWriter, r *http.Request) {
	r.Header.Del("Range")
	if n < 3 {
		w = &broken{w, 300_000}
	}
	serve(w, r)
}

// TestFetchRefuses checks failures that are not retried.
func TestFetchRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		change  func(*spec.Record)
		kind    fault.Kind
		why     string
	}{
		"changed":     {serve, func(r *spec.Record) { r.SHA256 = sumOf("x") }, fault.Invalid, "does not match the lock"},
		"changed md5": {serve, func(r *spec.Record) { r.SHA256, r.MD5 = "", strings.Repeat("0", 32) }, fault.Invalid, "does not match the lock"},
		"longer":      {serve, func(r *spec.Record) { r.Size = 100 }, fault.Invalid, "longer than the 100 bytes"},
		"shorter":     {serve, func(r *spec.Record) { r.Size *= 2 }, fault.Unavailable, "could not be fetched"},
		"no digest":   {serve, func(r *spec.Record) { r.SHA256 = "" }, fault.Invalid, "has no valid digest"},
		"gone":        {http.NotFound, func(*spec.Record) {}, fault.Invalid, "does not have a-1-0.conda any more"},
		"private":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, func(*spec.Record) {}, fault.Denied, "add credentials"},
		"unavailable": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, func(*spec.Record) {}, fault.Unavailable, "answered 503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := channel(t, c.handler)
			c.change(&rec)
			_, _, err := fetcher().Fetch(context.Background(), rec)
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.why) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// TestFetchOld fetches an artifact of which only the older digest is known.
func TestFetchOld(t *testing.T) {
	t.Parallel()
	rec := channel(t, serve)
	sum := md5.Sum([]byte(content))
	rec.SHA256, rec.MD5, rec.Size = "", hex.EncodeToString(sum[:]), 0
	file, _, err := fetcher().Fetch(context.Background(), rec)
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
}

// TestFetchStaysOutside checks that a lock that points into the service's own network fails
// immediately.
func TestFetchStaysOutside(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	rec := channel(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	egress, err := upstream.NewEgress(nil)
	if err != nil {
		t.Fatal(err)
	}
	f := fetcher()
	f.Client = &http.Client{Transport: upstream.NewTransport(egress)}
	_, _, err = f.Fetch(context.Background(), rec)
	if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "egress_allow") || asked.Load() != 0 {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
}
