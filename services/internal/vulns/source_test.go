package vulns_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/vulns"
)

// A logBuffer is a log that tests read. It is safe for concurrent use.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// started returns a running source that reads its location every few milliseconds, its log and its metrics.
func started(t *testing.T, location, dir string) (*vulns.Source, *logBuffer, *prometheus.Registry) {
	t.Helper()
	log, reg := &logBuffer{}, prometheus.NewRegistry()
	s, err := vulns.NewSource(vulns.Options{
		Location: location, Dir: dir, Refresh: 5 * time.Millisecond, Client: http.DefaultClient, Metrics: reg, Log: slog.New(slog.NewTextHandler(log, nil)), Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return s, log, reg
}

// found returns the ids that the current database has for a package.
func found(t *testing.T, s *vulns.Source, url string) (string, error) {
	t.Helper()
	db, release, err := s.Acquire()
	if err != nil {
		return "", err
	}
	defer release()
	list, err := db.Find(t.Context(), components(url))
	var ids []string
	for _, f := range list {
		ids = append(ids, f.ID)
	}
	return strings.Join(ids, " "), err
}

// until waits until a package has the given vulnerabilities.
func until(t *testing.T, s *vulns.Source, url, want string) {
	t.Helper()
	testkit.Until(t, "the source has read its location", func() error {
		if got, err := found(t, s, url); err != nil || got != want {
			return fmt.Errorf("%q, %w", got, err)
		}
		return nil
	})
}

const evil = "pkg:pypi/a@1"

// TestFolder checks that new archives of a folder are used, and that damaged ones are not.
func TestFolder(t *testing.T) {
	t.Parallel()
	folder, dir := t.TempDir(), t.TempDir()
	s, log, reg := started(t, folder, dir)
	testkit.Until(t, "the source has read its location", func() error {
		if !strings.Contains(log.String(), "the folder has no archive") {
			return errors.New("the empty folder is not logged")
		}
		return nil
	})
	if _, _, err := s.Acquire(); !errors.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	at := write(t, folder, "PyPI", osv("CVE-1", "", pkg("PyPI", "a", "0", "2")))
	until(t, s, evil, "CVE-1")
	if err := os.WriteFile(at+".new", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(at+".new", at); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the source has read its location", func() error {
		if !strings.Contains(log.String(), "not a valid zip") {
			return errors.New("the damaged archive is not logged")
		}
		return nil
	})
	failed := func() float64 {
		for _, m := range gather(t, reg) {
			if strings.HasPrefix(m, "failed ") {
				var n float64
				_, _ = fmt.Sscan(strings.TrimPrefix(m, "failed "), &n)
				return n
			}
		}
		return 0
	}
	before := failed()
	testkit.Until(t, "the source has read its location", func() error {
		if failed() < before+3 {
			return errors.New("the damaged archive is not read again")
		}
		return nil
	})
	if got, err := found(t, s, evil); got != "CVE-1" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if n := strings.Count(log.String(), "is not a valid zip"); n != 1 {
		t.Errorf("the damaged archive is logged %d times", n)
	}
	write(t, folder, "PyPI", osv("CVE-2", "", pkg("PyPI", "a", "0", "2")))
	until(t, s, evil, "CVE-2")
	if !strings.Contains(log.String(), "was read") || testutil.CollectAndCount(s) != 3 {
		t.Error(log.String())
	}
	testkit.Until(t, "the source has read its location", func() error {
		if files, err := filepath.Glob(filepath.Join(dir, "*.db")); err != nil || len(files) != 1 {
			return fmt.Errorf("%q, %w", files, err)
		}
		return nil
	})
	// Another process has the data immediately, once the state is stored.
	testkit.Until(t, "the state is stored", func() error {
		db, release, err := s.Acquire()
		if err != nil {
			return err
		}
		defer release()
		raw, err := os.ReadFile(filepath.Join(dir, "state.json"))
		if err != nil || !bytes.Contains(raw, []byte(db.Version())) {
			return fmt.Errorf("%s, %w", raw, err)
		}
		return nil
	})
	again, err := vulns.NewSource(vulns.Options{Location: folder, Dir: dir, Refresh: time.Hour, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := found(t, again, evil); got != "CVE-2" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	// A damaged database is created again.
	files, err := filepath.Glob(filepath.Join(dir, "*.db"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0]+".new", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(files[0]+".new", files[0]); err != nil {
		t.Fatal(err)
	}
	third, _, _ := started(t, folder, dir)
	until(t, third, evil, "CVE-2")
}

// gather returns the counts of outcomes.
func gather(t *testing.T, reg *prometheus.Registry) []string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				out = append(out, fmt.Sprint(l.GetValue(), " ", m.GetCounter().GetValue()))
			}
		}
	}
	return out
}

// TestServer checks that archives of a web server are fetched when they change.
func TestServer(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, folder, "PyPI", osv("CVE-1", "", pkg("PyPI", "a", "0", "2")))
	write(t, folder, "npm", osv("CVE-9", "", pkg("npm", "a", "0", "2")))
	var bodies, status atomic.Int64
	files := http.FileServer(http.Dir(folder))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if code := status.Load(); code != 0 {
			w.WriteHeader(int(code))
			return
		}
		if info, err := os.Stat(filepath.Join(folder, filepath.FromSlash(r.URL.Path))); err == nil {
			w.Header().Set("Etag", fmt.Sprintf(`"%d"`, info.ModTime().UnixNano()))
			if r.Header.Get("If-None-Match") == "" || r.Header.Get("If-None-Match") != w.Header().Get("Etag") {
				bodies.Add(1)
			}
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	s, log, reg := started(t, server.URL, dir)
	until(t, s, evil, "CVE-1")
	until(t, s, "pkg:npm/a@1", "CVE-9")
	testkit.Until(t, "the source has read its location", func() error {
		if m := strings.Join(gather(t, reg), ", "); !strings.Contains(m, "unchanged ") || strings.Contains(m, "unchanged 0") {
			return errors.New(m)
		}
		return nil
	})
	if n := bodies.Load(); n != 2 {
		t.Errorf("%d archives were fetched", n)
	}
	at := filepath.Join(folder, "PyPI", "all.zip")
	if err := os.WriteFile(at+".new", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(at+".new", at); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the source has read its location", func() error {
		if !strings.Contains(log.String(), "not a valid zip") {
			return errors.New(log.String())
		}
		return nil
	})
	status.Store(http.StatusInternalServerError)
	testkit.Until(t, "the source has read its location", func() error {
		if !strings.Contains(log.String(), "status 500") {
			return errors.New(log.String())
		}
		return nil
	})
	until(t, s, evil, "CVE-1")
	status.Store(0)
	write(t, folder, "PyPI", osv("CVE-2", "", pkg("PyPI", "a", "0", "2")))
	until(t, s, evil, "CVE-2")
	until(t, s, "pkg:npm/a@1", "CVE-9")
	// A stored archive that is damaged is fetched again.
	if err := os.WriteFile(filepath.Join(dir, "npm.zip"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, folder, "PyPI", osv("CVE-3", "", pkg("PyPI", "a", "0", "2")))
	until(t, s, evil, "CVE-3")
	until(t, s, "pkg:npm/a@1", "CVE-9")
	// An archive that the server no longer has is still used.
	if err := os.Remove(filepath.Join(folder, "npm", "all.zip")); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the missing archive is logged", func() error {
		if !strings.Contains(log.String(), "no longer has the archive of npm") {
			return errors.New(log.String())
		}
		return nil
	})
	write(t, folder, "PyPI", osv("CVE-4", "", pkg("PyPI", "a", "0", "2")))
	until(t, s, evil, "CVE-4")
	until(t, s, "pkg:npm/a@1", "CVE-9")
}

// TestSwap checks that calls use one database while it is replaced.
func TestSwap(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write(t, folder, "PyPI", osv("CVE-0", "", pkg("PyPI", "a", "0", "2")))
	s, _, _ := started(t, folder, t.TempDir())
	until(t, s, evil, "CVE-0")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if got, err := found(t, s, evil); err != nil || !strings.HasPrefix(got, "CVE-") {
					t.Errorf("%q, %v", got, err)
					return
				}
			}
		})
	}
	for i := range 5 {
		write(t, folder, "PyPI", osv(fmt.Sprintf("CVE-%d", i+1), "", pkg("PyPI", "a", "0", "2")))
		until(t, s, evil, fmt.Sprintf("CVE-%d", i+1))
	}
	cancel()
	wg.Wait()
}

// TestNoSource checks what is returned without a location.
func TestNoSource(t *testing.T) {
	t.Parallel()
	s, err := vulns.NewSource(vulns.Options{Metrics: prometheus.NewRegistry(), Refresh: time.Hour, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*vulns.Source{nil, s} {
		if _, _, err := s.Acquire(); !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "scan_database") || s.IsConfigured() || s.VEX() != nil {
			t.Error(err)
		}
	}
	at := filepath.Join(t.TempDir(), "x.json")
	if _, err := vulns.NewSource(vulns.Options{VEX: []string{at}, Metrics: prometheus.NewRegistry()}); err == nil {
		t.Error("a missing document is accepted")
	}
}
