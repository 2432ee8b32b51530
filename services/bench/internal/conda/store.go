package conda

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/services/bench/internal/must"
	condachannel "slipway.dev/services/conda/channel"
	"slipway.dev/services/conda/index"
)

const (
	// listAddress is the URL of the channel. No server listens there: the lists are read from
	// files.
	listAddress = "http://lists.bench.invalid"
	aDay        = 24 * time.Hour
)

// firstDay is the date of day 0 of the channel.
func firstDay() time.Time { return time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC) }

func listFile(dir string, day int, subdir string) string {
	return filepath.Join(dir, strconv.Itoa(day), forgeName, subdir, "repodata.json.zst")
}

// writeList writes the list of a day to a folder of lists. write writes its JSON.
func writeList(dir string, day int, subdir string, write func(*zstd.Encoder)) {
	path := listFile(dir, day, subdir)
	must.Do(os.MkdirAll(filepath.Dir(path), 0o700))
	f := must.Get(os.Create(path))
	z := must.Get(zstd.NewWriter(f))
	write(z)
	// Unwritten pages would be written during the measurement.
	must.Do(errors.Join(z.Close(), f.Sync(), f.Close()))
	date := firstDay().Add(time.Duration(day) * aDay)
	must.Do(os.Chtimes(path, date, date))
}

// A store is slipwayd's store of indexes for the channel. Instead of the network, it fetches
// the lists of the current day from a folder.
type store struct {
	*condachannel.Store
	forge condachannel.Channel
	lists string
	day   atomic.Int64
}

// openStore opens the store in dir, which fetches from the folder lists and records their
// history.
func openStore(dir, lists string) *store {
	s := &store{lists: lists}
	names := must.Get(condachannel.NewNames(listAddress, nil))
	s.forge = must.Get(names.Resolve(forgeName))
	s.Store = must.Get(condachannel.New(condachannel.Options{
		Dir: dir, Refresh: 1000 * aDay, History: 1000 * aDay, Names: names, Client: condachannel.NewClient(s),
		Metrics: prometheus.NewRegistry(), Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), Now: s.now,
	}))
	return s
}

func (s *store) now() time.Time { return firstDay().Add(time.Duration(s.day.Load()) * aDay) }

// RoundTrip implements http.RoundTripper.
func (s *store) RoundTrip(r *http.Request) (*http.Response, error) {
	return http.NewFileTransport(http.Dir(filepath.Join(s.lists, strconv.FormatInt(s.day.Load(), 10)))).RoundTrip(r)
}

// list returns the index of a folder as of a day. If the store has it from an earlier day, it
// is refreshed.
func (s *store) list(ctx context.Context, subdir string, day int) *index.Index {
	s.day.Store(int64(day))
	state := must.Get(s.Get(ctx, s.forge, subdir, condachannel.Access{After: s.now()}))
	if state.Index == nil || state.Failure != "" {
		must.Fail("the list of %s on day %d was not read: %q", subdir, day, state.Failure)
	}
	return state.Index
}

// known returns the index of a folder that an earlier process built, regardless of its age.
func (s *store) known(ctx context.Context, subdir string) *index.Index {
	state := must.Get(s.Get(ctx, s.forge, subdir, condachannel.Access{}))
	if state.Index == nil {
		must.Fail("there is no index of %s", subdir)
	}
	return state.Index
}

// sizeOf returns the total size of the files that match a pattern, in bytes.
func sizeOf(dir, pattern string) (sum int64) {
	for _, file := range must.Get(filepath.Glob(filepath.Join(dir, pattern))) {
		sum += must.Get(os.Stat(file)).Size()
	}
	return sum
}
