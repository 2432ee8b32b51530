package layering

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/limits"
)

// Claims coordinate workers, so that each layer is built by only one of them, and store
// the records of built layers. Safe for concurrent use.
type Claims interface {
	// Acquire reports whether a record is stored under name that usable accepts. The key id
	// of the record's signer is also passed to usable. Otherwise Acquire returns a claim,
	// which the caller must Keep or Release. If another worker holds the claim, Acquire
	// returns neither, or blocks until it is released if wait is set. An error means that
	// records are unavailable: then each worker builds all layers itself.
	Acquire(ctx context.Context, name string, wait bool, usable func(record []byte, key string) bool) (claim Claim, found bool, err error)
	// Note stores a record without a claim. If the same worker did so recently, Note does
	// nothing and does not call record.
	Note(ctx context.Context, name string, record func() ([]byte, error))
}

// A Claim is the exclusive right to build a layer. Only the first call of a method has an
// effect.
type Claim interface {
	// Keep stores a record for other workers and releases the claim.
	Keep(record []byte)
	// Release releases the claim.
	Release()
}

// A BlobSource is a Registry that blobs can be fetched from.
type BlobSource interface {
	Registry
	// Get opens a blob.
	Get(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error)
	// GetPart opens a part of a blob, of length bytes from the position from on. Its content is
	// not verified.
	GetPart(ctx context.Context, d ocispec.Descriptor, from, length int64) (io.ReadCloser, error)
}

// Share coordinates workers, so that each layer is built once for each repository. The
// worker that builds it pushes it to the repository immediately; the others do not need its
// bytes. Layers with a Scope are not shared.
//
// As long as Claims store the record of another worker, it is trusted that its blob is the
// correct layer of the package, since that cannot be verified. The blob's digest and size at
// the target are verified.
type Share struct {
	Claims Claims
	// Target is the image's repository, and Repository its name with the registry's.
	Target     BlobSource
	Repository string
	// Waits, if not nil, is called before this worker waits for layers that other workers
	// are building, with their number.
	Waits func(layers int)

	unavailable atomic.Bool // records are unavailable
	sent        sync.Map    // by digest.Digest: size of a layer that was already pushed to the target

	mu   sync.Mutex
	keys map[string]bool // keys that signed the records that were used
}

// Keys returns the sorted ids of the keys that signed the used records of other workers.
func (s *Share) Keys() []string {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.keys))
}

// use adds the key of a record that is used. It returns false if there are too many keys
// already.
func (s *Share) use(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.keys[key] && len(s.keys) == limits.LayerMakers {
		return false
	}
	if s.keys == nil {
		s.keys = map[string]bool{}
	}
	s.keys[key] = true
	return true
}

// errElsewhere is returned for a layer that another worker is building.
var errElsewhere = errors.New("another worker is building the layer")

func (s *Share) name(key spec.LayerKey) string {
	return key.At(s.Repository)
}

// shared returns an item, from another worker's record or built here. If wait is not set, it
// returns errElsewhere while another worker builds it.
func (m *Builder) shared(ctx context.Context, it item, wait bool) (Package, error) {
	s := m.Share
	if s == nil || m.Scope != "" || it.rec.SHA256 == "" || s.unavailable.Load() {
		return it.build(ctx)
	}
	var p Package
	claim, found, err := s.Claims.Acquire(ctx, s.name(it.key), wait, func(record []byte, key string) bool {
		var err error
		if p, err = readRecord(record, it.rec, it.mediaType); err != nil {
			return false
		}
		there, err := s.Target.Has(ctx, p.descriptor())
		return there && err == nil && s.use(key)
	})
	switch {
	case ctx.Err() != nil:
		if claim != nil {
			claim.Release()
		}
		return Package{}, ctx.Err()
	case err != nil:
		s.unavailable.Store(true)
		return it.build(ctx)
	case found:
		return p, nil
	case claim == nil:
		return Package{}, errElsewhere
	}
	return m.claimed(ctx, claim, it)
}

// claimed builds an item under a claim for all workers that need it. On failure it releases
// the claim to them.
func (m *Builder) claimed(ctx context.Context, claim Claim, it item) (Package, error) {
	defer claim.Release()
	p, err := it.build(ctx)
	if err != nil {
		return p, err
	}
	n, err := m.send(ctx, m.Share.Target, p.Layer)
	if err != nil {
		return p, nil // the push of the image reports why, or succeeds
	}
	if n > 0 {
		m.Share.sent.Store(p.Digest, n)
	}
	if record, err := writeRecord(p); err == nil {
		claim.Keep(record)
	}
	return p, nil
}

// Note records the layers of a pushed image that this worker has built, for other workers.
// It does not repeat records of other workers.
func (m *Builder) Note(ctx context.Context, records []spec.Record, image Image) {
	python, err := spec.PythonOf(records)
	if err != nil || m.Share == nil || m.Scope != "" || m.Share.unavailable.Load() {
		return
	}
	there := map[digest.Digest]bool{}
	for _, l := range image.Layers {
		there[l.Digest] = true
	}
	for _, rec := range records {
		key, _, err := m.locate(rec, python)
		if err != nil || rec.SHA256 == "" {
			continue
		}
		m.Share.Claims.Note(ctx, m.Share.name(key), func() ([]byte, error) {
			p, err := m.Store.Package(ctx, key)
			if err != nil || !there[p.Digest] {
				return nil, errElsewhere
			}
			return writeRecord(p)
		})
	}
}

// sentEarly returns how many bytes of a layer were pushed before the image.
func (s *Share) sentEarly(d digest.Digest) int64 {
	if s == nil {
		return 0
	}
	v, _ := s.sent.Load(d)
	n, _ := v.(int64)
	return n
}

// gather ensures that the store has the layers that are merged into one. It copies missing
// ones from the target, or builds them here.
func (m *Builder) gather(ctx context.Context, records []spec.Record, packages []Package, which []int) error {
	if m.Share == nil || m.Scope != "" {
		return nil
	}
	python, err := spec.PythonOf(records)
	if err != nil {
		return err
	}
	for _, i := range which {
		if blob, err := m.Store.Open(ctx, packages[i].Layer); err == nil {
			_ = blob.Close()
			continue
		}
		_, err = m.Store.Keep(ctx, copyKey(packages[i]), func(out io.Writer) (Package, error) {
			return packages[i], m.Share.copy(ctx, packages[i].Layer, out)
		})
		if err != nil && ctx.Err() == nil {
			packages[i], err = m.layer(ctx, records[i], python)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyKey returns the key of a copy of another worker's layer. It differs from the
// package's own key, so that after the revocation of a worker none of its layers can be
// mistaken for one that was built here.
func copyKey(p Package) spec.LayerKey {
	return spec.HashLayer("copy", p.Digest.String())
}

// copy copies a layer from the target and verifies its digest.
func (s *Share) copy(ctx context.Context, l Layer, out io.Writer) error {
	in, err := s.Target.Get(ctx, l.descriptor())
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	check := l.Digest.Verifier()
	n, err := io.Copy(io.MultiWriter(out, check), io.LimitReader(in, l.Size+1))
	if err == nil && (n != l.Size || !check.Verified()) {
		err = fmt.Errorf("the registry returned other content for %s", l.Digest)
	}
	return err
}
