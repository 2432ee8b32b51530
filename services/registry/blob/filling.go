package blob

import (
	"io"

	"github.com/opencontainers/go-digest"
)

// A Filling is an io.Reader of a blob that is cached while it is read. It is not safe for
// concurrent use.
type Filling struct {
	// Body is the source of the blob. It may be set after Fill and before the first Read.
	Body   io.Reader
	key    Key
	to     sink
	lost   bool // the blob will not be cached
	verify digest.Verifier
	passed int64
}

// A sink stores a blob.
type sink interface {
	// write stores the next part. It returns false if that fails. It is called with the
	// last part only if the digest of the blob is correct.
	write(p []byte) bool
	// commit makes a complete blob visible.
	commit()
	// discard deletes a blob that was not committed. It may be called repeatedly.
	discard()
	// end discards a blob that was not committed, and permits other Fillings of it.
	end()
}

func newFilling(k Key, body io.Reader, to sink) *Filling {
	return &Filling{key: k, Body: body, to: to, verify: k.Digest.Verifier()}
}

// Read implements io.Reader.
func (f *Filling) Read(p []byte) (int, error) {
	n, err := f.Body.Read(p)
	if n > 0 {
		f.keep(p[:n])
	}
	return n, err
}

func (f *Filling) keep(p []byte) {
	if f.lost {
		return
	}
	f.passed += int64(len(p))
	if f.passed <= f.key.Size {
		_, _ = f.verify.Write(p) // a hash returns no error
	}
	if f.passed > f.key.Size || f.passed == f.key.Size && !f.verify.Verified() || !f.to.write(p) {
		f.lost = true
		f.to.discard()
	}
}

// Commit makes the blob visible if it is complete and verified.
func (f *Filling) Commit() {
	if !f.lost && f.passed == f.key.Size {
		f.to.commit()
	}
}

// End discards the blob unless it was committed.
func (f *Filling) End() { f.to.end() }
