package blob

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"slipway.dev/services/internal/bucket"
	"slipway.dev/services/internal/limits"
)

// sweptRecord is the object with the result of the last sweep. Its modification time is
// that of the sweep.
const sweptRecord = ".swept"

// A swept is the content of sweptRecord.
type swept struct {
	Bytes int64 `json:"bytes"`
}

// Intervals for checking the record and for sweeps, and timeouts of a single request and of
// a sweep.
const (
	bucketLook  = time.Minute
	bucketSwept = 5 * time.Minute
	bucketTidy  = 10 * time.Second
	bucketSweep = 15 * time.Minute
)

// Run implements Cache. It reads the total size in the bucket, and one replica at a time
// sweeps the bucket.
func (b *shared) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := b.readOrSweep(ctx); err == nil {
			b.works(&b.tidying)
		} else if ctx.Err() == nil {
			b.fails(&b.tidying, "tidying", err)
		}
		timer := time.NewTimer(bucketLook + rand.N(bucketLook/4)) //nolint:gosec // jitter between replicas
		select {
		case <-ctx.Done():
		case <-b.nudge:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// readOrSweep reads the record, or sweeps the bucket if the record is missing or outdated.
func (b *shared) readOrSweep(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, bucketTidy)
	defer cancel()
	content, o, err := b.bucket.Get(asking, sweptRecord, 1<<10)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	record, ok := parseSwept(content)
	if ok && err == nil && b.adopt(record, o.Modified) && b.now().Sub(o.Modified) < bucketSwept {
		return nil
	}
	sweeping, cancel := context.WithTimeout(ctx, bucketSweep)
	defer cancel()
	release, err := b.claim(sweeping, sweptRecord)
	if errors.Is(err, fs.ErrExist) {
		return b.deleteExpiredClaim(asking, sweptRecord+claimMark) // another replica is sweeping
	}
	if err != nil {
		return err
	}
	defer release()
	return b.sweep(sweeping)
}

// adopt uses the total size in a record. It returns false if a sweep is needed, because
// this process has uploaded much since the record was written or the limit is exceeded.
func (b *shared) adopt(record swept, at time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known && at.Equal(b.seen) && record.Bytes == b.total { // modification times may have a resolution of seconds
		return b.own < b.limit/limits.BucketUnseen
	}
	b.known, b.total, b.seen = true, record.Bytes, at
	b.own = b.uploading()
	return b.total <= b.limit
}

// uploading returns the total size of running uploads. mu must be held.
func (b *shared) uploading() (sum int64) {
	for _, u := range b.uploads {
		sum += u.key.Size
	}
	for _, d := range b.documents {
		sum += d.size
	}
	return sum
}

func parseSwept(content []byte) (record swept, ok bool) {
	err := json.Unmarshal(content, &record)
	return record, err == nil && record.Bytes >= 0
}

// A stored is a blob in the bucket.
type stored struct {
	name string
	size int64 // as charged
	used time.Time
}

// sweep evicts the least recently used blobs until three quarters of the size are used, so
// that there is space for the largest blob. Recently used blobs are not evicted, because
// clients may have URLs of them. While they exceed the size, no new blobs are cached.
func (b *shared) sweep(ctx context.Context) error {
	all, sum, err := b.list(ctx)
	if err != nil {
		return err
	}
	least := b.limit - b.limit/limits.BlobCacheShare
	if sum > least {
		slices.SortFunc(all, func(x, y stored) int { return cmp.Compare(x.used.UnixNano(), y.used.UnixNano()) })
		for _, s := range all {
			if sum <= least || b.now().Sub(s.used) < limits.BucketUse+limits.BucketURL {
				break
			}
			if err := b.remove(ctx, s.name); err != nil {
				return err
			}
			sum -= s.size
		}
	}
	record, err := json.Marshal(swept{Bytes: sum})
	if err != nil {
		return err
	}
	hash := sha256.Sum256(record)
	if err := b.bucket.Put(ctx, sweptRecord, strings.NewReader(string(record)), int64(len(record)), hex.EncodeToString(hash[:]), false); err != nil {
		return err
	}
	o, err := b.bucket.Stat(ctx, sweptRecord)
	if err == nil {
		b.adopt(swept{Bytes: sum}, o.Modified)
	}
	return err
}

func (b *shared) remove(ctx context.Context, name string) error {
	if err := b.bucket.Delete(ctx, name); err != nil {
		return err
	}
	b.evicted.Inc()
	return b.bucket.Delete(ctx, name+usedMark)
}

// list returns all blobs and their total size. It deletes auxiliary objects without a blob,
// and ignores foreign objects. If there are more blobs than it can hold in memory, it
// evicts some of the least recently used.
func (b *shared) list(ctx context.Context) (all []stored, sum int64, err error) {
	for o, err := range b.bucket.List(ctx) {
		if err != nil {
			return nil, 0, err
		}
		name, mark := parts(o.Name)
		size := cachedName.FindStringSubmatch(name)
		switch last := len(all) - 1; {
		case size == nil:
		case mark == "":
			if !hasSize(size, o.Size) { // the blob is corrupt
				err = b.bucket.Delete(ctx, o.Name)
				break
			}
			counted := charged(size, o.Size)
			all, sum = append(all, stored{o.Name, counted, o.Modified}), sum+counted
		case mark == claimMark:
			err = b.dropIfOld(ctx, o)
		case mark == usedMark && last >= 0 && all[last].name == name: // names are sorted
			all[last].used = later(all[last].used, o.Modified)
		case mark == usedMark:
			err = b.dropIfOld(ctx, o)
		}
		if err == nil && len(all) >= limits.BucketBlobs {
			all, sum, err = b.thin(ctx, all, sum)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	return all, sum, nil
}

// parts splits the name of an object into the name of its blob and the suffix, e.g. usedMark.
func parts(object string) (name, mark string) {
	if i := strings.IndexByte(object, '.'); i > 0 {
		return object[:i], object[i:]
	}
	return object, ""
}

// thin evicts an eighth of many blobs.
func (b *shared) thin(ctx context.Context, all []stored, sum int64) ([]stored, int64, error) {
	byUse := slices.SortedFunc(slices.Values(all), func(x, y stored) int { return cmp.Compare(x.used.UnixNano(), y.used.UnixNano()) })
	last := byUse[len(byUse)/8].used
	kept := all[:0]
	for _, s := range all {
		if s.used.After(last) {
			kept = append(kept, s)
			continue
		}
		if err := b.remove(ctx, s.name); err != nil {
			return nil, 0, err
		}
		sum -= s.size
	}
	return kept, sum, nil
}

func later(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}

// deleteExpiredClaim deletes a claim that has expired.
func (b *shared) deleteExpiredClaim(ctx context.Context, name string) error {
	o, err := b.bucket.Stat(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return b.dropIfOld(ctx, o)
}

func (b *shared) dropIfOld(ctx context.Context, o bucket.Object) error {
	if b.now().Sub(o.Modified) < 2*limits.BucketUpload {
		return nil
	}
	return b.bucket.Delete(ctx, o.Name)
}
