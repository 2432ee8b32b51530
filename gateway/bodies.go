package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// SmallBody is the length up to which request bodies are read without BodyMemory.
const SmallBody = 1 << 20

// BodyMemory grants memory for large request bodies.
type BodyMemory interface {
	// Acquire waits for the memory that a body takes until its request has been handled.
	// Its error is a gRPC status. The argument size is the length of the body, and user the
	// id of the authenticated user, or "". The returned context ends if the body arrives so
	// slowly that it delays others. The caller must call release.
	Acquire(ctx context.Context, user string, size int64) (reading context.Context, release func(), err error)
}

type bodyMemoryKey struct{}

// WithBodyMemory returns a context for requests whose large bodies wait for memory.
func WithBodyMemory(ctx context.Context, m BodyMemory) context.Context {
	return context.WithValue(ctx, bodyMemoryKey{}, m)
}

// bodyReader reads the bodies of API calls into memory.
type bodyReader struct {
	calls requests
	// limit is the maximum length of a body.
	limit int64
	// authenticate returns the id of the calling user; nil if the credentials may be in the
	// body.
	authenticate func(r *http.Request) (user string, err error)
	// refuse writes an error.
	refuse runtime.ErrorHandlerFunc
}

// middleware reads large bodies after their callers are authenticated and memory is
// available.
func (b bodyReader) middleware(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, path map[string]string) {
		if r.Method == http.MethodGet || r.ContentLength == 0 || b.calls.of(r) == nil {
			next(w, r, path)
			return
		}
		release, err := b.read(w, r)
		if err != nil {
			b.refuse(r.Context(), nil, nil, w, r, err)
			return
		}
		defer release()
		next(w, r, path)
	}
}

// read replaces a large body with one in memory.
func (b bodyReader) read(w http.ResponseWriter, r *http.Request) (release func(), err error) {
	size, begun := r.ContentLength, []byte(nil)
	if size >= 0 && size <= SmallBody {
		return func() {}, nil
	}
	if size < 0 {
		begun, err = io.ReadAll(io.LimitReader(r.Body, SmallBody+1))
		if err != nil || len(begun) <= SmallBody {
			r.Body = &readBody{begun, err}
			return func() {}, nil //nolint:nilerr // who reads the body gets the error
		}
		size = b.limit
	}
	user := ""
	if b.authenticate != nil {
		if user, err = b.authenticate(r); err != nil {
			return nil, err
		}
	}
	reading, release := r.Context(), func() {}
	if memory, ok := r.Context().Value(bodyMemoryKey{}).(BodyMemory); ok {
		if reading, release, err = memory.Acquire(r.Context(), user, size); err != nil {
			return nil, err
		}
	}
	var slow atomic.Bool
	stop := context.AfterFunc(reading, func() {
		// Before the read ends, because its error also cancels the request's context.
		slow.Store(r.Context().Err() == nil)
		_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	})
	raw, err := readOn(begun, r.Body, size)
	stop()
	switch {
	case err == nil:
	case slow.Load():
		release()
		return nil, slowBody()
	case r.Context().Err() != nil:
		release()
		return nil, status.FromContextError(r.Context().Err()).Err()
	}
	r.Body = &readBody{raw, err}
	return release, nil
}

// readOn reads the rest of a body of at most size bytes, in one allocation.
func readOn(begun []byte, body io.Reader, size int64) ([]byte, error) {
	raw := make([]byte, size+1) // the last byte detects the end of the body
	n := copy(raw, begun)
	for n < len(raw) {
		m, err := body.Read(raw[n:])
		n += m
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return raw[:n], err
		}
	}
	return raw[:n], nil
}

// slowBody returns the error for a body that arrives slowly while others wait for memory.
func slowBody() error {
	st, err := status.New(codes.Unavailable, "The request body arrived too slowly while others were waiting; try again later").
		WithDetails(&errdetails.ErrorInfo{Domain: faultDomain}, &errdetails.RetryInfo{RetryDelay: durationpb.New(5 * time.Second)})
	if err != nil {
		return err
	}
	return st.Err()
}
