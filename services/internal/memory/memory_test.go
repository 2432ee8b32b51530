package memory

import (
	"testing"
	"testing/fstest"
	"time"
)

func TestControlGroup(t *testing.T) {
	t.Parallel()
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for name, tc := range map[string]struct {
		files fstest.MapFS
		want  int64
	}{
		"none":       {fstest.MapFS{}, 0},
		"version 2":  {fstest.MapFS{"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("1000\n")}, 1000},
		"no limit":   {fstest.MapFS{"proc/self/cgroup": file("0::/a\n"), "sys/fs/cgroup/a/memory.max": file("max\n")}, 0},
		"above":      {fstest.MapFS{"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("1000\n"), "sys/fs/cgroup/a/memory.max": file("500\n")}, 500},
		"namespaced": {fstest.MapFS{"proc/self/cgroup": file("0::/../../x\n"), "sys/fs/cgroup/memory.max": file("700\n")}, 700},
		"version 1": {fstest.MapFS{
			"proc/self/cgroup": file("5:cpu,memory:/d\n1:name=systemd:/d\n"),
			"sys/fs/cgroup/memory/d/memory.limit_in_bytes": file("300\n"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n"),
		}, 300},
	} {
		if got := ControlGroup(tc.files); got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
	}
}

// TestGuard checks that garbage is collected before a call is rejected, but not too often.
func TestGuard(t *testing.T) {
	t.Parallel()
	now, use := time.Now(), int64(0)
	measured := 0
	g := &Guard{limit: 1000, now: func() time.Time { return now }, used: func() int64 { measured++; return use }}
	for _, step := range []struct {
		use        int64
		pass       time.Duration
		busy, full bool
		measured   int
	}{
		{use: 100, measured: 1},
		{use: 990, measured: 1}, // measured a moment ago
		{use: 900, pass: measureEvery, busy: true, measured: 3},
		{use: 960, pass: measureEvery, busy: true, full: true, measured: 4},
		{use: 200, pass: measureEvery, measured: 5},
	} {
		now, use = now.Add(step.pass), step.use
		if busy, full := g.Over(Busy), g.Over(Full); busy != step.busy || full != step.full || measured != step.measured {
			t.Errorf("%+v: got %v, %v, measured %d times", step, busy, full, measured)
		}
	}
	if (&Guard{}).Over(0) {
		t.Error("a guard without a limit refuses")
	}
	if used() <= 0 || resident() <= 0 {
		t.Errorf("measured %d, resident %d", used(), resident())
	}
}
