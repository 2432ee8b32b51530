package remote

import (
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/limits"
)

// Verifier verifies the digest and the length of the bytes that are read through it.
type Verifier struct {
	in   io.Reader
	want digest.Digest
	sum  digest.Digester
	size int64 // in bytes; 0 if unknown
	read int64
}

// NewVerifier returns a Verifier of in. A size of 0 is unknown.
func NewVerifier(in io.Reader, want string, size int64) (*Verifier, error) {
	d, err := digest.Parse(want)
	if err != nil {
		return nil, err
	}
	return &Verifier{in: in, want: d, size: size, sum: d.Algorithm().Digester()}, nil
}

// errTooLong is returned if there are more bytes than stated.
var errTooLong = errors.New("it is longer than its stated size")

// Read returns the next bytes, and fails as soon as there are too many.
func (v *Verifier) Read(p []byte) (int, error) {
	n, err := v.in.Read(p)
	v.read += int64(n)
	_, _ = v.sum.Hash().Write(p[:n])
	if v.size > 0 && v.read > v.size {
		return 0, errTooLong
	}
	return n, err
}

// Verify reads to the end and verifies length and digest.
func (v *Verifier) Verify() error {
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
