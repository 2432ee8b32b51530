package process

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// TreeCPU returns the processor time of the process and its descendants in seconds.
func (s *Server) TreeCPU() float64 { return treeCPU(s.cmd.Process.Pid) }

// treeCPU returns the processor time of a process and its descendants in seconds. The part of
// ended descendants is exact to a hundredth of a second. It returns 0 if the process has
// ended.
func treeCPU(pid int) (sum float64) {
	var clock unix.Timespec
	if unix.ClockGettime(cpuClock(pid), &clock) == nil {
		sum = time.Duration(clock.Nano()).Seconds()
	}
	raw, _ := os.ReadFile(proc(pid, "stat"))
	_, rest, _ := strings.Cut(string(raw), ") ")
	if fields := strings.Fields(rest); len(fields) > 14 {
		user, _ := strconv.ParseFloat(fields[13], 64) // cutime and cstime of proc(5)
		system, _ := strconv.ParseFloat(fields[14], 64)
		sum += (user + system) / 100
	}
	threads, _ := filepath.Glob(proc(pid, "task/*/children"))
	for _, thread := range threads {
		list, _ := os.ReadFile(filepath.Clean(thread))
		for _, field := range strings.Fields(string(list)) {
			if child, err := strconv.Atoi(field); err == nil {
				sum += treeCPU(child)
			}
		}
	}
	return sum
}
