package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"slipway.dev/services/internal/bucket"
	"slipway.dev/services/internal/limits"
)

// Suffixes of auxiliary objects: for a recently used blob, and for a claim on a task.
const (
	usedMark  = ".used"
	claimMark = ".claim"
)

// bucketTimeout is the time that a pull waits for the bucket.
const bucketTimeout = time.Second

// A shared cache is a Cache in a bucket that replicas share. Clients are redirected there
// with a presigned URL. The least recently used blobs are evicted first. A failing bucket
// is not used for a while. It is safe for concurrent use.
type shared struct {
	bucket *bucket.Bucket
	limit  int64
	log    *slog.Logger
	now    func() time.Time
	counts
	reading, writing, tidying rest
	work                      sync.WaitGroup // work that continues after its request
	nudge                     chan struct{}  // requests a sweep

	mu      sync.Mutex
	known   bool      // whether total is known
	total   int64     // bytes in the bucket at the last sweep, at seen
	own     int64     // bytes uploaded by this process since then, or being uploaded
	woken   time.Time // time of the last value on nudge
	seen    time.Time // time of the last sweep by the bucket's clock
	uploads map[string]*upload
	// documents are those that are being uploaded, by name.
	documents map[string]*pendingDocument
	// documentTurns has a value for each document that is being uploaded.
	documentTurns chan struct{}
	marks         map[string]time.Time // when this process marked a blob as used
	closed        bool
}

func newShared(c Config) *shared {
	b := &shared{
		bucket: c.Bucket, limit: c.Size, log: c.Log, now: c.Now, nudge: make(chan struct{}, 1),
		uploads: map[string]*upload{}, documents: map[string]*pendingDocument{}, documentTurns: make(chan struct{}, limits.BucketUploads), marks: map[string]time.Time{},
	}
	b.counts = newCounts(c.Metrics, b.used)
	return b
}

func (b *shared) used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total + b.own
}

// Accepts implements Cache. Small blobs are faster to stream than to look up, and the maximum
// is that of a single S3 upload.
func (b *shared) Accepts(size int64) bool {
	return size >= limits.BucketBlobLeast && size <= min(b.limit/limits.BlobCacheShare, limits.BucketBlobMost)
}

// Find implements Cache.
func (b *shared) Find(ctx context.Context, k Key) (Found, bool) {
	if !b.Accepts(k.Size) {
		return Found{}, false
	}
	location, err := b.locate(ctx, k)
	if err != nil || location == "" {
		b.hits.RecordMisses(1)
		return Found{}, false
	}
	b.hits.RecordHits(1)
	return Found{URL: location}, true
}

// locate returns the URL of a blob, or "" if it is not in the bucket.
func (b *shared) locate(ctx context.Context, k Key) (location string, err error) {
	if !b.reading.may(b.now()) {
		return "", nil
	}
	asking, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	o, err := b.bucket.Stat(asking, k.name())
	if err == nil && o.Size == k.Size {
		location, err = b.bucket.Presign(asking, k.name(), limits.BucketURL)
	}
	switch {
	case ctx.Err() != nil: // the client disconnected, so the result is unknown
		b.reading.unknown()
	case errors.Is(err, fs.ErrNotExist):
		b.works(&b.reading)
	case err != nil:
		b.fails(&b.reading, "reading", err)
	case o.Size != k.Size: // it is corrupt and will be uploaded again
		b.works(&b.reading)
		b.failed.Inc()
	default:
		b.works(&b.reading)
		b.touch(k.name(), o.Modified)
	}
	return location, err
}

// touch records occasionally that a blob is used. Unused blobs are evicted.
func (b *shared) touch(name string, modified time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if b.closed || now.Sub(modified) < limits.BucketUse || now.Sub(b.marks[name]) < limits.BucketUse {
		return
	}
	if len(b.marks) >= limits.BucketBlobs {
		clear(b.marks)
	}
	b.marks[name] = now
	b.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), bucketTidy)
		defer cancel()
		if err := b.bucket.Put(ctx, name+usedMark, strings.NewReader(""), 0, "", false); err != nil {
			b.failed.Inc()
		}
	})
}

// Fill implements Cache.
func (b *shared) Fill(k Key, body io.Reader) *Filling {
	if !b.Accepts(k.Size) || !b.writing.may(b.now()) {
		return nil
	}
	u, ok := b.begin(k)
	if !ok {
		b.writing.unknown()
		return nil
	}
	return newFilling(k, body, u)
}

// begin starts an upload. It returns false if there is no space or this process is already
// uploading the blob.
func (b *shared) begin(k Key) (*upload, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || !b.known || b.uploads[k.name()] != nil || len(b.uploads) >= limits.BucketUploads {
		return nil, false
	}
	if b.total+b.own+k.Size > b.limit || b.own >= b.limit/limits.BucketUnseen {
		b.wake()
		return nil, false
	}
	b.own += k.Size
	u := newUpload(b, k)
	b.uploads[k.name()] = u
	return u, true
}

// wake requests a sweep unless one was requested recently. mu must be held.
func (b *shared) wake() {
	now := b.now()
	if now.Sub(b.woken) < bucketTidy {
		return
	}
	b.woken = now
	select {
	case b.nudge <- struct{}{}:
	default:
	}
}

// forget ends an upload. If put is false, nothing was stored.
func (b *shared) forget(u *upload, put bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.uploads, u.key.name())
	if !put {
		b.own = max(0, b.own-u.key.Size) // a sweep in the meantime may have counted it
	}
}

// outlive runs a function that may continue after its request, until the cache is closed.
func (b *shared) outlive(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.work.Go(f)
	}
}

// Close implements Cache. Blobs that a client has received completely are still uploaded.
func (b *shared) Close() error {
	b.mu.Lock()
	b.closed = true
	for _, u := range b.uploads {
		if !u.committed.Load() {
			u.cancel()
		}
	}
	b.mu.Unlock()
	b.work.Wait()
	b.bucket.Close()
	return nil
}

// fails records an error of the bucket, and logs the first one.
func (b *shared) fails(r *rest, doing string, err error) {
	b.failed.Inc()
	if r.failed(b.now()) {
		b.log.Warn("The bucket of blob_cache fails; registries serve their blobs meanwhile", "doing", doing, "err", err)
	}
}

func (b *shared) works(r *rest) {
	if r.worked() {
		b.log.Info("The bucket of blob_cache works again")
	}
}

// claim claims a task for this replica, and returns a function that releases it. If the
// bucket does not support claims, it succeeds, because concurrent execution is harmless. It
// ignores the cancellation of ctx until the response, because a lost claim would only
// expire after hours.
func (b *shared) claim(ctx context.Context, name string) (release func(), err error) {
	name += claimMark
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), bucketTidy)
	defer cancel()
	release = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bucketTidy)
		defer cancel()
		_ = b.bucket.Delete(ctx, name) // otherwise deleted when it is old
	}
	err = b.bucket.Put(asking, name, strings.NewReader(""), 0, "", true)
	var refused *bucket.ResponseError
	switch {
	case errors.As(err, &refused) && (refused.Status == http.StatusNotImplemented || refused.Status == http.StatusInternalServerError):
		return func() {}, ctx.Err() // the server does not support conditional uploads
	case err == nil && ctx.Err() == nil:
		return release, nil
	case errors.Is(err, fs.ErrExist):
	case err == nil:
		err = ctx.Err()
		release()
	}
	return nil, fmt.Errorf("claiming %s: %w", name, err)
}
