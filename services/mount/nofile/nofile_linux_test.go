package nofile_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"slipway.dev/services/mount/nofile"
)

// The limit is the one that the process was started with, and not the one that Go has set.
func TestOriginal(t *testing.T) {
	if os.Getenv("SLIPWAY_TEST_NOFILE") != "" {
		soft, hard, ok := nofile.Original()
		fmt.Println(soft, hard, ok)
		os.Exit(0)
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &now); err != nil || now.Max < 200 {
		t.Skipf("NOT TESTED: the limit is %d, %v", now.Max, err)
	}
	cmd := exec.Command("/bin/sh", "-c", `ulimit -S -n 100 && exec "$0" -test.run=^TestOriginal$`, os.Args[0])
	cmd.Env = append(os.Environ(), "SLIPWAY_TEST_NOFILE=1")
	out, err := cmd.CombinedOutput()
	if want := fmt.Sprintln(100, now.Max, true); err != nil || string(out) != want {
		t.Errorf("%q instead of %q, %v", out, want, err)
	}
}
