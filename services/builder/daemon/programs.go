package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// programs are the programs that builds need.
type programs struct {
	daemon, wrapper, runtime string // paths
	version                  string // of the runtime, as it reports it
}

// findPrograms finds them. runtime is the path of the runc to use; "" accepts any that is
// new enough.
func findPrograms(runtime string) (p programs, err error) {
	if p.daemon, err = find("buildkitd"); err != nil {
		return p, errors.New("buildkitd is neither beside the program nor on PATH: run `make builder`, or set buildkit_addr")
	}
	if p.wrapper, err = find("slipway-runc"); err != nil {
		return p, errors.New("slipway-runc is neither beside the program nor on PATH: run `make build`")
	}
	if runtime != "" {
		p.runtime = runtime
		p.version, err = versionOf(runtime)
		return p, err
	}
	p.runtime, p.version, err = findRuntime()
	return p, err
}

// find finds a program next to this one, or else on PATH.
func find(name string) (string, error) {
	if all := candidates(name); len(all) > 0 {
		return all[0], nil
	}
	return "", os.ErrNotExist
}

// candidates returns the programs of a name: next to this one, then on PATH.
func candidates(name string) (out []string) {
	self, _ := os.Executable()
	for _, dir := range append([]string{filepath.Dir(self)}, filepath.SplitList(os.Getenv("PATH"))...) {
		path, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 && !info.IsDir() {
			out = append(out, path)
		}
	}
	return out
}

// findRuntime finds the first runc that is new enough.
func findRuntime() (path, version string, err error) {
	var old []string
	for _, path := range append(candidates("buildkit-runc"), candidates("runc")...) {
		version, err := versionOf(path)
		if err != nil {
			old = append(old, fmt.Sprintf("%s does not report its version", path))
			continue
		}
		if safe(version) {
			return path, version, nil
		}
		old = append(old, fmt.Sprintf("%s is %s", path, version))
	}
	if len(old) == 0 {
		return "", "", errors.New("runc is neither beside the program nor on PATH: run `make builder`, or install it")
	}
	return "", "", fmt.Errorf("every runc here is too old to be trusted with steps of untrusted users (%s): it must be 1.2.8, 1.3.3, 1.4.0 or newer; "+
		"run `make builder`, or set runc_path to one whose distribution has fixed CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881",
		strings.Join(old, ", "))
}

// versionOf returns the version of a runc, for example "1.3.3".
func versionOf(path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s cannot be run: %w", path, err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	version, ok := strings.CutPrefix(first, "runc version ")
	if !ok {
		return "", fmt.Errorf("%s is not runc", path)
	}
	return strings.TrimSpace(version), nil
}

var versionPattern = regexp.MustCompile(`^(\d+)\.(\d+)\.(\d+)(-rc\.?(\d+))?`)

// safe reports whether a version of runc has no known container escape. Up to 1.2.7, 1.3.2
// and 1.4.0-rc.2 a step could write to the host's /proc (CVE-2025-31133, CVE-2025-52565,
// CVE-2025-52881). Up to 1.1.11 it could find the host's files through a file descriptor
// (CVE-2024-21626).
func safe(version string) bool {
	m := versionPattern.FindStringSubmatch(version)
	if m == nil {
		return false
	}
	var n [6]int
	for i := range m {
		n[i], _ = strconv.Atoi(m[i])
	}
	major, minor, patch, candidate := n[1], n[2], n[3], n[5]
	switch {
	case major != 1:
		return major > 1
	case minor == 2:
		return patch >= 8
	case minor == 3:
		return patch >= 3
	case minor == 4 && patch == 0 && m[4] != "":
		return candidate >= 3
	default:
		return minor >= 4
	}
}
