package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway.dev/services/internal/testkit"
)

// A containerd is a running containerd with folders of its own.
type containerd struct{ programs, socket string }

// shortFolder returns a temporary folder for sockets, which have short paths. Mounts below it are removed
// at the end.
func shortFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, at := range slices.Backward(mountsBelow(dir, "")) {
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
				t.Errorf("unmounting %s: %v", at, err)
			}
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}

// mountsBelow returns the mounts of file systems below a folder whose type begins with a prefix.
func mountsBelow(dir, kind string) (at []string) {
	raw, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 2 && strings.HasPrefix(f[1], dir+"/") && strings.HasPrefix(f[2], kind) {
			at = append(at, f[1])
		}
	}
	return at
}

// newContainerd starts containerd, with more lines of its configuration.
func newContainerd(t *testing.T, programs, more string) containerd {
	t.Helper()
	dir := shortFolder(t)
	c := containerd{programs, filepath.Join(dir, "s")}
	config := fmt.Sprintf(`version = 3
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images", "io.containerd.nri.v1.nri"]
[grpc]
  address = %q
[ttrpc]
  address = %q
%s`, dir+"/root", dir+"/state", c.socket, c.socket+".ttrpc", more)
	if err := os.WriteFile(dir+"/config.toml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	startProgram(t, c.environ(), filepath.Join(programs, "containerd"), "--config", dir+"/config.toml")
	testkit.Until(t, "containerd responds", func() error {
		return exec.Command(filepath.Join(programs, "ctr"), "--address", c.socket, "version").Run()
	})
	return c
}

// startProgram starts a program that ends with the test, and prints its log if the test fails.
func startProgram(t *testing.T, environ []string, program string, args ...string) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %s", filepath.Base(program), log.Bytes())
		}
	})
}

func (c containerd) environ() []string {
	return append(os.Environ(), "PATH="+c.programs+":"+os.Getenv("PATH"))
}

// greet runs the program of the package greet in a container with its own name, since all daemons share the
// tree of control groups.
func (c containerd) greet(t *testing.T, image string, options ...string) {
	t.Helper()
	args := append([]string{"run", "--rm"}, options...)
	out := c.ctr(t, append(args, image, filepath.Base(filepath.Dir(c.socket)), "/opt/conda/bin/greet")...)
	if !strings.Contains(out, "/opt/conda/share/greeting: ") {
		t.Errorf("the container printed %s", out)
	}
}

// ctr runs a command of containerd's client.
func (c containerd) ctr(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(c.programs, "ctr"), append([]string{"--address", c.socket}, args...)...)
	cmd.Env = c.environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("ctr %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
