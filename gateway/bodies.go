package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// SmallBody is the length up to which request bodies are read without BodyMemory.Acquire.
const SmallBody = 1 << 20

// quickBody is the length up to which request bodies are decoded without a turn: decoding
// them takes a few milliseconds.
const quickBody = 200_000

// BodyMemory limits the memory of large request bodies, and how many are decoded concurrently.
type BodyMemory interface {
	// Acquire waits until the memory for a body is available, and reserves it until release
	// is called. Its error is a gRPC status. The argument size is the length of the body in
	// bytes, and user the id of the authenticated user, or "". The returned context ends if
	// the body arrives so slowly that it delays other requests. The caller must call release.
	Acquire(ctx context.Context, user string, size int64) (reading context.Context, release func(), err error)
	// Turn waits for a turn to decode a body. Its error is a gRPC status. The caller must call
	// release.
	Turn(ctx context.Context, user string) (release func(), err error)
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
// available, and waits for a turn to decode them.
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

// read reads a body that is longer than quickBody into memory and waits for a turn to decode
// it. release ends the turn and frees the memory.
func (b bodyReader) read(w http.ResponseWriter, r *http.Request) (release func(), err error) {
	if r.ContentLength >= 0 && r.ContentLength <= quickBody {
		return func() {}, nil
	}
	body, user, free := &readBody{}, "", func() {}
	if r.ContentLength <= SmallBody {
		body.rest, body.err = io.ReadAll(io.LimitReader(r.Body, SmallBody+1))
	}
	if r.ContentLength > SmallBody || len(body.rest) > SmallBody && body.err == nil {
		if user, free, err = b.readLarge(w, r, body); err != nil {
			return nil, err
		}
	}
	r.Body = body
	memory, ok := r.Context().Value(bodyMemoryKey{}).(BodyMemory)
	if !ok || len(body.rest) <= quickBody {
		return free, nil
	}
	turn, err := memory.Turn(r.Context(), user)
	if err != nil {
		free()
		return nil, err
	}
	body.turn = sync.OnceFunc(turn)
	return func() {
		body.decoded()
		free()
	}, nil
}

// readLarge reads a request's body into body, which already contains its beginning. It returns
// the user of the request, or "".
func (b bodyReader) readLarge(w http.ResponseWriter, r *http.Request, body *readBody) (user string, release func(), err error) {
	size := r.ContentLength
	if size < 0 {
		size = b.limit
	}
	if b.authenticate != nil {
		if user, err = b.authenticate(r); err != nil {
			return "", nil, err
		}
	}
	reading, release := r.Context(), func() {}
	if memory, ok := r.Context().Value(bodyMemoryKey{}).(BodyMemory); ok {
		if reading, release, err = memory.Acquire(r.Context(), user, size); err != nil {
			return "", nil, err
		}
	}
	var slow atomic.Bool
	stop := context.AfterFunc(reading, func() {
		// slow is stored before the read fails, because its error cancels the request's context.
		slow.Store(r.Context().Err() == nil)
		_ = http.NewResponseController(w).SetReadDeadline(time.Now())
	})
	body.rest, body.err = readOn(body.rest, r.Body, size)
	stop()
	switch {
	case body.err == nil:
	case slow.Load():
		release()
		return "", nil, slowBody()
	case r.Context().Err() != nil:
		release()
		return "", nil, status.FromContextError(r.Context().Err()).Err()
	}
	return user, release, nil
}

// readOn returns begun and the rest of body, together at most size bytes, in one allocation.
func readOn(begun []byte, body io.Reader, size int64) ([]byte, error) {
	raw := make([]byte, size+1) // one byte more, to detect the end of the body
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
