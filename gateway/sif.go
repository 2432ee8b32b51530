package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// downloads answers Singularity images, for programs that are too old to pull them
// from a registry.
type downloads struct {
	mux  *runtime.ServeMux
	room containerv1.ContainerServiceClient
	pace pace
}

// isDownload knows the paths that take as long as a large file.
func isDownload(path string) bool {
	return strings.HasPrefix(path, "/v1alpha2/container/") && strings.HasSuffix(path, "/sif")
}

// sif answers GET and HEAD /v1alpha2/container/{request_id}/sif.
func (d *downloads) sif(w http.ResponseWriter, r *http.Request, path map[string]string) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	ctx, err := runtime.AnnotateContext(ctx, d.mux, r, containerv1.ContainerService_StreamSif_FullMethodName)
	if err != nil {
		writeError(ctx, d.mux, nil, w, r, err)
		return
	}
	// What the file is comes first: a range can be understood only then.
	what, _, err := d.open(ctx, &containerv1.StreamSifRequest{RequestId: path["request_id"]})
	if err != nil {
		writeError(ctx, d.mux, nil, w, r, err)
		return
	}
	h, etag := w.Header(), `"`+what.GetDigest()+`"`
	h.Set("Etag", etag)
	h.Set("Docker-Content-Digest", what.GetDigest())
	h.Set("Accept-Ranges", "bytes")
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	rng := r.Header.Get("Range")
	if condition := r.Header.Get("If-Range"); condition != "" && condition != etag {
		rng = ""
	}
	part := readRange(rng, what.GetSize())
	if part.length == 0 && what.GetSize() > 0 {
		h.Set("Content-Range", fmt.Sprintf("bytes */%d", what.GetSize()))
		writeMessage(w, http.StatusRequestedRangeNotSatisfiable, "The file has no such part")
		return
	}
	d.send(ctx, w, r, path["request_id"], what, part)
}

// send writes the part. What goes wrong after its first byte cuts the connection, so
// that nobody takes a part for the whole.
func (d *downloads) send(ctx context.Context, w http.ResponseWriter, r *http.Request, id string, what *containerv1.StreamSifResponse, part byteRange) {
	var next func() ([]byte, error)
	var first []byte
	if r.Method != http.MethodHead {
		m, more, err := d.open(ctx, &containerv1.StreamSifRequest{RequestId: id, Offset: part.from, Length: part.length})
		if err != nil {
			writeError(ctx, d.mux, nil, w, r, err)
			return
		}
		first, next = m.GetChunk(), more
	}
	h, status := w.Header(), http.StatusOK
	h.Set("Content-Type", "application/vnd.sylabs.sif.layer.v1.sif")
	h.Set("Content-Disposition", `attachment; filename="`+what.GetFileName()+`"`)
	h.Set("Content-Length", strconv.FormatInt(part.length, 10))
	if part.partial {
		status = http.StatusPartialContent
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.from, part.from+part.length-1, what.GetSize()))
	}
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	ctl := http.NewResponseController(w)
	for chunk := first; ; {
		_ = ctl.SetWriteDeadline(time.Now().Add(d.pace.stall)) // not every writer can
		_, err := w.Write(chunk)
		if err == nil {
			chunk, err = next()
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// open begins a stream, and answers its first message and its further chunks.
func (d *downloads) open(ctx context.Context, req *containerv1.StreamSifRequest) (*containerv1.StreamSifResponse, func() ([]byte, error), error) {
	stream, err := d.room.StreamSif(ctx, req)
	if err != nil {
		return nil, nil, err
	}
	first, err := stream.Recv()
	return first, func() ([]byte, error) {
		m, err := stream.Recv()
		return m.GetChunk(), err
	}, err
}

// byteRange is a part of a file.
type byteRange struct {
	from, length int64
	partial      bool
}

// readRange reads one range of bytes (RFC 9110, section 14); any other text, and
// several ranges, mean the whole. The length is 0 for a part that the file does not
// have.
func readRange(text string, size int64) byteRange {
	whole := byteRange{length: size}
	spec, ok := strings.CutPrefix(text, "bytes=")
	first, last, dash := strings.Cut(spec, "-")
	if !ok || !dash {
		return whole
	}
	from, err1 := strconv.ParseUint(first, 10, 62)
	to, err2 := strconv.ParseUint(last, 10, 62)
	switch {
	case first == "" && err2 == nil: // the end
		n := min(int64(to), size)
		return byteRange{size - n, n, true}
	case err1 != nil || last != "" && (err2 != nil || to < from):
		return whole
	case int64(from) >= size:
		return byteRange{int64(from), 0, true}
	case last == "" || int64(to) >= size:
		return byteRange{int64(from), size - int64(from), true}
	}
	return byteRange{int64(from), int64(to-from) + 1, true}
}
