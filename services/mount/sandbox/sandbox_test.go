package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway.dev/services/mount/fuse"
)

// prepareVariable is the prefix that the test binary prepares, in a namespace.
const prepareVariable = "SLIPWAY_TEST_PREPARE"

func TestMain(m *testing.M) {
	if Entered() {
		os.Exit(Enter())
	}
	if prefix := os.Getenv(prepareVariable); prefix != "" {
		if err := errors.Join(Prepare(prefix), show(prefix)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if prefix := os.Getenv(startVariable); prefix != "" {
		os.Exit(startCommand(prefix))
	}
	os.Exit(m.Run())
}

// show prints what a prepared namespace has.
func show(prefix string) error {
	fmt.Println("prefix", isFolder(prefix))
	for _, path := range strings.Fields(os.Getenv("SLIPWAY_TEST_PATHS")) {
		_, err := os.Lstat(path)
		fmt.Println(path, err == nil)
	}
	return os.WriteFile(filepath.Join(os.Getenv("SLIPWAY_TEST_FOLDER"), "large"), make([]byte, 4<<20), 0o600)
}

// prepare prepares a prefix in a namespace, and returns its output.
func prepare(t *testing.T, prefix string, paths ...string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: only root has a mount namespace without a user namespace")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{prepareVariable + "=" + prefix, "SLIPWAY_TEST_PATHS=" + strings.Join(paths, " "), "SLIPWAY_TEST_FOLDER=" + t.TempDir()}
	Detach(cmd, true)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// The root is replaced, and everything that it had is there: files, and mounts such as /proc, and space in the folder of the new root.
func TestPrefixInMissingFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out := prepare(t, "/slipway-missing/conda", file, "/proc/self/status", "/usr/bin", "/dev/null")
	for _, want := range []string{"prefix", file, "/proc/self/status", "/usr/bin", "/dev/null"} {
		if !strings.Contains(out, want+" true\n") {
			t.Errorf("%s is missing: %s", want, out)
		}
	}
}

func TestPrefixInFolder(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	other := filepath.Join(parent, "other", "file")
	if err := errors.Join(os.Mkdir(filepath.Dir(other), 0o755), os.WriteFile(other, nil, 0o600), os.Symlink("missing", filepath.Join(parent, "conda"))); err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"conda", "conda/envs/x", "new"} {
		if out := prepare(t, filepath.Join(parent, prefix), other); !strings.Contains(out, "prefix true\n") || !strings.Contains(out, other+" true\n") {
			t.Errorf("%s: %s", prefix, out)
		}
	}
}

func TestFailuresOfOtherProcesses(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		err               error
		namespace, noFUSE bool
		code              int
	}{
		{denied(fmt.Errorf("mounting: %w", unix.EACCES)), true, false, 126},
		{denied(fmt.Errorf("mounting: %w", unix.ENOMEM)), false, false, 126},
		{fmt.Errorf("%w: %w", ErrNamespace, unix.ENOSPC), true, false, 126},
		{fmt.Errorf("%w: %w", fuse.ErrNoDevice, unix.ENOENT), false, true, 126},
		{fmt.Errorf("x: %w", exec.ErrNotFound), false, false, 127},
		{fmt.Errorf("%w: x: %w", errCommand, unix.ENOENT), false, false, 127},
		{fmt.Errorf("%w: x: %w", errCommand, unix.EACCES), false, false, 126},
	} {
		var text strings.Builder
		if err := Send(&text, one.err); err != nil {
			t.Fatal(err)
		}
		err := ReceiveFailure([]byte(text.String()))
		f, ok := errors.AsType[*Failure](err)
		if !ok || err.Error() != one.err.Error() || errors.Is(err, ErrNamespace) != one.namespace || errors.Is(err, fuse.ErrNoDevice) != one.noFUSE || f.code() != one.code {
			t.Errorf("%v: %#v", one.err, err)
		}
	}
	if err := ReceiveFailure([]byte("panic")); err == nil || !strings.Contains(err.Error(), "panic") {
		t.Error(err)
	}
}

func TestInheritedFilesAreClosed(t *testing.T) {
	if os.Getenv("SLIPWAY_TEST_INHERITED") != "" {
		if err := CloseInherited(3); err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(3, &st); !errors.Is(err, unix.EBADF) {
			t.Errorf("the descriptor 3 is open: %v", err)
		}
		return
	}
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestInheritedFilesAreClosed$")
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), "SLIPWAY_TEST_INHERITED=1"), []*os.File{f}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
