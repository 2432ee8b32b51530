// Package memory determines the memory limit of this process, and whether the process is
// near it. The kernel kills a process that exceeds it, in the middle of all requests, so
// some requests are rejected before that.
package memory

import (
	"io/fs"
	"math"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// collectAt is the share of the limit at which the garbage collector works harder. The rest is
// for memory that it does not manage.
const collectAt = 0.9

// Apply determines the limit of this process in bytes and sets it for the garbage
// collector: the configured value, or else GOMEMLIMIT, or else the limit of the control
// group. 0 is no limit. The argument root is the root of the file system.
func Apply(set int64, root fs.FS) int64 {
	if set > 0 {
		debug.SetMemoryLimit(int64(float64(set) * collectAt))
		return set
	}
	if env := debug.SetMemoryLimit(-1); env != math.MaxInt64 {
		return env
	}
	limit := ControlGroup(root)
	if limit > 0 {
		debug.SetMemoryLimit(int64(float64(limit) * collectAt))
	}
	return limit
}

// ControlGroup returns the tightest memory limit of this process's control group and its
// parents, of either version, in bytes, or 0 without a limit.
func ControlGroup(root fs.FS) int64 {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	limit := int64(0)
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		switch {
		case fields[0] == "0":
			limit = tighter(limit, climb(root, "sys/fs/cgroup", fields[2], "memory.max"))
		case strings.Contains(","+fields[1]+",", ",memory,"):
			limit = tighter(limit, climb(root, "sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes"))
		}
	}
	return limit
}

// climb reads the limits of a group and its parents. In a container the path may be a path of
// the host, of which only the top folder is visible.
func climb(root fs.FS, mount, group, file string) int64 {
	limit := int64(0)
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		if text, err := fs.ReadFile(root, path.Join(mount, group, file)); err == nil {
			limit = tighter(limit, parse(string(text)))
		}
		if group == "/" {
			return limit
		}
	}
}

// parse parses a limit. In version 1, a number near the largest integer means no limit.
func parse(s string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil || n <= 0 || n >= math.MaxInt64>>8 {
		return 0
	}
	return n
}

func tighter(a, b int64) int64 {
	switch {
	case a == 0:
		return b
	case b == 0:
		return a
	}
	return min(a, b)
}
