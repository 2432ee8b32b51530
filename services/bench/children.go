package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// childCPU is the processor time of the process's children that have ended, and of
// theirs, to the hundredth of a second.
func (s *server) childCPU() (time.Duration, error) {
	raw, err := os.ReadFile(s.proc("stat"))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return 0, fmt.Errorf("%s has %d fields", s.proc("stat"), len(fields))
	}
	user, err1 := strconv.ParseInt(fields[13], 10, 64) // cutime and cstime of proc(5)
	system, err2 := strconv.ParseInt(fields[14], 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("%s has no times: %q", s.proc("stat"), raw)
	}
	return time.Duration(user+system) * (time.Second / 100), nil
}

// childPeak is the largest resident set of any tar2sqfs below the process, in MB,
// looked at until ctx ends.
func (s *server) childPeak(ctx context.Context) float64 {
	peak := 0.0
	for pause(ctx, 10*time.Millisecond) == nil {
		lists, _ := filepath.Glob(s.proc("task/*/children")) // a thread may have ended
		for _, list := range lists {
			raw, _ := os.ReadFile(filepath.Clean(list))
			for _, id := range strings.Fields(string(raw)) {
				if name, _ := os.ReadFile("/proc/" + filepath.Clean(id) + "/comm"); strings.TrimSpace(string(name)) == "tar2sqfs" {
					mb, _ := resident("/proc/"+filepath.Clean(id)+"/status", "VmHWM:")
					peak = max(peak, mb)
				}
			}
		}
	}
	return peak
}
