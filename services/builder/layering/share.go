package layering

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/conda"
)

// Claims say who of several workers makes what they want, and what was made. Safe for
// concurrent use.
type Claims interface {
	// Take answers whether a record is there under a name that is usable; else the claim
	// to make one, which the caller keeps or releases. While another has it there is
	// neither: Take says so at once, or waits for the end of that. An error is that
	// nobody can say: then all make everything.
	Take(ctx context.Context, name string, wait bool, usable func(record []byte) bool) (claim Claim, found bool, err error)
	// Note leaves a record without a claim, unless the same worker did lately: record
	// is called only then.
	Note(name string, record func() ([]byte, error))
}

// Claim is one that the caller holds. After the first call the others do nothing.
type Claim interface {
	// Keep leaves a record for others.
	Keep(record []byte)
	// Release lets others try.
	Release()
}

// Shelf is a Registry that blobs are had from.
type Shelf interface {
	Registry
	// Get begins to read a blob.
	Get(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error)
}

// Share has a layer made once though several workers want it, once for each repository
// that it goes to: who makes it sends it there at once, and the others need no bytes
// of it. Layers of a Scope are not shared.
//
// What another worker says of a layer is believed, for as long as Claims keep it, as far
// as it cannot be seen: that the blob is what the package becomes. Seen are its digest and
// length at the target.
type Share struct {
	Claims Claims
	// Target is where the image goes, Repository its name there, with the registry's.
	Target     Shelf
	Repository string
	// Waits is told how many layers others are making, before they are waited for; may be
	// nil.
	Waits func(layers int)

	away atomic.Bool // nobody can say who makes what
	sent sync.Map    // of digest.Digest: what went to the target already
}

// errElsewhere is a layer that another makes.
var errElsewhere = errors.New("another worker makes the layer")

func (s *Share) name(key conda.LayerKey) string {
	return key.At(s.Repository)
}

// shared is the layer of a package: what another has made, or one's own. Without wait it
// is errElsewhere while another makes it.
func (m *Maker) shared(ctx context.Context, rec conda.Record, python conda.Python, wait bool) (Package, error) {
	s := m.Share
	if s == nil || m.Scope != "" || rec.SHA256 == "" || s.away.Load() {
		return m.one(ctx, rec, python)
	}
	key, _, err := m.place(rec, python)
	if err != nil {
		return Package{}, err
	}
	var p Package
	claim, found, err := s.Claims.Take(ctx, s.name(key), wait, func(record []byte) bool {
		var err error
		if p, err = readRecord(record, rec, m.compression()); err != nil {
			return false
		}
		there, err := s.Target.Has(ctx, p.descriptor())
		return there && err == nil
	})
	switch {
	case ctx.Err() != nil:
		if claim != nil {
			claim.Release()
		}
		return Package{}, ctx.Err()
	case err != nil:
		s.away.Store(true)
		return m.one(ctx, rec, python)
	case found:
		return p, nil
	case claim == nil:
		return Package{}, errElsewhere
	}
	return m.claimed(ctx, claim, rec, python)
}

// claimed makes the layer of a package for all who want it. Who cannot leaves it to
// them.
func (m *Maker) claimed(ctx context.Context, claim Claim, rec conda.Record, python conda.Python) (Package, error) {
	defer claim.Release()
	p, err := m.one(ctx, rec, python)
	if err != nil {
		return p, err
	}
	n, err := m.send(ctx, m.Share.Target, p.Layer)
	if err != nil {
		return p, nil // the push of the image says why, or succeeds
	}
	if n > 0 {
		m.Share.sent.Store(p.Digest, n)
	}
	if record, err := writeRecord(p); err == nil {
		claim.Keep(record)
	}
	return p, nil
}

// Note tells other workers of the layers of an image that was pushed, as far as this one has
// made them: what it knows of others it does not repeat.
func (m *Maker) Note(ctx context.Context, records []conda.Record, image Image) {
	python, err := conda.PythonOf(records)
	if err != nil || m.Share == nil || m.Scope != "" || m.Share.away.Load() {
		return
	}
	there := map[digest.Digest]bool{}
	for _, l := range image.Layers {
		there[l.Digest] = true
	}
	for _, rec := range records {
		key, _, err := m.place(rec, python)
		if err != nil || rec.SHA256 == "" {
			continue
		}
		m.Share.Claims.Note(m.Share.name(key), func() ([]byte, error) {
			p, err := m.Store.Package(ctx, key)
			if err != nil || !there[p.Digest] {
				return nil, errElsewhere
			}
			return writeRecord(p)
		})
	}
}

// early answers how many bytes of a layer were sent before the image was.
func (s *Share) early(d digest.Digest) int64 {
	if s == nil {
		return 0
	}
	v, _ := s.sent.Load(d)
	n, _ := v.(int64)
	return n
}

// gather has the layers in the store that others have made, and that another one is
// made of: from the target, or else made here.
func (m *Maker) gather(ctx context.Context, records []conda.Record, packages []Package, which []int) error {
	if m.Share == nil || m.Scope != "" {
		return nil
	}
	python, err := conda.PythonOf(records)
	if err != nil {
		return err
	}
	for _, i := range which {
		key, _, err := m.place(records[i], python)
		if err != nil {
			return err
		}
		_, err = m.Store.Keep(ctx, key, func(out io.Writer) (Package, error) {
			return packages[i], m.Share.copy(ctx, packages[i].Layer, out)
		})
		if err != nil && ctx.Err() == nil {
			packages[i], err = m.one(ctx, records[i], python)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copy reads a layer at the target, and holds it against its digest.
func (s *Share) copy(ctx context.Context, l Layer, out io.Writer) error {
	in, err := s.Target.Get(ctx, l.descriptor())
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	check := l.Digest.Verifier()
	n, err := io.Copy(io.MultiWriter(out, check), io.LimitReader(in, l.Size+1))
	if err == nil && (n != l.Size || !check.Verified()) {
		err = fmt.Errorf("%s is not what the registry has under its digest", l.Digest)
	}
	return err
}
