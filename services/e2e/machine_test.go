package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A startedProcess identifies a process by its id and start time, since ids are reused.
type startedProcess struct {
	pid  int
	name string
	at   string
}

func (b startedProcess) lives() bool { now, ok := lookAt(b.pid); return ok && now.at == b.at }

// lookAt returns a running process.
func lookAt(pid int) (startedProcess, bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return startedProcess{}, false
	}
	begin, rest, ok := strings.Cut(string(raw), ") ")
	f := strings.Fields(rest)
	if !ok || len(f) < 20 || f[0] == "Z" {
		return startedProcess{}, false
	}
	return startedProcess{pid, begin[strings.IndexByte(begin, '(')+1:], f[19]}, true
}

// descendants returns all processes that a process has started directly or indirectly.
func descendants(pid int) (out []startedProcess) {
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", next[0]))
		for _, list := range lists {
			raw, _ := os.ReadFile(list)
			for _, field := range strings.Fields(string(raw)) {
				child, _ := strconv.Atoi(field)
				if p, ok := lookAt(child); ok {
					out, next = append(out, p), append(next, child)
				}
			}
		}
	}
	return out
}

// groups returns the control groups of builds.
func groups() (out []string) {
	for _, where := range []string{"/sys/fs/cgroup/slipway/*/build", "/sys/fs/cgroup/*/slipway/*/build"} {
		all, _ := filepath.Glob(where)
		out = append(out, all...)
	}
	return out
}

// groupsInUse returns the control groups of builds that contain processes, directly or below.
func groupsInUse() (out []string) {
	for _, group := range groups() {
		lists, _ := filepath.Glob(filepath.Join(group, "*", "cgroup.procs"))
		for _, list := range append(lists, filepath.Join(group, "cgroup.procs")) {
			if raw, _ := os.ReadFile(list); len(raw) > 0 {
				out = append(out, list)
			}
		}
	}
	return out
}
