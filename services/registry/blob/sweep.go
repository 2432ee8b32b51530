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
	"strconv"
	"strings"
	"time"

	"slipway.dev/services/internal/bucket"
	"slipway.dev/services/internal/limits"
)

// sweptRecord is the object that says what was in the bucket when it was last looked
// through. It is as old as that.
const sweptRecord = ".swept"

// swept is its content.
type swept struct {
	Bytes int64 `json:"bytes"`
}

// Times of the bucket's tidying: how often the record is looked at, how old it may be, and
// how long what follows may take, a single request and the whole.
const (
	bucketLook  = time.Minute
	bucketSwept = 5 * time.Minute
	bucketTidy  = 10 * time.Second
	bucketSweep = 15 * time.Minute
)

// Run implements Cache: it learns how much is in the bucket, and one replica at a time
// removes what is too much.
func (b *shared) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := b.look(ctx); err == nil {
			b.works(&b.tidying)
		} else if ctx.Err() == nil {
			b.fails(&b.tidying, "tidying", err)
		}
		timer := time.NewTimer(bucketLook + rand.N(bucketLook/4)) //nolint:gosec // it only keeps replicas apart
		select {
		case <-ctx.Done():
		case <-b.nudge:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// look reads the record, or makes it anew.
func (b *shared) look(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, bucketTidy)
	defer cancel()
	content, o, err := b.bucket.Get(asking, sweptRecord, 1<<10)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	said, ok := parseSwept(content)
	if ok && err == nil && b.adopt(said, o.Modified) && b.now().Sub(o.Modified) < bucketSwept {
		return nil
	}
	sweeping, cancel := context.WithTimeout(ctx, bucketSweep)
	defer cancel()
	release, err := b.claim(sweeping, sweptRecord)
	if errors.Is(err, fs.ErrExist) {
		return b.dropOldClaim(asking, sweptRecord+claimMark) // another replica is at it
	}
	if err != nil {
		return err
	}
	defer release()
	return b.sweep(sweeping)
}

// adopt takes what the record says for what there is, and says whether that is enough: it
// is not where much was put since by this process alone.
func (b *shared) adopt(said swept, at time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known && at.Equal(b.seen) && said.Bytes == b.total { // times are in seconds
		return b.own < b.limit/limits.BucketUnseen
	}
	b.known, b.total, b.seen = true, said.Bytes, at
	b.own = b.underWay()
	return b.total <= b.limit
}

// underWay is what is being put now. It is called with mu held.
func (b *shared) underWay() (sum int64) {
	for _, u := range b.uploads {
		sum += u.key.Size
	}
	return sum
}

func parseSwept(content []byte) (said swept, ok bool) {
	err := json.Unmarshal(content, &said)
	return said, err == nil && said.Bytes >= 0
}

// stored is a blob in the bucket.
type stored struct {
	name string
	size int64
	used time.Time
}

// sweep removes what was used longest ago, as far as it is more than the size less a
// quarter: so there is room for the largest blob. What was used lately stays, for clients
// may be on their way to it; while that is too much nothing new is kept.
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

// list is what blobs there are, and their sizes' sum. It removes what belongs to none, and
// touches nothing of others. Of more blobs than it can remember, it removes some that were
// used longest ago.
func (b *shared) list(ctx context.Context) (all []stored, sum int64, err error) {
	for o, err := range b.bucket.List(ctx) {
		if err != nil {
			return nil, 0, err
		}
		name, mark := parts(o.Name)
		size := keptName.FindStringSubmatch(name)
		switch last := len(all) - 1; {
		case size == nil:
		case mark == "":
			if strconv.FormatInt(o.Size, 10) != size[1] { // it is not the blob
				err = b.bucket.Delete(ctx, o.Name)
				break
			}
			all, sum = append(all, stored{o.Name, o.Size, o.Modified}), sum+o.Size
		case mark == claimMark:
			err = b.dropIfOld(ctx, o)
		case mark == usedMark && last >= 0 && all[last].name == name: // names are in order
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

// parts are the name of a blob, and what an object beside it is for, e.g. usedMark.
func parts(object string) (name, mark string) {
	if i := strings.IndexByte(object, '.'); i > 0 {
		return object[:i], object[i:]
	}
	return object, ""
}

// thin removes an eighth of many blobs.
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

// dropOldClaim removes a claim that nobody has any more.
func (b *shared) dropOldClaim(ctx context.Context, name string) error {
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
