package main

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		in   []float64
		want float64
	}{
		{"none", nil, 0},
		{"one", []float64{3}, 3},
		{"odd", []float64{9, 1, 5}, 5},
		{"even", []float64{4, 1, 3, 2}, 2.5},
	} {
		if got := median(c.in); got != c.want {
			t.Errorf("%s: %g, want %g", c.name, got, c.want)
		}
	}
}

func TestRatioIsOfRoundsNotOfMedians(t *testing.T) {
	t.Parallel()
	r := results{"a": {{rate: 10}, {rate: 100}, {rate: 30}}, "b": {{rate: 5}, {rate: 50}, {rate: 10}}}
	if got := r.ratio("a", "b", rate); got != 2 {
		t.Errorf("%g, want 2", got)
	}
	if got := r.difference("a", "b", rate); got != 20 {
		t.Errorf("the difference is %g, want 20", got)
	}
}

func TestBars(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bar   bar
		value float64
		text  string
		met   bool
	}{
		{atMost(60), 60, "<= 60", true},
		{atMost(60), 60.0001, "<= 60", false},
		{atLeast(0.9), 0.9, ">= 0.9", true},
		{atLeast(0.9), 0.8999999, ">= 0.9", false},
		{atMost(2), math.NaN(), "<= 2", false},
	} {
		s := (&report{}).sheet("x")
		s.hold("m", c.value, "u", c.bar)
		f := s.report.Figures[0]
		if f.Bar != c.text || *f.Met != c.met {
			t.Errorf("%v: %q %t, want %q %t", c.value, f.Bar, *f.Met, c.text, c.met)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]repository{
		"127.0.0.1:80/wt/abc/bench/app:1": {"127.0.0.1:80", "wt/abc/bench/app", "1"},
		"host/app@sha256:00":              {"host", "app", "sha256:00"},
	} {
		if got := at(in); got != want {
			t.Errorf("%s: %+v, want %+v", in, got, want)
		}
	}
}

func TestLoadCountsEveryCall(t *testing.T) {
	t.Parallel()
	var answered atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/good" || r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusTeapot)
		}
		answered.Add(1)
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(server.Close)
	good := load{call: call{http.MethodPost, server.URL + "/good", "{}", "secret"}, workers: 3, count: 100}
	s, err := good.run(t.Context())
	if err != nil || s.rate <= 0 || s.p50 <= 0 || s.p99 < s.p50 || answered.Load() != 100 {
		t.Errorf("%+v %v after %d answers", s, err, answered.Load())
	}
	paced := good
	paced.count, paced.every = 10, time.Millisecond
	if s, err := paced.run(t.Context()); err != nil || s.rate > 1200 {
		t.Errorf("one call a millisecond: %+v %v", s, err)
	}
	bad := load{call: get(server.URL + "/bad"), workers: 3, count: 100}
	if _, err := bad.run(t.Context()); err == nil || !strings.Contains(err.Error(), "418") {
		t.Errorf("a wrong status gave %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := good.run(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end it gave %v", err)
	}
}

func TestBlobsAreChecked(t *testing.T) {
	t.Parallel()
	const content, digest = "hello", "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, content) }))
	t.Cleanup(server.Close)
	if n, err := fetch(t.Context(), server.Client(), server.URL+"/"+digest, true); err != nil || n != 5 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := fetch(t.Context(), server.Client(), server.URL+"/sha256:00", true); err == nil {
		t.Error("other content counts as good")
	}
}

func TestFailureEndsItsSection(t *testing.T) {
	t.Parallel()
	w, err := newWorld(t.Context(), settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.close() })
	report := &report{}
	broken := section{"x", func(_ *world, s *sheet) {
		s.tell("before", 1, "")
		check(os.ErrNotExist)
		s.tell("after", 1, "")
	}}
	if err := broken.run(w, report.sheet("x")); !errors.Is(err, os.ErrNotExist) || len(report.Figures) != 1 {
		t.Errorf("%v after %d figures", err, len(report.Figures))
	}
}

func TestFleetLeavesNothing(t *testing.T) {
	t.Parallel()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("there is no sleep here")
	}
	f := fleet{logs: t.TempDir()}
	ready := func(context.Context) error { return nil }
	s, err := f.start(t.Context(), command{name: "sleep", path: sleep, args: []string{"60"}, ready: ready})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.cpu()
	if mb := s.memory(); mb <= 0 {
		t.Errorf("memory: %g", mb)
	}
	f.stopAll()
	if err := syscall.Kill(s.cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process is still there: %v", err)
	}
	if _, err := f.start(t.Context(), command{name: "sleep", path: sleep, args: []string{"0"}, ready: s.dead}); err == nil {
		t.Error("a server that ended counts as started")
	}
}

// dead is a server that is never ready.
func (s *server) dead(context.Context) error { return errors.New("never") }

func TestSectionsByName(t *testing.T) {
	t.Parallel()
	if all, err := choose(nil); err != nil || len(all) != len(sections()) {
		t.Errorf("%d sections, %v", len(all), err)
	}
	if two, err := choose([]string{"submit", "tag"}); err != nil || len(two) != 2 {
		t.Errorf("%d sections, %v", len(two), err)
	}
	if _, err := choose([]string{"nothing"}); err == nil {
		t.Error("an unknown section was accepted")
	}
}
