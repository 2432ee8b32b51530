// Package blob caches blobs and documents of registries up to a total size: in a folder of one
// process, or in a bucket that replicas share. It verifies the blobs. It does not access
// registries, and does not check who may read what. The content of a cache may be lost at any
// time.
package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/maypok86/otter/v2/stats"
	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/internal/bucket"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/upstream"
)

// A Cache stores blobs. A blob is present completely and verified, or not at all. Errors of
// the cache are counted and not returned to clients. A Cache is safe for concurrent use.
type Cache interface {
	// Find returns a cached blob, which the caller must close. ok is false if it is not
	// cached.
	Find(ctx context.Context, k Key) (_ Found, ok bool)
	// Accepts reports whether blobs of this size are cached.
	Accepts(size int64) bool
	// Fill starts to cache a blob that one reader reads from body. It returns nil if the
	// blob is not to be cached. The caller must end the Filling.
	Fill(k Key, body io.Reader) *Filling
	// Document opens a cached document, which the caller must close and verify: after a power
	// failure it may be incomplete. ok is false if it is not cached.
	Document(ctx context.Context, name string) (_ io.ReadCloser, size int64, ok bool)
	// SetDocument caches a document, possibly after it has returned, in place of an earlier one
	// with the same name. The name is 64 hexadecimal digits. The caller must not change content
	// afterwards.
	SetDocument(name string, content []byte)
	// Hits returns the counter of hits and misses of Find.
	Hits() *stats.Counter
	// Run maintains the cache until ctx is done.
	Run(ctx context.Context)
	// Close cancels unfinished work. It must be called after Run has returned.
	Close() error
}

// A Config is the configuration of a cache.
type Config struct {
	// Bucket is the bucket of the cache, which Close closes. If nil, the cache is in the
	// folder Dir. If Dir is "" as well, nothing is cached.
	Bucket *bucket.Bucket
	Dir    string
	// Size is the maximum total size in bytes.
	Size int64
	// DiskFull returns an error while the disk of Dir is too full to cache more. A nil DiskFull
	// means that it never is.
	DiskFull func() error
	Metrics  prometheus.Registerer
	Log      *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Open returns a cache in the configured bucket or folder. The caller must close it.
func Open(c Config) (Cache, error) {
	if c.Bucket != nil {
		return newShared(c), nil
	}
	f, err := newFolder(c)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// A Key identifies a blob of one repository. The same digest in another repository is
// another blob, because a user who names it in their own repository, or runs a registry
// that claims to have it, has not proved that they may read it.
type Key struct {
	Repo   upstream.Repository
	Digest digest.Digest
	Size   int64 // in bytes, as the manifest states it
	// Rights separates blobs by the rights with which they were read; see pullthrough.Rights.
	Rights string
}

// cachedName matches the name of a cached blob: a hash of the repository and digest, and
// the full size. In the name of a document, documentMark is in place of the size.
var cachedName = regexp.MustCompile(`^[0-9a-f]{64}-(\d{1,18}|doc)$`)

const documentMark = "doc"

func (k Key) name() string {
	id := k.Repo.Host + "\n" + k.Repo.Name + "\n" + k.Digest.String()
	if k.Rights != "" {
		id += "\n" + k.Rights
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:]) + "-" + strconv.FormatInt(k.Size, 10)
}

// hasSize reports whether a file or object of a cached name may have a size. It is that in the
// name, and documents may have any.
func hasSize(found []string, size int64) bool {
	return found[1] == documentMark || found[1] == strconv.FormatInt(size, 10)
}

// charged returns what a cached file or object counts towards the size of the cache: more than
// its length for a small document, which takes a block of a disk.
func charged(found []string, size int64) int64 {
	if found[1] == documentMark {
		size += limits.DocumentCharge
	}
	return size
}

// A Found is a cached blob: a file, or a URL at which clients can read it for a limited
// time. It remains readable after its eviction.
type Found struct {
	File *os.File
	URL  string
}

// Close closes the file, if any.
func (f Found) Close() {
	if f.File != nil {
		_ = f.File.Close() // it was only read
	}
}

// counts are the metrics of a cache.
type counts struct {
	hits            *stats.Counter
	evicted, failed prometheus.Counter
}

// Hits implements Cache.
func (c counts) Hits() *stats.Counter { return c.hits }

func newCounts(reg prometheus.Registerer, used func() int64) counts {
	c := counts{
		hits: stats.NewCounter(),
		evicted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slipway_registry_blob_cache_evicted_total", Help: "Blobs that were evicted from the blob cache.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slipway_registry_blob_cache_failed_total", Help: "Blobs that could not be written to the blob cache, or read from it, and failed sweeps; their registry served them.",
		}),
	}
	reg.MustRegister(c.evicted, c.failed, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "slipway_registry_blob_cache_bytes", Help: "Size of the blob cache in bytes: on disk, or in the bucket at the last sweep plus later uploads of this process.",
	}, func() float64 { return float64(used()) }))
	return c
}
