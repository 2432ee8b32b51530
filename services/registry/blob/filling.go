package blob

import (
	"io"

	"github.com/opencontainers/go-digest"
)

// Filling is a blob on its way to a client that is kept as it passes: an io.Reader for one
// user.
type Filling struct {
	// Body is where the blob is read from; it may be set after Fill, before the first Read.
	Body   io.Reader
	key    Key
	to     sink
	lost   bool // it will not be kept
	verify digest.Verifier
	passed int64
}

// sink takes a blob that is to be kept.
type sink interface {
	// write takes the next piece, and says whether it could. It is told the last one only
	// if the whole is what its digest says.
	write(p []byte) bool
	// commit makes visible what was written in full.
	commit()
	// giveUp forgets what was not committed; it may be called again.
	giveUp()
	// end gives up, and lets others begin.
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
		_, _ = f.verify.Write(p) // a hash takes everything
	}
	if f.passed > f.key.Size || f.passed == f.key.Size && !f.verify.Verified() || !f.to.write(p) {
		f.lost = true
		f.to.giveUp()
	}
}

// Commit makes the blob visible, if it is whole and what its digest says.
func (f *Filling) Commit() {
	if !f.lost && f.passed == f.key.Size {
		f.to.commit()
	}
}

// End gives up what was not committed.
func (f *Filling) End() { f.to.end() }
