package app

import (
	"io/fs"
	"path/filepath"

	"slipway.dev/services/internal/bucket"
	"slipway.dev/services/metrics"
)

// stores are what the service keeps on disk, where all of it is this process; else nil:
// the disks are those of other processes, and a bucket or a registry has none.
func (a *App) stores() []metrics.Store {
	if !a.isWhole() {
		return nil
	}
	var out []metrics.Store
	if a.images != nil {
		out = append(out, metrics.Store{Name: "images", Limit: int64(a.cfg.StoreSize), Size: a.images.Bytes})
	}
	if a.cfg.BlobCache != "" && !bucket.IsAddress(a.cfg.BlobCache) {
		out = append(out, metrics.Store{Name: "blobs", Limit: int64(a.cfg.BlobCacheSize), Size: func() (int64, error) { return onDisk(a.cfg.BlobCache) }})
	}
	return append(out, metrics.Store{Name: "layers", Limit: int64(a.cfg.LayerCache), Size: func() (int64, error) { return onDisk(a.dir("layers")) }})
}

// onDisk is how long the files below a folder are, in bytes; 0 where there is none.
func onDisk(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if info, err := e.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil // files come and go under us
	})
	return sum, err
}
