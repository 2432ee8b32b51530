package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/services/bench/internal/must"
)

// cpu returns the user and system time of the process in seconds, including ended threads.
// It reads the process's CPU clock (clock_getcpuclockid(3)), which has nanosecond
// resolution, while /proc/PID/stat counts hundredths of a second.
func (s *Server) cpu() float64 {
	var ts unix.Timespec
	must.Do(unix.ClockGettime(cpuClock(s.cmd.Process.Pid), &ts))
	return time.Duration(ts.Nano()).Seconds()
}

func cpuClock(pid int) int32 {
	const cpuclockSched = 2
	return int32(^pid<<3 | cpuclockSched)
}

// Watch starts a measurement. used returns the processor time in seconds of each server
// since then, 0 for a nil server.
func Watch(servers ...*Server) (used func() []float64) {
	read := func() []float64 {
		list := make([]float64, len(servers))
		for i, s := range servers {
			if s != nil {
				list[i] = s.cpu()
			}
		}
		return list
	}
	before := read()
	return func() []float64 {
		now := read()
		for i := range now {
			now[i] -= before[i]
		}
		return now
	}
}

// Memory returns the resident set in MB (10^6 bytes), and Peak its maximum since
// ForgetPeak. Own is the part of Memory that is not pages of files: how many of those the
// kernel maps depends on how it has read the program.
func (s *Server) Memory() float64 { return must.Get(Resident(s.cmd.Process.Pid, "VmRSS:")) }
func (s *Server) Peak() float64   { return must.Get(Resident(s.cmd.Process.Pid, "VmHWM:")) }
func (s *Server) Own() float64    { return must.Get(Resident(s.cmd.Process.Pid, "RssAnon:")) }

// ForgetPeak resets the peak if that is permitted.
func (s *Server) ForgetPeak() {
	if err := os.WriteFile(proc(s.cmd.Process.Pid, "clear_refs"), []byte("5"), 0); err != nil {
		fmt.Fprintln(os.Stderr, "bench: the peak of memory counts from the start:", err)
	}
}

func proc(pid int, file string) string { return fmt.Sprintf("/proc/%d/%s", pid, file) }

// Resident returns a size in MB from a process's status file, which counts in KiB.
func Resident(pid int, field string) (float64, error) {
	raw, err := os.ReadFile(proc(pid, "status"))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), field)
	words := strings.Fields(rest)
	if len(words) == 0 {
		return 0, fmt.Errorf("process %d has no %s", pid, field)
	}
	kib, err := strconv.ParseFloat(words[0], 64)
	return kib * 1024 / 1e6, err
}

// OwnCPU returns the processor time of this process.
func OwnCPU() time.Duration {
	var ts unix.Timespec
	must.Do(unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts))
	return time.Duration(ts.Nano())
}
