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

// A Server stores content for the service, such as its database.
type Server struct {
	// Name is the store's name in the REST API.
	Name string
	// Space measures the size, and returns the maximum size, both in bytes; a maximum of 0 means
	// no limit.
	Space func(context.Context) (used, limit int64, err error)
}

// serverTime is the timeout for measuring a server.
const serverTime = 2 * time.Second

// A Disk is a disk that a process stores data on.
type Disk struct {
	// Folder is the setting that names the folder on it.
	Folder string
	// Reserve is the setting disk_reserve in bytes; 0 means none.
	Reserve int64
	// Space measures the free space and the size in bytes.
	Space func() (free, size int64, err error)
}

// storageAge is how long a measurement is cached, since each measurement walks a directory tree or
// calls servers.
const storageAge = 10 * time.Second

// A measurement holds the last result of measuring something. Use newMeasurement.
type measurement[T any] struct {
	sem  chan struct{} // capacity 1; its holder may measure
	at   time.Time     // when the measurement ended
	last T
	err  error
}

func newMeasurement[T any]() measurement[T] { return measurement[T]{sem: make(chan struct{}, 1)} }

// get returns the last result, or measures. That happens at most once per storageAge: neither the
// number of calls, nor disconnected callers, nor a failed measurement leads to more.
func (m *measurement[T]) get(ctx context.Context, now func() time.Time, measure func(context.Context) (T, error)) (out T, err error) {
	select {
	case m.sem <- struct{}{}:
		defer func() { <-m.sem }()
	case <-ctx.Done():
		return out, ctx.Err()
	}
	if m.at.IsZero() || now().Sub(m.at) >= storageAge {
		m.last, m.err = measure(context.WithoutCancel(ctx))
		m.at = now()
	}
	return m.last, m.err
}

// GetStorage returns the sizes of the stores and disks of this process.
func (s *Service) GetStorage(ctx context.Context, _ *metricsv1.GetStorageRequest) (*metricsv1.GetStorageResponse, error) {
	if err := s.authorize(ctx); err != nil {
		return nil, err
	}
	return s.storage.get(ctx, s.deps.Now, s.measure)
}

// measure returns the current sizes of the stores and disks. The size of a server that does not
// respond is unknown.
func (s *Service) measure(ctx context.Context) (*metricsv1.GetStorageResponse, error) {
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
	for _, server := range s.deps.Servers {
		m := &metricsv1.Store{Name: proto.String(server.Name)}
		limited, cancel := context.WithTimeout(ctx, serverTime)
		used, limit, err := server.Space(limited)
		cancel()
		if err == nil {
			m.Size = proto.Float64(float64(used))
		}
		if err == nil && limit > 0 {
			m.Limit = proto.Float64(float64(limit))
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
