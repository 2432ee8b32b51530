package conda

import (
	"time"
	"unsafe"
	"weak"

	"slipway.dev/services/conda/index"
	"slipway.dev/services/conda/solver"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
)

// A recordCache caches the decoded records of names that solves use, because most solves read
// the same names: decoding them is half of a solve. It is safe for concurrent use.
type recordCache struct {
	*memo.Cache[recordKey, []spec.Record]
}

// A recordKey identifies the records of a name in a list. It does not keep the list open.
type recordKey struct {
	list weak.Pointer[index.Index]
	name string
}

// recordsUnused is how long unused records are cached.
const recordsUnused = 5 * time.Minute

func newRecordCache() recordCache {
	return recordCache{memo.NewCache(memo.Options[recordKey, []spec.Record]{
		Weight: limits.CondaRecordsCached,
		Weigh:  func(_ recordKey, records []spec.Record) uint32 { return sizeOf(records) },
		Idle:   recordsUnused,
	})}
}

// source returns a list for a solver. The list of a past time is not cached, because it is
// seldom used again.
func (c recordCache) source(l list) solver.Source {
	if l.Index.IsPast() {
		return l.Index
	}
	return cachedList{l.Index, c}
}

// A cachedList is a list whose records are cached.
type cachedList struct {
	*index.Index
	cache recordCache
}

// Records implements solver.Source.
func (l cachedList) Records(name string) ([]spec.Record, error) {
	key := recordKey{weak.Make(l.Index), name}
	if known, ok := l.cache.Get(key); ok {
		return known, nil
	}
	records, err := l.Index.Records(name)
	if err == nil && len(records) > 0 {
		l.cache.Set(key, records)
	}
	return records, err
}

// sizeOf returns the approximate memory of records in bytes.
func sizeOf(records []spec.Record) uint32 {
	const text = int(unsafe.Sizeof(""))
	size := len(records) * int(unsafe.Sizeof(spec.Record{}))
	for i := range records {
		r := &records[i]
		for _, s := range []string{r.Name, r.Version, r.Build, r.NoArch, r.PythonSitePackagesPath, r.SHA256, r.MD5, r.License, r.LicenseFamily, r.FileName, r.URL} {
			size += len(s)
		}
		for _, texts := range [][]string{r.Depends, r.Constrains, r.TrackFeatures} {
			for _, s := range texts {
				size += text + len(s)
			}
		}
	}
	return uint32(size)
}
