package gateway_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/gateway"
)

// sifService has one Singularity image.
type sifService struct {
	containerv1.UnimplementedContainerServiceServer
	content string
	begun   *atomic.Int32 // number of downloads that have begun
}

func (r sifService) StreamSif(req *containerv1.StreamSifRequest, s grpc.ServerStreamingServer[containerv1.StreamSifResponse]) error {
	if req.GetRequestId() != "abc" {
		return status.Error(codes.NotFound, "no")
	}
	if req.GetBegins() {
		r.begun.Add(1)
	}
	m := &containerv1.StreamSifResponse{Digest: "sha256:0123", Size: int64(len(r.content)), FileName: "x.sif"}
	if req.GetLength() == 0 {
		return s.Send(m)
	}
	for _, c := range r.content[req.GetOffset() : req.GetOffset()+req.GetLength()] {
		m.Chunk = []byte(string(c))
		if err := s.Send(m); err != nil {
			return err
		}
		m = &containerv1.StreamSifResponse{}
	}
	return nil
}

func TestSif(t *testing.T) {
	t.Parallel()
	file := strings.Repeat("-", 1024) + "0123456789"
	begun := &atomic.Int32{}
	l := bufconn.Listen(1 << 16)
	services := grpc.NewServer()
	containerv1.RegisterContainerServiceServer(services, sifService{content: file, begun: begun})
	go func() { _ = services.Serve(l) }()
	t.Cleanup(services.Stop)
	conn, err := grpc.NewClient("passthrough:///services", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	h, err := gateway.New(t.Context(), gateway.Conns{Container: conn})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, method, header, value string
		code                        int
		body, contentRange          string
		begins                      int32
	}{
		{"whole", "GET", "", "", 200, file, "", 1},
		{"head", "HEAD", "", "", 200, "", "", 0},
		{"head of a part", "HEAD", "Range", "bytes=0-3", 206, "", "bytes 0-3/1034", 0},
		{"a part", "GET", "Range", "bytes=1026-1028", 206, "234", "bytes 1026-1028/1034", 0},
		{"from the first byte on", "GET", "Range", "bytes=0-3", 206, "----", "bytes 0-3/1034", 1},
		{"from the first byte on, with zeros", "GET", "Range", "bytes=00-3", 206, "----", "bytes 0-3/1034", 1},
		{"from the second byte on", "GET", "Range", "bytes=1-3", 206, "---", "bytes 1-3/1034", 1},
		{"from a byte on", "GET", "Range", "bytes=1031-", 206, "789", "bytes 1031-1033/1034", 0},
		{"the end", "GET", "Range", "bytes=-2", 206, "89", "bytes 1032-1033/1034", 1},
		{"a suffix longer than the file", "GET", "Range", "bytes=-9223372036854775807", 200, file, "", 1},
		{"beyond the end", "GET", "Range", "bytes=1032-2000", 206, "89", "bytes 1032-1033/1034", 0},
		{"beyond", "GET", "Range", "bytes=1034-", 416, "", "bytes */1034", 0},
		{"an empty suffix", "GET", "Range", "bytes=-0", 416, "", "bytes */1034", 1},
		{"several parts are the whole", "GET", "Range", "bytes=1-2,4-5", 200, file, "", 1},
		{"backwards", "GET", "Range", "bytes=1028-1026", 416, "", "", 0},
		{"known", "GET", "If-None-Match", `"sha256:0123"`, 304, "", "", 1},
		{"If-Range with the current Etag", "GET", "If-Range", `"sha256:0123"`, 206, "89", "bytes 1032-1033/1034", 0},
		{"If-Range with another Etag", "GET", "If-Range", `"sha256:4567"`, 200, file, "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, "/v1alpha2/container/abc/sif", nil)
			if tt.header != "" {
				r.Header.Set(tt.header, tt.value)
			}
			if tt.header == "If-Range" {
				r.Header.Set("Range", "bytes=1032-")
			}
			w := httptest.NewRecorder()
			begun.Store(0)
			h.ServeHTTP(w, r)
			if begun.Load() != tt.begins {
				t.Errorf("%d downloads have begun", begun.Load())
			}
			if w.Code != tt.code || tt.code < 300 && w.Body.String() != tt.body || w.Header().Get("Content-Range") != tt.contentRange {
				t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
			}
			if tt.code == 416 && !strings.HasPrefix(w.Body.String(), `{"message":`) {
				t.Errorf("the error is %s", w.Body)
			}
			if tt.code < 400 && w.Header().Get("Etag") != `"sha256:0123"` {
				t.Errorf("its tag is %q", w.Header().Get("Etag"))
			}
		})
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1alpha2/container/other/sif", nil))
	if !strings.Contains(w.Body.String(), "message") || w.Code < 400 {
		t.Errorf("an unknown one is %d %s", w.Code, w.Body)
	}
}
