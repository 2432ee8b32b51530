package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/internal/testkit"
)

// TestLimitsAreWritten checks the written limits for both versions of control groups.
func TestLimitsAreWritten(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		o    Options
		v2   bool
		want map[string]string
	}{
		{"version 1", Options{Memory: 64 << 20, Pids: 50, CPUs: 1.5}, false, map[string]string{
			"memory/memory.limit_in_bytes": "67108864", "pids/pids.max": "50", "cpu/cpu.cfs_quota_us": "150000",
		}},
		{"version 2", Options{Memory: 64 << 20, Pids: 50, CPUs: 1.5}, true, map[string]string{
			"memory.max": "67108864", "memory.swap.max": "0", "pids.max": "50", "cpu.max": "150000 100000",
		}},
		{"version 1, a part of a processor alone", Options{CPUs: 0.05}, false, map[string]string{"cpu/cpu.cfs_quota_us": "5000"}},
		{"version 2, a part of a processor alone", Options{CPUs: 0.05}, true, map[string]string{"cpu.max": "5000 100000"}},
		{"no limit", Options{}, true, map[string]string{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			if tc.v2 {
				if err := set(root, "cgroup.controllers", "cpu memory pids"); err != nil {
					t.Fatal(err)
				}
			}
			g := newGroups(root, testkit.Log(t))
			parent := g.make("0123", "build", limitsOf(tc.o)).path()
			got := map[string]string{}
			for _, l := range limitsOf(tc.o) {
				if !tc.v2 {
					read(t, got, l.controller+"/"+l.file1, filepath.Join(root, l.controller, parent, l.file1))
					continue
				}
				read(t, got, l.file2, filepath.Join(root, parent, l.file2))
				if l.controller == "memory" {
					read(t, got, "memory.swap.max", filepath.Join(root, parent, "memory.swap.max"))
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || parent != "/slipway/0123-0/build" {
				t.Errorf("the group is %q: %s", parent, diff)
			}
		})
	}
}

// TestGroupsAreNamedAlike checks that consecutive builds get the same group, and that
// concurrent builds, also of two daemons, and builds of other scopes get different ones.
func TestGroupsAreNamedAlike(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	groups := func() *groups { return newGroups(root, testkit.Log(t)) }
	limits := limitsOf(Options{Pids: 50})
	one, other := groups(), groups()
	first, second, third := one.make("us", "build", limits), other.make("us", "build", limits), one.make("them", "build", limits)
	daemon := one.make("buildkitd", "daemon", memoryLimit(1<<30))
	// Only the kernel can remove a group with its files.
	if err := os.Remove(filepath.Join(root, "pids", first.path(), "pids.max")); err != nil {
		t.Fatal(err)
	}
	first.release()
	again := groups().make("us", "build", limits) // removes unused slots
	for got, want := range map[string]string{
		first.path(): "/slipway/us-0/build", second.path(): "/slipway/us-1/build", third.path(): "/slipway/them-0/build",
		again.path(): "/slipway/us-0/build", daemon.path(): "/slipway/buildkitd-0/daemon",
	} {
		if got != want {
			t.Errorf("a group is %q, want %q", got, want)
		}
	}
}

func read(t *testing.T, into map[string]string, name, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	into[name] = string(raw)
}

// TestGroupMemory reads the memory for both versions of control groups.
func TestGroupMemory(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"cache 7\nrss 5\ntotal_cache 9\ntotal_rss 528482304\n": 528482304,
		"anon 1234\nfile 99\n":                                 1234,
		"anon many\n":                                          0,
		"":                                                     0,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "memory.stat"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := (&group{dirs: []string{t.TempDir(), dir}}).pinnedMemory(); got != want {
			t.Errorf("%q is %d bytes, want %d", text, got, want)
		}
	}
	if (*group)(nil).pinnedMemory() != 0 {
		t.Error("no group holds something")
	}
}
