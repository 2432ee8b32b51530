package layering_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/conda/spec"
)

// environment returns a lock of real packages, served by a channel that counts requests.
func environment(t *testing.T, asked *atomic.Int32) []spec.Record {
	t.Helper()
	files := http.FileServer(http.Dir(packages))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	found, err := filepath.Glob(packages + "/lib*.conda")
	if err != nil {
		t.Fatal(err)
	}
	var out []spec.Record
	for _, f := range found {
		rec := recordOf(t, filepath.Base(f))
		rec.URL = s.URL + "/" + rec.FileName
		out = append(out, rec)
	}
	return out
}

func newBuilder(t *testing.T, dir string) *layering.Builder {
	t.Helper()
	f := fetcher()
	f.Dir = t.TempDir()
	return &layering.Builder{Fetch: f, Store: folder(t, dir), Scratch: t.TempDir(), Concurrency: 3}
}

// TestBuilder checks that layers are in the order of the lock, are built once, and are equal
// on all workers.
func TestBuilder(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var asked atomic.Int32
	lock := environment(t, &asked)
	dir := t.TempDir()
	m := newBuilder(t, dir)
	first, err := m.Packages(ctx, lock)
	if err != nil || len(first) != len(lock) || int(asked.Load()) != len(lock) {
		t.Fatalf("%d of %d packages, %d requests: %v", len(first), len(lock), asked.Load(), err)
	}
	again := newBuilder(t, dir)
	again.Known = func(there, missing int) {
		if there != len(lock) || missing != 0 {
			t.Errorf("%d layers are there, %d are not", there, missing)
		}
	}
	second, err := again.Packages(ctx, lock)
	if diff := cmp.Diff(first, second); diff != "" || err != nil || int(asked.Load()) != len(lock) {
		t.Errorf("%d requests: %v\n%s", asked.Load(), err, diff)
	}
	elsewhere := newBuilder(t, t.TempDir())
	elsewhere.Concurrency = 1
	third, err := elsewhere.Packages(ctx, lock)
	if diff := cmp.Diff(first, third); diff != "" || err != nil {
		t.Errorf("another worker makes something else: %v\n%s", err, diff)
	}
	a, err := m.Layers(ctx, lock, first)
	if err != nil {
		t.Fatal(err)
	}
	b, err := elsewhere.Layers(ctx, lock, third)
	if diff := cmp.Diff(a, b); diff != "" || err != nil || len(a) != len(lock) {
		t.Errorf("%d layers: %v\n%s", len(a), err, diff)
	}
	left, err := os.ReadDir(m.Fetch.Dir)
	if err != nil || len(left) > 0 {
		t.Errorf("artifacts were left: %v, %v", left, err)
	}
}

// TestScope checks that a layer that was built with a login is built again for another
// scope, which needs its own login.
func TestScope(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	lock := environment(t, &asked)[:1]
	dir := t.TempDir()
	for _, c := range []struct {
		scope string
		asked int32
	}{{"ada", 1}, {"ada", 1}, {"mallory", 2}, {"", 3}} {
		m := newBuilder(t, dir)
		m.Scope = c.scope
		if _, err := m.Packages(t.Context(), lock); err != nil || asked.Load() != c.asked {
			t.Errorf("for %q: %d requests, want %d, %v", c.scope, asked.Load(), c.asked, err)
		}
	}
}
