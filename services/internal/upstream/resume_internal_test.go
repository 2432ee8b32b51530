package upstream

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// broken returns its bytes and then an error.
func broken(raw []byte) io.ReadCloser {
	return io.NopCloser(io.MultiReader(bytes.NewReader(raw), failing{}))
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("connection reset by peer") }

// TestBlobOfUnavailableRegistry breaks the connection in the middle of a blob while the
// registry is unavailable for some time.
func TestBlobOfUnavailableRegistry(t *testing.T) {
	t.Parallel()
	raw := bytes.Repeat([]byte("0123456789"), 10)
	for _, tc := range []struct {
		name string
		away time.Duration
		with error
		want bool
		// bounds of the time until the read ends
		least, most time.Duration
	}{
		{"for two seconds", 2 * time.Second, fault.Unavailable.Newf("away"), true, 2 * time.Second, 5 * time.Second},
		{"for most of the time", limits.BlobResumeWindow - time.Second, fault.Unavailable.Newf("away"), true, limits.BlobResumeWindow - time.Second, limits.BlobResumeWindow + 5*time.Second},
		{"slow for ten seconds", 10 * time.Second, fault.Timeout.Newf("slow"), true, 10 * time.Second, 15 * time.Second},
		{"for ever", time.Hour, fault.Unavailable.Newf("away"), false, limits.BlobResumeWindow, limits.BlobResumeWindow + 5*time.Second},
		{"then without the blob", time.Hour, fault.NotFound.Newf("gone"), false, 0, time.Second},
		{"then denying access", time.Hour, fault.Denied.Newf("no"), false, 0, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				body := &resumingReader{ctx: t.Context(), body: broken(raw[:40]), left: int64(len(raw)), reopen: func(at, left int64) (io.ReadCloser, error) {
					if time.Since(begun) < tc.away {
						return nil, tc.with
					}
					return io.NopCloser(bytes.NewReader(raw[at : at+left])), nil
				}}
				got, err := io.ReadAll(body)
				took := time.Since(begun)
				if (err == nil) != tc.want || tc.want && !bytes.Equal(got, raw) || !tc.want && !errors.Is(err, tc.with) {
					t.Errorf("got %d bytes, %v", len(got), err)
				}
				if took < tc.least || took > tc.most {
					t.Errorf("it took %s, want %s to %s", took, tc.least, tc.most)
				}
			})
		})
	}
}

// TestBlobThatBreaksRepeatedly reads from a registry that sends one byte for each request.
func TestBlobThatBreaksRepeatedly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		body := &resumingReader{ctx: t.Context(), body: broken([]byte("x")), left: 1000, reopen: func(int64, int64) (io.ReadCloser, error) {
			asked++
			return broken([]byte("x")), nil
		}}
		if got, err := io.ReadAll(body); err == nil || asked != limits.BlobResumptions || len(got) != asked+1 {
			t.Errorf("got %d bytes with %d requests, %v", len(got), asked, err)
		}
	})
}

// TestMoveFromClosedConnection checks that the rest of a blob is requested if the transport has
// closed the connection between two moves, because the registry broke it.
func TestMoveFromClosedConnection(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	if err := errors.Join(ours.Close(), theirs.Close()); err != nil {
		t.Fatal(err)
	}
	r := &resumingReader{ctx: t.Context(), left: 4, body: &wiredBody{ReadCloser: broken(nil), conn: &stallConn{Conn: ours}, empty: true},
		reopen: func(at, left int64) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("rest")), nil }}
	if n, err := r.MoveTo(io.Discard, 4, time.Second); n != 0 || err != nil {
		t.Fatalf("%d bytes were moved, %v", n, err)
	}
	if got, err := io.ReadAll(r); string(got) != "rest" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}
