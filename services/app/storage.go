package app

import (
	"context"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"slipway.dev/services/internal/bucket"
	"slipway.dev/services/metrics"
)

// stores returns the stores on the disks of this process if it plays all roles. It returns nil
// otherwise, since the stores belong to several processes. It omits buckets and registries.
func (e *env) stores() []metrics.Store {
	if !e.isWhole() {
		return nil
	}
	var out []metrics.Store
	if e.images != nil {
		out = append(out, metrics.Store{Name: "images", Limit: int64(e.cfg.StoreSize), Size: e.images.Bytes})
	}
	if e.cfg.BlobCache != "" && !bucket.IsAddress(e.cfg.BlobCache) {
		out = append(out, metrics.Store{Name: "blobs", Limit: int64(e.cfg.BlobCacheSize), Size: func() (int64, error) { return onDisk(e.cfg.BlobCache) }})
	}
	return append(out, metrics.Store{Name: "layers", Limit: int64(e.cfg.LayerCache), Size: func() (int64, error) { return onDisk(e.dir("layers")) }})
}

// storeServers returns the database and NATS.
func (e *env) storeServers() ([]metrics.Server, error) {
	js, err := jetstream.New(e.nats)
	if err != nil {
		return nil, err
	}
	return []metrics.Server{
		{Name: "database", Space: func(ctx context.Context) (used, limit int64, err error) {
			used, err = e.db.Size(ctx)
			return used, 0, err
		}},
		{Name: "nats", Space: func(ctx context.Context) (used, limit int64, err error) { return busSpace(ctx, js) }},
	}, nil
}

// health returns the state of this process.
func (e *env) health(ctx context.Context) (h metrics.Health) {
	checks := e.allChecks()
	for i, s := range states(ctx, checks) {
		d := metrics.Dependency{Name: checks[i].name, Required: s.Required}
		if !s.OK {
			d.Problem = s.Error
		}
		h.Dependencies = append(h.Dependencies, d)
	}
	validities := e.certificates.validities()
	for _, setting := range slices.Sorted(maps.Keys(validities)) {
		h.Certificates = append(h.Certificates, metrics.Certificate{Setting: setting, End: validities[setting].end})
	}
	return h
}

// disksInUse returns the disks on which this process stores data if it plays all roles;
// otherwise nil.
func (e *env) disksInUse() []metrics.Disk {
	if !e.isWhole() {
		return nil
	}
	var out []metrics.Disk
	for _, f := range e.disks.Folders() {
		out = append(out, metrics.Disk{Folder: f.Name, Reserve: int64(e.cfg.DiskReserve), Space: func() (free, size int64, err error) {
			space, err := e.disks.Space(f)
			return space.Free, space.Size, err
		}})
	}
	return out
}

// onDisk returns the size of the files below a folder in bytes; 0 if it does not exist.
func onDisk(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if info, err := e.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil // files may be deleted concurrently
	})
	return sum, err
}
