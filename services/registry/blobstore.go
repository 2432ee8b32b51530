package registry

import (
	"context"
	"io"
	"net/http"

	"github.com/maypok86/otter/v2/stats"
	"github.com/opencontainers/go-digest"
	"github.com/prometheus/client_golang/prometheus"
)

// blobStore keeps blobs of registries, within a size: in a folder, or in a bucket. A blob
// is there in full, and verified, or not at all. Who may read one it does not know. What
// goes wrong with it is counted, and concerns no client.
type blobStore interface {
	// find returns a blob that is kept, which the caller closes; nil where it is not.
	find(ctx context.Context, k blobKey) foundBlob
	// wants says whether a blob of this size is kept.
	wants(size int64) bool
	// fill begins to keep a blob that is read from body, by one reader at a time; nil where
	// it is not to be kept. The caller ends it.
	fill(k blobKey, body io.Reader) *filling
	// run tidies up until ctx ends.
	run(ctx context.Context)
	// close gives up what is under way.
	close() error
}

// foundBlob is a blob that is kept. It can be read to its end whatever leaves the store
// meanwhile.
type foundBlob interface {
	// serve answers with it, or the part of it that is asked for.
	serve(w http.ResponseWriter, r *http.Request)
	io.Closer
}

// blobCounts is what is counted of a store.
type blobCounts struct {
	hits            *stats.Counter
	evicted, failed prometheus.Counter
}

func newBlobCounts(reg prometheus.Registerer, used func() int64) blobCounts {
	c := blobCounts{
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

// newBlobStore opens what is set: a bucket, a folder, or one that keeps nothing.
func newBlobStore(d Deps) (store blobStore, hits *stats.Counter, err error) {
	if d.BlobBucket != nil {
		b := newBlobBucket(d)
		return b, b.hits, nil
	}
	c, err := newBlobCache(d)
	if err != nil {
		return nil, nil, err
	}
	return c, c.hits, nil
}

// filling is a blob on its way to a client that is kept as it passes.
type filling struct {
	key    blobKey
	body   io.Reader
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

func newFilling(k blobKey, body io.Reader, to sink) *filling {
	return &filling{key: k, body: body, to: to, verify: k.digest.Verifier()}
}

// Read implements io.Reader.
func (f *filling) Read(p []byte) (int, error) {
	n, err := f.body.Read(p)
	if n > 0 {
		f.keep(p[:n])
	}
	return n, err
}

func (f *filling) keep(p []byte) {
	if f.lost {
		return
	}
	f.passed += int64(len(p))
	if f.passed <= f.key.size {
		_, _ = f.verify.Write(p) // a hash takes everything
	}
	if f.passed > f.key.size || f.passed == f.key.size && !f.verify.Verified() || !f.to.write(p) {
		f.lost = true
		f.to.giveUp()
	}
}

// commit makes the blob visible, if it is whole and what its digest says.
func (f *filling) commit() {
	if !f.lost && f.passed == f.key.size {
		f.to.commit()
	}
}

// end gives up what was not committed.
func (f *filling) end() { f.to.end() }
