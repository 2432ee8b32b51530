// Package blob keeps blobs of registries for the next pull, within a size: in a folder of
// one process, or in a bucket that replicas share. It verifies what it keeps, and never
// asks a registry, nor who may read a blob. What is in it may be lost at any time.
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
	"slipway.dev/services/internal/upstream"
)

// Cache keeps blobs. A blob is there in full, and verified, or not at all. What goes wrong
// with it is counted, and concerns no client. Safe for concurrent use.
type Cache interface {
	// Find returns a blob that is kept, which the caller closes; not ok where it is not.
	Find(ctx context.Context, k Key) (_ Found, ok bool)
	// Wants says whether a blob of this size is kept.
	Wants(size int64) bool
	// Fill begins to keep a blob that is read from body, by one reader at a time; nil where
	// it is not to be kept. The caller ends it.
	Fill(k Key, body io.Reader) *Filling
	// Hits counts what Find found, and did not.
	Hits() *stats.Counter
	// Run tidies up until ctx ends.
	Run(ctx context.Context)
	// Close gives up what is under way. Run must have ended.
	Close() error
}

// Config is what a cache is made of.
type Config struct {
	// Bucket is where blobs are kept, and Dir where they are without one; "" keeps none.
	// Close closes the bucket.
	Bucket *bucket.Bucket
	Dir    string
	// Size is how many bytes may be kept.
	Size    int64
	Metrics prometheus.Registerer
	Log     *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Open returns a cache in what is set: a bucket, a folder, or nothing. The caller closes it.
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

// Key is a blob of one repository. The same digest elsewhere is another blob: who
// names it in a repository of their own, or runs a registry that claims to have it, has
// not shown that they may read it.
type Key struct {
	Repo   upstream.Repository
	Digest digest.Digest
	Size   int64 // in bytes, as the manifest states it
}

// keptName is the name of a kept blob: a hash of the rest, and the size that it has in full.
var keptName = regexp.MustCompile(`^[0-9a-f]{64}-(\d{1,18})$`)

func (k Key) name() string {
	sum := sha256.Sum256([]byte(k.Repo.Host + "\n" + k.Repo.Name + "\n" + k.Digest.String()))
	return hex.EncodeToString(sum[:]) + "-" + strconv.FormatInt(k.Size, 10)
}

// Found is a blob that is kept: a file, or else a URL at which a client can read it for a
// while. It can be read to its end whatever leaves the cache meanwhile.
type Found struct {
	File *os.File
	URL  string
}

// Close ends its use.
func (f Found) Close() {
	if f.File != nil {
		_ = f.File.Close() // it was only read
	}
}

// counts is what is counted of a store.
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
			Name: "slipway_registry_blob_cache_evicted_total", Help: "Blobs that left the blob cache for others.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "slipway_registry_blob_cache_failed_total", Help: "Blobs that could not be written to the blob cache, or read from it, and tidying that failed; their registry served them.",
		}),
	}
	reg.MustRegister(c.evicted, c.failed, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "slipway_registry_blob_cache_bytes", Help: "What the blob cache takes up: on disk, or in the bucket when it was last looked through, with what this process has put there since.",
	}, func() float64 { return float64(used()) }))
	return c
}
