package buildkit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	folder "github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/errdefs"
	"github.com/moby/buildkit/client"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
)

// addCache exports layers to the cache repository of the request, and imports those that an
// earlier build of the same owner exported. Imported layers pass through dir.
func (k *keyring) addCache(ctx context.Context, opt *client.SolveOpt, stores map[string]content.Store, job jobs.Job, dir string, out jobs.Output) error {
	repo := job.Target.GetCacheRepository()
	if repo == "" {
		return nil
	}
	conflict, err := k.conflict(ctx)
	if err != nil {
		return fmt.Errorf("fetching the logins at %s: %w", k.target.Host, err)
	}
	if conflict {
		out.Print("", "The layers are not stored in "+repo+": it has other credentials than the repository at the same registry that the image is pushed to")
		return nil
	}
	ref := repo + ":slipway-" + short(job.CacheScope+"\x00"+job.Recipe.GetPlatform())
	opt.CacheExports = []client.CacheOptionsEntry{{Type: "registry", Attrs: compress(map[string]string{
		"ref": ref, "mode": "max", "image-manifest": "true", "oci-mediatypes": "true", "ignore-error": "true",
	}, job.Recipe.GetCompression())}}
	return k.importCache(ctx, opt, stores, job, dir, out)
}

// importCache offers the job's cache to the daemon. The daemon neither checks who wrote a
// cache manifest nor verifies the digests of the manifest and its config, and it uses their
// content for builds of other users. So it does not read them from the registry itself.
func (k *keyring) importCache(ctx context.Context, opt *client.SolveOpt, stores map[string]content.Store, job jobs.Job, dir string, out jobs.Output) error {
	if job.CacheDigest == "" || k.registries == nil {
		return nil
	}
	login, err := k.logins.Cache(ctx, k.cache)
	if err != nil {
		return fmt.Errorf("fetching the login at %s: %w", k.cache.Host, err)
	}
	access := upstream.Access{Scope: job.CacheScope, Login: login}
	store, err := openCache(ctx, k.registries, k.cache, access, digest.Digest(job.CacheDigest), dir)
	if err != nil {
		out.Print("", "The cache in "+job.Target.GetCacheRepository()+" cannot be read; the build continues without it")
		return nil //nolint:nilerr // it only is slower
	}
	imports, err := json.Marshal([]client.CacheOptionsEntry{{Type: "local", Attrs: map[string]string{"src": "cache", "digest": job.CacheDigest}}})
	if err != nil {
		return err
	}
	// A frontend attribute, because for a client option the client would open the folder
	// itself.
	opt.FrontendAttrs["cache-imports"] = string(imports)
	stores["local:cache"] = store
	return nil
}

// cacheNotStored returns a message that a registry did not store layers for later builds.
func cacheNotStored(repository string) string {
	return "The layers were not stored in " + repository + ": its registry rejected them. The image is not affected; " +
		"later builds are slower. Keep a login at the platform that may push there"
}

// reportCache reports the digest of the exported cache to the job, or prints that none was
// exported although requested.
func reportCache(job jobs.Job, response map[string]string, wanted bool, out jobs.Output) {
	cache := exportedCache(response)
	if job.Exported != nil {
		job.Exported(cache)
	}
	if cache == "" && wanted { // the daemon reports nothing in this case
		out.Print("", cacheNotStored(job.Target.GetCacheRepository()))
	}
}

// exportedCache returns the digest of the cache manifest that the daemon pushed; "" if it
// pushed none.
func exportedCache(response map[string]string) string {
	var d ocispec.Descriptor
	// The key is remotecache.ExporterResponseManifestDesc, whose package is for daemons
	// only.
	if err := json.Unmarshal([]byte(response["cache.manifest"]), &d); err != nil || d.Digest.Validate() != nil {
		return ""
	}
	return d.Digest.String()
}

// cacheStore is a cache in a registry: its manifest and the blobs that it lists. Blobs are
// fetched on demand and verified.
type cacheStore struct {
	content.Store // of a folder
	registries    remote.Registries
	repo          upstream.Repository
	access        upstream.Access
	sizes         map[digest.Digest]int64
	mu            sync.Mutex
}

func openCache(ctx context.Context, r remote.Registries, repo upstream.Repository, a upstream.Access, d digest.Digest, dir string) (*cacheStore, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	doc, err := r.Manifest(ctx, repo, d.String(), a)
	if err != nil {
		return nil, err
	}
	var m ocispec.Manifest
	if err := oci.Decode(doc.Bytes, &m); err != nil {
		return nil, err
	}
	kept, err := folder.NewStore(dir)
	if err != nil {
		return nil, err
	}
	s := &cacheStore{Store: kept, registries: r, repo: repo, access: a, sizes: map[digest.Digest]int64{}}
	for _, blob := range append(m.Layers, m.Config) {
		s.sizes[blob.Digest] = blob.Size
	}
	return s, s.write(ctx, bytes.NewReader(doc.Bytes), d, int64(len(doc.Bytes)))
}

// write stores content after verifying its digest.
func (s *cacheStore) write(ctx context.Context, r io.Reader, d digest.Digest, size int64) error {
	return content.WriteBlob(ctx, s.Store, d.String(), r, ocispec.Descriptor{Digest: d, Size: size})
}

// Info returns the size of a blob.
func (s *cacheStore) Info(ctx context.Context, d digest.Digest) (content.Info, error) {
	if err := s.fetch(ctx, d); err != nil {
		return content.Info{}, err
	}
	return s.Store.Info(ctx, d)
}

// ReaderAt opens a blob.
func (s *cacheStore) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	if err := s.fetch(ctx, desc.Digest); err != nil {
		return nil, err
	}
	return s.Store.ReaderAt(ctx, desc)
}

// fetch fetches a blob into the folder.
func (s *cacheStore) fetch(ctx context.Context, d digest.Digest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.Store.Info(ctx, d); !errdefs.IsNotFound(err) {
		return err
	}
	size, ok := s.sizes[d]
	if !ok {
		return fmt.Errorf("%s is not in the cache: %w", d, errdefs.ErrNotFound)
	}
	r, err := s.registries.ReadBlob(ctx, s.repo, d, s.access, 0, size)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	return s.write(ctx, r, d, size)
}

// conflict reports whether image and layers go to one registry with different logins: the
// daemon could use one for the other.
func (k *keyring) conflict(ctx context.Context) (bool, error) {
	if !oci.SameHost(k.cache.Host, k.target.Host) {
		return false, nil
	}
	push, err := k.logins.Push(ctx, k.target)
	if err != nil {
		return false, err
	}
	cache, err := k.logins.Cache(ctx, k.cache)
	return push != cache, err
}
