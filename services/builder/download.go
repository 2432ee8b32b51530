package builder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/upstream"
)

// download gets a context or a layer from elsewhere, along redirects, only from addresses
// that may be reached.
func (d RegistryDeps) download(ctx context.Context, what, url string) (io.ReadCloser, error) {
	transport := upstream.NewTransport(d.Egress)
	c := &http.Client{Transport: transport, CheckRedirect: upstream.CheckRedirect}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, &Failure{Build, what + " has a malformed address", err}
	}
	resp, err := c.Do(req)
	if err != nil {
		text := req.URL.Host + " cannot be reached"
		if f, ok := fault.As(err); ok {
			text = f.Public
		}
		return nil, &Failure{Build, what + " could not be fetched: " + text, err}
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, &Failure{Build, fmt.Sprintf("%s could not be fetched: %s answered %d", what, req.URL.Host, resp.StatusCode), nil}
	}
	return &fetched{resp.Body, transport}, nil
}

// fetched is a body whose connections end with it.
type fetched struct {
	io.ReadCloser
	transport *http.Transport
}

// Close ends the connection.
func (d *fetched) Close() error {
	err := d.ReadCloser.Close()
	time.AfterFunc(time.Second, d.transport.CloseIdleConnections)
	return err
}

// verifier reads bytes that must have a digest and a length.
type verifier struct {
	in   io.Reader
	want digest.Digest
	sum  digest.Digester
	size int64 // in bytes; 0 when it was not said
	read int64
}

func newVerifier(in io.Reader, want string, size int64) (*verifier, error) {
	d, err := digest.Parse(want)
	if err != nil {
		return nil, err
	}
	return &verifier{in: in, want: d, size: size, sum: d.Algorithm().Digester()}, nil
}

// errTooLong is more bytes than were said.
var errTooLong = errors.New("it is longer than its stated size")

// Read returns the next bytes, and fails as soon as there are too many.
func (v *verifier) Read(p []byte) (int, error) {
	n, err := v.in.Read(p)
	v.read += int64(n)
	_, _ = v.sum.Hash().Write(p[:n])
	if v.size > 0 && v.read > v.size {
		return 0, errTooLong
	}
	return n, err
}

// verify reads to the end and checks.
func (v *verifier) verify() error {
	if _, err := io.Copy(io.Discard, io.LimitReader(v, limits.ContextPacked)); err != nil {
		return err
	}
	if v.size > 0 && v.read != v.size {
		return fmt.Errorf("it has %d bytes instead of %d", v.read, v.size)
	}
	if got := v.sum.Digest(); got != v.want {
		return fmt.Errorf("its digest is %s instead of %s", got, v.want)
	}
	return nil
}

func isURL(location string) bool {
	return strings.HasPrefix(location, "http://") || strings.HasPrefix(location, "https://")
}
