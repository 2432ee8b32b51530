package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// cpu is the processor time that the process has used, user and system, threads
// that ended included. Exact to the nanosecond: it is the process's CPU clock
// (clock_getcpuclockid(3)), where /proc/PID/stat counts in hundredths of a second.
func (s *server) cpu() (time.Duration, error) {
	const cpuclockSched = 2
	id := ^s.cmd.Process.Pid<<3 | cpuclockSched
	var ts syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(id), uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("reading the CPU clock of %s: %w", s.name, errno)
	}
	return time.Duration(ts.Nano()), nil
}

// memory is the resident set in MB (10^6 bytes).
func (s *server) memory() (float64, error) { return s.status("VmRSS:") }

// peak is the largest resident set since forgetPeak, in MB.
func (s *server) peak() (float64, error) { return s.status("VmHWM:") }

// forgetPeak starts the peak anew.
func (s *server) forgetPeak() error {
	return os.WriteFile(s.proc("clear_refs"), []byte("5"), 0)
}

func (s *server) proc(file string) string {
	return fmt.Sprintf("/proc/%d/%s", s.cmd.Process.Pid, file)
}

func (s *server) status(field string) (float64, error) { return resident(s.proc("status"), field) }

// resident reads a size in MB from a /proc/PID/status, which counts in KiB.
func resident(path, field string) (float64, error) {
	raw, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), field)
	words := strings.Fields(rest)
	if len(words) == 0 {
		return 0, fmt.Errorf("%s has no %s", path, field)
	}
	kib, err := strconv.ParseFloat(words[0], 64)
	return kib * 1024 / 1e6, err
}

// meter adds up what several servers use.
type meter struct {
	servers []*server
	before  []time.Duration
}

// watch begins to measure.
func watch(servers ...*server) (*meter, error) {
	m := &meter{servers: servers}
	var err error
	m.before, err = m.read()
	return m, err
}

func (m *meter) read() ([]time.Duration, error) {
	out := make([]time.Duration, len(m.servers))
	for i, s := range m.servers {
		var err error
		if out[i], err = s.cpu(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// used is what each server has used since watch, in their order.
func (m *meter) used() ([]time.Duration, error) {
	now, err := m.read()
	for i := range now {
		now[i] -= m.before[i]
	}
	return now, err
}
