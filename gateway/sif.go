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

// downloads serves Singularity images to programs that are too old to pull them
// from a registry.
type downloads struct {
	mux      *runtime.ServeMux
	room     containerv1.ContainerServiceClient
	timeouts timeouts
}

// sif serves GET and HEAD of sifPath.
func (d *downloads) sif(w http.ResponseWriter, r *http.Request, path map[string]string) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if h := r.Header.Get("Range"); h != "" && !oneRange.MatchString(h) {
		r.Header.Del("Range") // each of several would be a stream of its own
	}
	ctx, err := runtime.AnnotateContext(ctx, d.mux, r, containerv1.ContainerService_StreamSif_FullMethodName)
	if err != nil {
		writeError(ctx, d.mux, nil, w, r, err)
		return
	}
	charged := begins(r)
	file := &sifFile{room: d.room, id: path["request_id"], ctx: ctx, begins: charged}
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
		file.begins = r.Method == http.MethodGet && !charged // http.ServeContent answers with all of it
	}
	if r.Header.Get("Range") == "bytes=-0" { // which no file has, and http.ServeContent answers
		r.Header.Set("Range", "bytes="+strconv.FormatInt(file.size, 10)+"-")
	}
	http.ServeContent(&fileWriter{ResponseWriter: w, ctl: http.NewResponseController(w), stall: d.timeouts.stall}, r, "", time.Time{}, file)
	if file.err != nil {
		panic(http.ErrAbortHandler) // nobody must take a part for the whole
	}
}

// oneRange is a part of a file, from a byte on or up to the end.
var oneRange = regexp.MustCompile(`^bytes=(\d{1,18})?-(\d{1,18})?$`)

// header is how many bytes of a file say what is in the rest.
const header = 1 << 10

// begins says whether a request is for what a download begins with, and not for more of
// one that has begun.
func begins(r *http.Request) bool {
	part := oneRange.FindStringSubmatch(r.Header.Get("Range"))
	if r.Method != http.MethodGet || part == nil {
		return r.Method == http.MethodGet
	}
	from, err := strconv.ParseInt(part[1], 10, 64)
	return err != nil || from < header // the last bytes may be all of them
}

// sifFile reads an image from where it was sought to; the room is asked when the
// first byte is read.
type sifFile struct {
	ctx  context.Context //nolint:containedctx // io.Reader has no argument for it
	room containerv1.ContainerServiceClient
	id   string
	size int64
	// begins says that the first stream is charged as a pull.
	begins bool

	at     int64
	stream containerv1.ContainerService_StreamSifClient
	chunk  []byte
	err    error // that ended the stream before its time
}

// open begins a stream of at most length bytes, and returns its first message.
func (f *sifFile) open(length int64) (*containerv1.StreamSifResponse, error) {
	stream, err := f.room.StreamSif(f.ctx, &containerv1.StreamSifRequest{RequestId: f.id, Offset: f.at, Length: length, Begins: f.begins})
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

// fileWriter gives a client time for each part of a file, and writes the one error of
// http.ServeContent's as the contract has it.
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
		writeMessage(w.ResponseWriter, code, "The requested range is beyond the end of the file")
		return
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements io.Writer.
func (w *fileWriter) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	_ = w.ctl.SetWriteDeadline(time.Now().Add(w.stall)) // not every writer can
	return w.ResponseWriter.Write(p)
}
