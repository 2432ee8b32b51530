package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/mount/environment"
	"slipway.dev/services/mount/erofs"
)

// A mounted is an environment that is mounted: it has no image, and so no layers and no history. Its lock is in its index.
type mounted struct {
	environment.Artifact
	config environment.Config
}

// mountedConfig returns the config of an environment as that of an image, which has the variables and the platform.
func mountedConfig(raw []byte) (c imageConfig, err error) {
	described, err := environment.ParseConfig(raw)
	if err != nil {
		return c, fault.Invalid.New("The description of the environment is malformed", err)
	}
	if described.Platform != "" {
		p, err := oci.ParsePlatform(described.Platform)
		if err != nil {
			return c, err
		}
		c.OS, c.Architecture, c.Variant = p.OS, p.Architecture, p.Variant
	}
	c.Config.Env, c.mounted = described.Env, &described
	return c, nil
}

// asMounted changes the variant of a manifest to that of an environment.
func (v *variant) asMounted(doc oci.Document, m ocispec.Manifest, c environment.Config) error {
	a, err := environment.Parse(doc.Bytes)
	if err != nil {
		return fault.Invalid.New("The manifest of the environment is malformed", err)
	}
	v.mounted, v.layers, v.history = &mounted{a, c}, nil, nil
	v.created, v.lock = m.Annotations[ocispec.AnnotationCreated], m.Annotations[spec.LockLabel]
	return nil
}

// blobs returns the digests of the blobs of packages, by the number of the package.
func (m *mounted) blobs(packages int) []string {
	out := make([]string, packages)
	if len(m.config.Packages) != packages {
		return out
	}
	for i, p := range m.config.Packages {
		out[i] = m.Blobs[p.Blob].Digest.String()
	}
	return out
}

// checkScannable rejects environments: their files are in no layers, and what their lock lists was written by their author.
func checkScannable(all []variant) error {
	for _, v := range all {
		if v.mounted != nil {
			return fault.Invalid.Newf("This is an environment without an image, which is not searched for vulnerabilities; request an image of the same packages, and scan that")
		}
	}
	return nil
}

// mountedLock reads the lock of an environment from its index. See Service.readLock.
func (s *Service) mountedLock(ctx context.Context, who fairshare.Client, l imageReader, v variant, left *int64) ([]lockedRecord, error) {
	index := v.mounted.Index
	if v.lock == "" {
		return nil, &unknownPackages{"The environment does not state its lock, so its packages are not known", true}
	}
	if index.Size > limits.InspectedIndex || v.mounted.config.Size > limits.InspectedIndexRaw {
		return nil, &unknownPackages{fmt.Sprintf("The index of the environment has more than %d MiB, so the lock in it is not read, and its packages are not known", limits.InspectedIndexRaw>>20), false}
	}
	from, err := s.sourceOf(ctx, l, index)
	if err != nil {
		return nil, err
	}
	turn, err := s.listings.pool.Acquire(ctx, fairshare.Request{Client: who, Class: fairshare.Long})
	if err != nil {
		return nil, err
	}
	defer turn.Release()
	ctx, cancel := context.WithTimeout(ctx, limits.ListedTime)
	defer cancel()
	in, err := from.open(ctx)
	if err != nil {
		return nil, from.fault(err)
	}
	defer func() { _ = in.Close() }()
	packed, err := io.ReadAll(io.LimitReader(in, index.Size+1))
	if err != nil {
		return nil, from.fault(err)
	}
	raw, err := lockInIndex(packed, v.mounted, *left)
	if err != nil {
		return nil, &unknownPackages{"The index of the environment cannot be used (" + err.Error() + "), so its packages are not known", false}
	}
	*left -= int64(len(raw))
	if digest.FromBytes(raw).String() != v.lock {
		return nil, &unknownPackages{"The lock in the environment does not have the digest that its manifest states, so its packages are not known", false}
	}
	return parseLock(raw)
}

// lockInIndex returns the lock, of at most limit bytes, in a compressed index.
func lockInIndex(packed []byte, of *mounted, limit int64) ([]byte, error) {
	if digest.FromBytes(packed) != of.Index.Digest {
		return nil, errors.New("it does not have its digest")
	}
	z, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(limits.InspectedIndexRaw))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	var raw bytes.Buffer
	if _, err := io.Copy(&raw, io.LimitReader(z, of.config.Size+1)); err != nil {
		return nil, err
	}
	if digest.FromBytes(raw.Bytes()) != of.config.Index {
		return nil, errors.New("it does not have the digest that the environment states")
	}
	x, err := erofs.Open(raw.Bytes())
	if err != nil {
		return nil, err
	}
	nid := x.Root()
	for _, name := range strings.Split(strings.TrimPrefix(spec.LockFile, strings.TrimPrefix(spec.Prefix, "/")+"/"), "/") {
		next, ok := x.Lookup(nid, name)
		if !ok {
			return nil, errors.New("it has no " + path.Base(spec.LockFile))
		}
		nid = next
	}
	lock, ok := x.Data(nid)
	if !ok || int64(len(lock)) > limit {
		return nil, errors.New("its lock cannot be read, or is too large")
	}
	return bytes.Clone(lock), nil
}
