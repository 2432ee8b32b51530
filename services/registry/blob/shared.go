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

// What is in the bucket beside blobs: whether one was used lately, and who is at something.
const (
	usedMark  = ".used"
	claimMark = ".claim"
)

// bucketAnswer is how long a pull waits to hear whether a blob is in the bucket.
const bucketAnswer = time.Second

// shared is a Cache in a bucket that replicas share. Clients are sent there with a
// URL that is signed for a while. Those blobs go first that were used longest ago. A bucket
// that fails is left alone for a while. Safe for concurrent use.
type shared struct {
	bucket *bucket.Bucket
	limit  int64
	log    *slog.Logger
	now    func() time.Time
	counts
	reading, writing, tidying rest
	work                      sync.WaitGroup // what outlives a request
	nudge                     chan struct{}  // the bucket may have to be looked through

	mu      sync.Mutex
	known   bool      // how much there is
	total   int64     // bytes in the bucket when it was looked through, at seen
	own     int64     // bytes that this process has put there since, or is putting
	woken   time.Time // when it was nudged
	seen    time.Time // the bucket's time
	uploads map[string]*upload
	marks   map[string]time.Time // when this process marked a blob as used
	closed  bool
}

func newShared(c Config) *shared {
	b := &shared{
		bucket: c.Bucket, limit: c.Size, log: c.Log, now: c.Now, nudge: make(chan struct{}, 1),
		uploads: map[string]*upload{}, marks: map[string]time.Time{},
	}
	b.counts = newCounts(c.Metrics, b.used)
	return b
}

func (b *shared) used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total + b.own
}

// Wants implements Cache. Small blobs are sooner passed on than looked for elsewhere,
// and one upload takes no more than S3 does at once.
func (b *shared) Wants(size int64) bool {
	return size >= limits.BucketBlobLeast && size <= min(b.limit/limits.BlobCacheShare, limits.BucketBlobMost)
}

// Find implements Cache.
func (b *shared) Find(ctx context.Context, k Key) (Found, bool) {
	if !b.Wants(k.Size) {
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

// locate is where a blob can be read; "" where it is not in the bucket.
func (b *shared) locate(ctx context.Context, k Key) (location string, err error) {
	if !b.reading.may(b.now()) {
		return "", nil
	}
	asking, cancel := context.WithTimeout(ctx, bucketAnswer)
	defer cancel()
	o, err := b.bucket.Stat(asking, k.name())
	if err == nil && o.Size == k.Size {
		location, err = b.bucket.Presign(asking, k.name(), limits.BucketURL)
	}
	switch {
	case ctx.Err() != nil: // the client is gone: nothing was learnt
		b.reading.unknown()
	case errors.Is(err, fs.ErrNotExist):
		b.works(&b.reading)
	case err != nil:
		b.fails(&b.reading, "reading", err)
	case o.Size != k.Size: // it is not the blob: it is put there anew
		b.works(&b.reading)
		b.failed.Inc()
	default:
		b.works(&b.reading)
		b.mark(k.name(), o.Modified)
	}
	return location, err
}

// mark notes that a blob is used, now and then: what is not, goes.
func (b *shared) mark(name string, modified time.Time) {
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
	if !b.Wants(k.Size) || !b.writing.may(b.now()) {
		return nil
	}
	u, ok := b.begin(k)
	if !ok {
		b.writing.unknown()
		return nil
	}
	return newFilling(k, body, u)
}

// begin says whether there is room for a blob, and nobody else in this process is putting
// it there.
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

// wake has the bucket looked through, if that was not asked for just now. It is called with
// mu held.
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

// forget ends an upload, of which nothing is there unless it was put.
func (b *shared) forget(u *upload, put bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.uploads, u.key.name())
	if !put {
		b.own = max(0, b.own-u.key.Size) // what was looked through meanwhile may have counted it
	}
}

// outlive runs what may go on after its request, until the store is closed.
func (b *shared) outlive(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.work.Go(f)
	}
}

// Close implements Cache: what a client has in full is put to its end.
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

// fails notes an error of the bucket, and says so the first time.
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

// claim says whether nobody else is at something, with what ends that. Where nobody can
// say, nobody is: what two do at the same time is harmless. It is heard to its end, for what
// is claimed is not free again for hours.
func (b *shared) claim(ctx context.Context, name string) (release func(), err error) {
	name += claimMark
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), bucketTidy)
	defer cancel()
	release = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bucketTidy)
		defer cancel()
		_ = b.bucket.Delete(ctx, name) // or else when it is old
	}
	err = b.bucket.Put(asking, name, strings.NewReader(""), 0, "", true)
	var refused *bucket.Refused
	switch {
	case errors.As(err, &refused) && (refused.Status == http.StatusNotImplemented || refused.Status == http.StatusInternalServerError):
		return func() {}, ctx.Err() // it has no such condition, or trouble with it
	case err == nil && ctx.Err() == nil:
		return release, nil
	case errors.Is(err, fs.ErrExist):
	case err == nil:
		err = ctx.Err()
		release()
	}
	return nil, fmt.Errorf("claiming %s: %w", name, err)
}
