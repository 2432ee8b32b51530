package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// startVariable is the prefix of a command that the test binary starts.
const startVariable = "SLIPWAY_TEST_START"

// startCommand starts the command of the arguments with the mount of descriptor 3, and returns its exit code.
func startCommand(prefix string) int {
	tree := os.NewFile(3, "mount")
	unix.CloseOnExec(3)
	env := []string{"PATH=" + os.Getenv("SLIPWAY_TEST_PATH"), "A=b"}
	p, err := Start(Command{Prefix: prefix, Args: os.Args[1:], Env: env, Dir: os.Getenv("SLIPWAY_TEST_DIR")}, tree)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if p.script == nil {
		fmt.Println("this program was started again")
		return 1
	}
	code, err := p.Wait()
	if err != nil {
		fmt.Println(err)
	}
	return code
}

// A direct is a command that is started without starting this program again.
type direct struct {
	prefix, path, dir string
	user              uint32
	args              []string
}

// run returns the output and the exit code of the command. Its environment is a folder with the file tool.
func (d direct) run(t *testing.T) (string, int) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: only root can clone a mount here")
	}
	folder := openFolder(t)
	// Another process writes the programs: one that this process forks meanwhile would have them open, so that they could not be executed.
	const programs = `cp "$0" program && printf '#!/bin/sh\necho tool $A "$@"\n' > tool && chmod 755 program tool`
	write := exec.Command("/bin/sh", "-c", programs, "/proc/"+strconv.Itoa(os.Getpid())+"/exe")
	write.Dir = folder
	if out, err := write.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, folder, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	tree := os.NewFile(uintptr(fd), "mount")
	defer func() { _ = tree.Close() }()
	cmd := exec.Command("/bin/sh", append([]string{"-c", `ulimit -S -n 100; trap '' HUP; exec "$0" "$@"`, filepath.Join(folder, "program")}, d.args...)...)
	cmd.Env = []string{startVariable + "=" + d.prefix, "SLIPWAY_TEST_PATH=" + d.path, "SLIPWAY_TEST_DIR=" + d.dir}
	cmd.ExtraFiles = []*os.File{tree}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: d.user, Gid: d.user}}
	out, err := cmd.CombinedOutput()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// openFolder returns a temporary folder that all users can enter.
func openFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for dir := folder; dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// newPrefix returns a folder that does not exist, in one with other files.
func newPrefix(t *testing.T) string {
	t.Helper()
	parent := openFolder(t)
	for _, err := range []error{
		os.Mkdir(filepath.Join(parent, "folder"), 0o755), os.WriteFile(filepath.Join(parent, "folder", "file"), nil, 0o644),
		os.WriteFile(filepath.Join(parent, "file"), []byte("content\n"), 0o644), os.Symlink("file", filepath.Join(parent, "link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(parent, "a", "b")
}

// The command is the same user without capabilities, and has the limits and signals of the caller, and the files beside the prefix.
func TestCommandHasNoPrivileges(t *testing.T) {
	t.Parallel()
	prefix := newPrefix(t)
	parent := filepath.Dir(filepath.Dir(prefix))
	script := `id -u; ulimit -S -n; grep -E '^(Cap(Inh|Prm|Eff|Amb)|SigBlk|SigIgn):' /proc/self/status; cat ` + parent + `/link; ls ` + parent + ` ` + parent + `/folder; ` + prefix + `/tool x`
	const none = "0000000000000000"
	// The caller of this test may ignore more signals.
	ignored, err := exec.Command("/bin/sh", "-c", `trap '' HUP; exec grep ^SigIgn: /proc/self/status`).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("65534\n100\nSigBlk:\t%s\n%sCapInh:\t%s\nCapPrm:\t%s\nCapEff:\t%s\nCapAmb:\t%s\ncontent\n", none, ignored, none, none, none, none) +
		parent + ":\na\nfile\nfolder\nlink\n\n" + parent + "/folder:\nfile\ntool b x\n"
	if out, code := (direct{prefix: prefix, path: "/bin", user: 65534, args: []string{"sh", "-c", script}}).run(t); out != want || code != 0 {
		t.Errorf("exit code %d, %s", code, out)
	}
}

// Root keeps its capabilities, but passes none on.
func TestRootPassesNoCapabilitiesOn(t *testing.T) {
	t.Parallel()
	out, code := direct{prefix: newPrefix(t), path: "/bin", args: []string{"grep", "-E", "^Cap(Inh|Amb):", "/proc/self/status"}}.run(t)
	if want := "CapInh:\t0000000000000000\nCapAmb:\t0000000000000000\n"; out != want || code != 0 {
		t.Errorf("exit code %d, %s", code, out)
	}
}

func TestProgramsOfCommands(t *testing.T) {
	t.Parallel()
	prefix := newPrefix(t)
	parent := filepath.Dir(filepath.Dir(prefix))
	for name, one := range map[string]struct {
		direct
		out  string
		code int
	}{
		"of the environment": {direct{path: "/none:" + prefix + ":/bin", args: []string{"tool"}}, "tool b", 0},
		"with a path":        {direct{args: []string{prefix + "/tool", "y"}}, "tool b y", 0},
		"in the folder":      {direct{dir: prefix, args: []string{"./tool"}}, "tool b", 0},
		"folders and data":   {direct{path: parent + ":/bin", args: []string{"folder"}}, "folder: executable file not found in $PATH", 127},
		"data":               {direct{path: parent, args: []string{"file"}}, "file: executable file not found in $PATH", 127},
		"no PATH":            {direct{args: []string{"true"}}, "true: executable file not found in $PATH", 127},
		"missing":            {direct{args: []string{"/none/x"}}, "the command cannot be started: /none/x: no such file or directory", 127},
		"not executable":     {direct{args: []string{parent + "/file"}}, "permission denied", 126},
		"no folder":          {direct{dir: "/none", path: "/bin", args: []string{"true"}}, "entering the working directory: /none: no such file or directory", 126},
		"exit code":          {direct{path: "/bin", args: []string{"sh", "-c", "exit 7"}}, "", 7},
		"signal":             {direct{path: "/bin", args: []string{"sh", "-c", "kill -TERM $$"}}, "", 143},
	} {
		for _, user := range []uint32{0, 65534} {
			one.prefix, one.user = prefix, user
			if out, code := one.run(t); code != one.code || !strings.Contains(out, one.out) || one.out == "" && out != "" {
				t.Errorf("%s, user %d: exit code %d, %s", name, user, code, out)
			}
		}
	}
}

// A mount that does not exist is an error of its call.
func TestFailedCalls(t *testing.T) {
	t.Parallel()
	s := &script{}
	s.add("first", unix.SYS_GETPID)
	s.mount("second", "a", "b", "c", 0, "")
	for raw, want := range map[string]string{
		string([]byte{1, 0, 0, 0, byte(unix.EPERM), 0, 0, 0}):  errDenied.Error() + ": second: operation not permitted",
		string([]byte{1, 0, 0, 0, byte(unix.ENOENT), 0, 0, 0}): "second: no such file or directory",
		string([]byte{2, 0, 0, 0, 0, 0, 0, 0}):                 "x: " + exec.ErrNotFound.Error(),
		"panic":                                                `the process of the namespace wrote "panic"`,
	} {
		if err := s.failure([]byte(raw), "x"); err.Error() != want {
			t.Errorf("%q: %v", raw, err)
		}
	}
}
