package remote

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/upstream"
)

// Uploads stores the states of unfinished uploads, so that a job that is delivered again continues
// them. A state that is lost costs the bytes that were sent.
type Uploads interface {
	// Load returns the state of a blob's upload; the zero value if none is stored.
	Load(ctx context.Context, d digest.Digest) UploadState
	// Save replaces the state, without waiting; the zero value deletes it.
	Save(d digest.Digest, s UploadState)
}

// UploadState is the state of an unfinished upload of a blob.
type UploadState struct {
	// Location is the address of the upload at the registry.
	Location string `json:"location"`
	// Steps are states of the blob's hash, from the smallest offset to the largest.
	Steps []HashStep `json:"steps,omitempty"`
}

// A HashStep is the state of a hash after the first Offset bytes.
type HashStep struct {
	Offset int64  `json:"offset"`
	Hash   []byte `json:"hash"`
}

// ErrWholeOnly is returned for a target whose registry may accept blobs as a whole only.
var ErrWholeOnly = errors.New("the registry does not continue uploads")

// CopyContinued copies and verifies a blob, like CopyVerified. It continues the upload in Uploads.
// It may return ErrWholeOnly.
func (t *Target) CopyContinued(ctx context.Context, from *Repository, b ocispec.Descriptor, states Uploads) (CopyKind, error) {
	if b.Size < limits.MirrorContinued {
		return t.CopyVerified(ctx, from, b)
	}
	if how := t.has(ctx, from, b); how != "" {
		states.Save(b.Digest, UploadState{})
		return how, nil
	}
	c := &continued{Target: t, from: from, blob: b, states: states}
	again, err := c.send(ctx, c.open)
	if again && ctx.Err() == nil { // what the registry kept is not the beginning of the blob, or another delivery has completed it
		if how := t.has(ctx, from, b); how != "" {
			return how, nil
		}
		_, err = c.send(ctx, c.start)
	}
	if ctx.Err() == nil && !errors.As(err, new(*SourceError)) && (errors.Is(err, upstream.ErrUploadAddress) || errors.Is(err, fault.NotFound)) {
		states.Save(b.Digest, UploadState{})
		return "", fmt.Errorf("%w: %w", ErrWholeOnly, err)
	}
	return Copied, err
}

// continued is the upload of one blob.
type continued struct {
	*Target
	from   *Repository
	blob   ocispec.Descriptor
	states Uploads
}

// send sends the bytes that the registry does not have. again states that the registry, or the
// digest, refused an upload that was continued; it is deleted.
func (c *continued) send(ctx context.Context, open func(context.Context) (*upstream.Upload, UploadState, error)) (again bool, err error) {
	upload, state, err := open(ctx)
	if err != nil {
		return false, err
	}
	h, err := newStepHash(c.blob, state.Steps, upload.Size)
	if err != nil {
		return false, err
	}
	continues := state.Location != ""
	content, err := c.read(ctx, h)
	if err != nil {
		return false, &SourceError{err}
	}
	defer content.Close()
	r := &stepReader{stepHash: h, in: io.LimitReader(content, c.blob.Size-h.offset), size: c.blob.Size, save: func() {
		c.states.Save(c.blob.Digest, UploadState{Location: upload.Location, Steps: h.steps})
	}}
	if _, err := io.CopyN(io.Discard, r, upload.Size-h.offset); err != nil {
		return false, r.explain(err)
	}
	if left := c.blob.Size - upload.Size; left > 0 {
		if err := upload.Append(ctx, r, left); err != nil {
			return c.refused(ctx, upload, continues, r.explain(err))
		}
	}
	if got := digest.NewDigest(c.blob.Digest.Algorithm(), h.sum); got != c.blob.Digest || h.offset != c.blob.Size {
		wrong := fmt.Errorf("its digest is %s instead of %s", got, c.blob.Digest)
		return c.refused(ctx, upload, continues, jobs.Build.Failure("A blob of the image cannot be used: "+wrong.Error(), wrong))
	}
	if err := upload.Commit(ctx, c.blob.Digest); err != nil {
		return c.refused(ctx, upload, continues, err)
	}
	c.states.Save(c.blob.Digest, UploadState{})
	return false, nil
}

// read opens the blob at the offset of the hash. It resets the hash if the source only returns whole
// blobs.
func (c *continued) read(ctx context.Context, h *stepHash) (io.ReadCloser, error) {
	if h.offset == c.blob.Size {
		return io.NopCloser(strings.NewReader("")), nil
	}
	content, err := c.from.Registries.ReadBlob(ctx, c.from.at, c.blob.Digest, c.from.access, h.offset, c.blob.Size-h.offset)
	if err == nil || h.offset == 0 || ctx.Err() != nil {
		return content, err
	}
	h.sum.Reset()
	h.offset, h.steps = 0, nil
	return c.from.Registries.ReadBlob(ctx, c.from.at, c.blob.Digest, c.from.access, 0, c.blob.Size)
}

// refused deletes an upload that cannot be completed, and its state.
func (c *continued) refused(ctx context.Context, u *upstream.Upload, continues bool, err error) (again bool, _ error) {
	if !errors.As(err, new(*jobs.Failure)) && !errors.Is(err, fault.NotFound) {
		return false, err // it may continue
	}
	c.states.Save(c.blob.Digest, UploadState{})
	_ = u.Cancel(ctx)
	return continues, err
}

// open continues the stored upload, or starts one.
func (c *continued) open(ctx context.Context) (*upstream.Upload, UploadState, error) {
	if state := c.states.Load(ctx, c.blob.Digest); state.Location != "" {
		u, err := c.Registries.ContinueUpload(ctx, c.repo, c.access, state.Location)
		switch {
		case err == nil && u.Size <= c.blob.Size:
			return u, state, nil
		case err != nil && !errors.Is(err, fault.NotFound) && !errors.Is(err, upstream.ErrUploadAddress):
			return nil, state, err
		}
	}
	return c.start(ctx)
}

func (c *continued) start(ctx context.Context) (*upstream.Upload, UploadState, error) {
	u, err := c.Registries.StartUpload(ctx, c.repo, c.access)
	return u, UploadState{}, err
}

// stepHash is the hash of the first offset bytes of a blob, and of its last steps.
type stepHash struct {
	sum    hash.Hash
	offset int64
	steps  []HashStep
}

// newStepHash returns the hash at the last step that is not after an offset, or at 0.
func newStepHash(b ocispec.Descriptor, steps []HashStep, at int64) (*stepHash, error) {
	if err := b.Digest.Validate(); err != nil {
		return nil, err
	}
	steps = slices.DeleteFunc(slices.Clone(steps), func(s HashStep) bool { return s.Offset > at || s.Offset <= 0 })
	h := &stepHash{sum: b.Digest.Algorithm().Hash(), steps: steps}
	if len(steps) == 0 {
		return h, nil
	}
	last := steps[len(steps)-1]
	state, ok := h.sum.(encoding.BinaryUnmarshaler)
	if ok && state.UnmarshalBinary(last.Hash) == nil {
		h.offset = last.Offset
		return h, nil
	}
	return &stepHash{sum: b.Digest.Algorithm().Hash()}, nil // another program's states: read from the start
}

// step adds a step at the current offset.
func (h *stepHash) step() {
	state, ok := h.sum.(encoding.BinaryMarshaler)
	if !ok {
		return
	}
	if raw, err := state.MarshalBinary(); err == nil {
		first := max(len(h.steps)+1-limits.UploadSteps, 0)
		h.steps = append(slices.Clone(h.steps[first:]), HashStep{h.offset, raw})
	}
}

// stepReader hashes what is read, adds steps, and saves them.
type stepReader struct {
	*stepHash
	in   io.Reader
	size int64 // of the blob
	err  error // of in
	save func()
}

// Read implements io.Reader.
func (r *stepReader) Read(p []byte) (int, error) {
	left := limits.UploadStep - r.offset%limits.UploadStep
	n, err := r.in.Read(p[:min(int64(len(p)), left)])
	_, _ = r.sum.Write(p[:n])
	r.offset += int64(n)
	if n > 0 && r.offset%limits.UploadStep == 0 {
		r.step()
	}
	if n > 0 && r.offset%limits.UploadSave == 0 {
		r.save()
	}
	if errors.Is(err, io.EOF) && r.offset < r.size {
		err = fault.Unavailable.Newf("The registry ended a blob after %d of %d bytes", r.offset, r.size)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// explain returns the error of the source, if that was the cause.
func (r *stepReader) explain(err error) error {
	if r.err != nil {
		return &SourceError{r.err}
	}
	return err
}
