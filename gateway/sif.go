package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// downloads serves Singularity images to programs that are too old to pull them from a
// registry.
type downloads struct {
	mux      *runtime.ServeMux
	service  containerv1.ContainerServiceClient
	timeouts timeouts
}

// sif serves GET and HEAD of sifPath.
func (d *downloads) sif(w http.ResponseWriter, r *http.Request, path map[string]string) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if h := r.Header.Get("Range"); h != "" && !oneRange.MatchString(h) {
		r.Header.Del("Range") // each of several ranges would be a separate stream
	}
	ctx, err := runtime.AnnotateContext(ctx, d.mux, r, containerv1.ContainerService_StreamSif_FullMethodName)
	if err != nil {
		writeError(ctx, d.mux, nil, w, r, err)
		return
	}
	charged := begins(r)
	file := &sifFile{service: d.service, id: path["request_id"], ctx: ctx, begins: charged}
	about, err := file.open(0)
	if err != nil {
		writeError(ctx, d.mux, nil, w, r, err)
		return
	}
	file.size = about.GetSize()
	h := w.Header()
	h.Set("Etag", `"`+about.GetDigest()+`"`)
	h.Set("Docker-Content-Digest", about.GetDigest())
	h.Set("Content-Type", "application/vnd.sylabs.sif.layer.v1.sif")
	h.Set("Content-Disposition", `attachment; filename="`+about.GetFileName()+`"`)
	if known := r.Header.Get("If-Range"); known != "" && known != h.Get("Etag") {
		file.begins = r.Method == http.MethodGet && !charged // http.ServeContent responds with the whole file
	}
	if r.Header.Get("Range") == "bytes=-0" { // http.ServeContent would accept this empty range
		r.Header.Set("Range", "bytes="+strconv.FormatInt(file.size, 10)+"-")
	}
	http.ServeContent(&fileWriter{ResponseWriter: w, ctl: http.NewResponseController(w), stall: d.timeouts.stall}, r, "", time.Time{}, file)
	if file.err != nil {
		panic(http.ErrAbortHandler) // no client may mistake a truncated file for a complete one
	}
}

// oneRange matches one range: from a byte on, or the last bytes.
var oneRange = regexp.MustCompile(`^bytes=(\d{1,18})?-(\d{1,18})?$`)

// header is how many bytes at the beginning of a file describe the rest.
const header = 1 << 10

// begins reports whether a request starts a download, as opposed to one for a later part.
func begins(r *http.Request) bool {
	part := oneRange.FindStringSubmatch(r.Header.Get("Range"))
	if r.Method != http.MethodGet || part == nil {
		return r.Method == http.MethodGet
	}
	from, err := strconv.ParseInt(part[1], 10, 64)
	return err != nil || from < header // the last bytes may be the whole file
}

// sifFile reads an image from its current offset. It calls the service when the first byte
// is read.
type sifFile struct {
	ctx     context.Context //nolint:containedctx // io.Reader has no argument for it
	service containerv1.ContainerServiceClient
	id      string
	size    int64
	// begins reports whether the first stream is charged as a pull.
	begins bool

	at     int64
	stream containerv1.ContainerService_StreamSifClient
	chunk  []byte
	err    error // error that ended the stream early
}

// open opens a stream of at most length bytes and returns its first message.
func (f *sifFile) open(length int64) (*containerv1.StreamSifResponse, error) {
	stream, err := f.service.StreamSif(f.ctx, &containerv1.StreamSifRequest{RequestId: f.id, Offset: f.at, Length: length, Begins: f.begins})
	f.begins = false
	if err != nil {
		return nil, err
	}
	f.stream = stream
	return stream.Recv()
}

// Seek implements io.Seeker.
func (f *sifFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.at
	case io.SeekEnd:
		offset += f.size
	}
	f.at, f.stream, f.chunk = offset, nil, nil
	return offset, nil
}

// Read implements io.Reader.
func (f *sifFile) Read(p []byte) (int, error) {
	if f.at >= f.size {
		return 0, io.EOF
	}
	for len(f.chunk) == 0 {
		var m *containerv1.StreamSifResponse
		if f.stream == nil {
			m, f.err = f.open(f.size - f.at)
		} else {
			m, f.err = f.stream.Recv()
		}
		if errors.Is(f.err, io.EOF) {
			f.err = io.ErrUnexpectedEOF
		}
		if f.err != nil {
			return 0, f.err
		}
		f.chunk = m.GetChunk()
	}
	n := copy(p, f.chunk)
	f.chunk, f.at = f.chunk[n:], f.at+int64(n)
	return n, nil
}

// fileWriter sets a deadline for each part of a file, and writes the only error of
// http.ServeContent in the contract's format.
type fileWriter struct {
	http.ResponseWriter
	ctl     *http.ResponseController
	stall   time.Duration
	refused bool
}

// WriteHeader implements http.ResponseWriter.
func (w *fileWriter) WriteHeader(code int) {
	if w.refused = code == http.StatusRequestedRangeNotSatisfiable; w.refused {
		w.Header().Del("Content-Disposition")
		WriteMessage(w.ResponseWriter, code, "The requested range is beyond the end of the file")
		return
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements io.Writer.
func (w *fileWriter) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	_ = w.ctl.SetWriteDeadline(time.Now().Add(w.stall)) // not every writer supports deadlines
	return w.ResponseWriter.Write(p)
}
