package metrics

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	metricsv1 "slipway.dev/proto/gen/slipway/metrics/v1"
)

// A Store stores content on the disk of this process.
type Store struct {
	// Name is the store's name in the REST API.
	Name string
	// Limit is the maximum size in bytes; 0 means no limit.
	Limit int64
	// Size measures the current size in bytes.
	Size func() (int64, error)
}

// A Disk is a disk that a process stores data on.
type Disk struct {
	// Folder is the setting that names the folder on it.
	Folder string
	// Reserve is the setting disk_reserve in bytes; 0 means none.
	Reserve int64
	// Space measures the free space and the size in bytes.
	Space func() (free, size int64, err error)
}

// storageAge is how long a measurement is cached, since each measurement walks a directory tree.
const storageAge = 10 * time.Second

// storage holds the last measurement of the stores.
type storage struct {
	sem  chan struct{} // capacity 1; its holder may measure
	at   time.Time     // when the measurement ended
	last *metricsv1.GetStorageResponse
	err  error
}

// GetStorage returns the sizes of the stores and disks of this process. They are measured at most once
// per storageAge: neither the number of calls, nor disconnected callers, nor a failed measurement leads
// to more.
func (s *Service) GetStorage(ctx context.Context, _ *metricsv1.GetStorageRequest) (*metricsv1.GetStorageResponse, error) {
	if err := s.authorize(ctx); err != nil {
		return nil, err
	}
	m := &s.storage
	select {
	case m.sem <- struct{}{}:
		defer func() { <-m.sem }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if m.at.IsZero() || s.deps.Now().Sub(m.at) >= storageAge {
		m.last, m.err = s.measure()
		m.at = s.deps.Now()
	}
	return m.last, m.err
}

// measure returns the current sizes of the stores and disks.
func (s *Service) measure() (*metricsv1.GetStorageResponse, error) {
	out := &metricsv1.GetStorageResponse{}
	for _, store := range s.deps.Stores {
		size, err := store.Size()
		if err != nil {
			return nil, fmt.Errorf("measuring %s: %w", store.Name, err)
		}
		m := &metricsv1.Store{Name: proto.String(store.Name), Size: proto.Float64(float64(size))}
		if store.Limit > 0 {
			m.Limit = proto.Float64(float64(store.Limit))
		}
		out.Stores = append(out.Stores, m)
	}
	for _, disk := range s.deps.Disks {
		free, size, err := disk.Space()
		if err != nil {
			return nil, fmt.Errorf("measuring the disk of %s: %w", disk.Folder, err)
		}
		m := &metricsv1.Disk{Folder: proto.String(disk.Folder), Free: proto.Float64(float64(free)), Size: proto.Float64(float64(size))}
		if disk.Reserve > 0 {
			m.Reserve = proto.Float64(float64(disk.Reserve))
		}
		out.Disks = append(out.Disks, m)
	}
	return out, nil
}
