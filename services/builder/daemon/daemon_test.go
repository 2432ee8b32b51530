package daemon_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/builder/daemon"
	"slipway.dev/services/internal/testkit"
)

// inChild is set in the process that a test kills.
const inChild = "SLIPWAY_TEST_DAEMON_DIR"

func options(t testing.TB, dir string) daemon.Options {
	return daemon.Options{Dir: dir, Log: testkit.Log(t), Egress: func(context.Context, string, string) (net.Conn, error) {
		return nil, net.ErrClosed
	}}
}

// TestChild is a helper process: it runs a daemon until it is killed.
func TestChild(t *testing.T) {
	dir := os.Getenv(inChild)
	if dir == "" {
		t.Skip("only as a child")
	}
	if _, err := daemon.Start(context.Background(), options(t, dir)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
}

func running(dir string) bool {
	out, _ := exec.Command("ps", "-eo", "args").Output()
	return strings.Contains(string(out), "--config "+dir)
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	testkit.Until(t, what, func() error {
		if !is() {
			return errors.New("not yet")
		}
		return nil
	})
}

func TestDaemonDiesWithItsParent(t *testing.T) {
	testkit.Builders(t)
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), inChild+"="+dir)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs", func() bool { return running(dir) })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "it is gone", func() bool { return !running(dir) })
}

func TestDaemonThatCannotRun(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := daemon.Start(t.Context(), options(t, t.TempDir())); err == nil || !strings.Contains(err.Error(), "make builder") {
		t.Errorf("got %v", err)
	}
}

// TestDaemonThatEnds checks that a daemon which exits immediately is reported.
func TestDaemonThatEnds(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	bin := t.TempDir()
	for name, script := range map[string]string{
		"buildkitd": "#!/bin/sh\necho 'buildkitd: the disk is full' >&2\nexit 1\n", "runc": "#!/bin/sh\necho runc version 1.3.3\n",
		"slipway-runc": "#!/bin/sh\n",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	d, err := daemon.Start(t.Context(), options(t, t.TempDir()))
	if err != nil {
		t.Skipf("this machine allows no sandbox: %v", err)
	}
	defer d.Close()
	eventually(t, "the problem is told", func() bool {
		_, err := d.Address()
		return err != nil && strings.Contains(err.Error(), "the disk is full")
	})
}
