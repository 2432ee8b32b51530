package run_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/run"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/mount/environment"
	"slipway.dev/services/mount/mounttest"
)

// clientVariable makes the test binary the command line.
const clientVariable = "SLIPWAY_TEST_CLIENT"

func TestMain(m *testing.M) {
	if code, ok := run.Entered(); ok {
		os.Exit(code)
	}
	if os.Getenv(clientVariable) != "" {
		os.Exit(client())
	}
	os.Exit(m.Run())
}

func client() int {
	s := session.Settings{Version: "test"}
	root := &cobra.Command{Use: "slipway", SilenceErrors: true, SilenceUsage: true}
	s.Add(root, func(string) string { return "" })
	root.AddCommand(run.Run(&s), run.Shell(&s), run.Fetch(&s), run.Mount(&s), run.Unmount(&s), run.Cache(&s), run.Singularity(&s))
	err := root.ExecuteContext(context.Background())
	if code, ok := errors.AsType[run.Exit](err); ok {
		return int(code)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "slipway:", err)
		return 1
	}
	return 0
}

// nobody is the user that commands run as.
const nobody = 65534

// A user runs commands as an ordinary user, who has a cache and a folder of agents.
type user struct {
	binary, home string
	env          []string
}

// newUser returns a user. It skips the test where commands cannot mount.
func newUser(t *testing.T) *user {
	t.Helper()
	home, err := os.MkdirTemp("", "run-") // others can enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	u := &user{home: home, binary: filepath.Join(home, "slipway")}
	copyFile(t, "/proc/self/exe", u.binary)
	if os.Getuid() == 0 {
		if err := errors.Join(os.Chown(home, nobody, nobody), os.Chmod(home, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	u.env = []string{"HOME=" + home, "PATH=/usr/bin:/bin", "TERM=dumb", clientVariable + "=1", "SLIPWAY_CACHE=" + home + "/cache", "SLIPWAY_AGENT_DIR=" + home + "/agents", "GOCOVERDIR=" + home}
	for _, why := range []string{tryDevice(), u.tryNamespace()} {
		if why != "" {
			t.Skip("NOT TESTED: commands cannot mount FUSE here: " + why)
		}
	}
	return u
}

func tryDevice() string {
	info, err := os.Stat("/dev/fuse")
	switch {
	case err != nil:
		return err.Error()
	case os.Getuid() == 0 && info.Mode()&0o006 != 0o006:
		return "only root may use /dev/fuse; `chmod 0666 /dev/fuse` allows all users, as on distributions"
	}
	return ""
}

func (u *user) tryNamespace() string {
	cmd := u.prepare(exec.Command("unshare", "--user", "--mount", "true"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Sprintf("%v: %s", err, out)
	}
	return ""
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}

func (u *user) prepare(cmd *exec.Cmd) *exec.Cmd {
	cmd.Env, cmd.Dir = u.env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return cmd
}

// command returns the command line with arguments.
func (u *user) command(args ...string) *exec.Cmd { return u.prepare(exec.Command(u.binary, args...)) }

// run runs the command line and returns its output, its messages and its exit code.
func (u *user) run(t *testing.T, args ...string) (out, messages string, code int) {
	t.Helper()
	return runCommand(t, u.command(args...))
}

func runCommand(t *testing.T, cmd *exec.Cmd) (out, messages string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// layout is an image with an environment of three packages: tools, a package with several chunks, and one with many files.
func layout(t *testing.T, u *user) mounttest.Layout {
	t.Helper()
	many := mounttest.Files{}
	for i := range 500 {
		many[fmt.Sprintf("lib/many/file%d", i)] = fmt.Sprintf("content %d\n", i)
	}
	l := mounttest.Write(t, filepath.Join(u.home, "layout"), []string{"PATH=/opt/conda/bin:/usr/bin", "GREETING=hello", "HOME=/root"},
		mounttest.Pack(t, mounttest.Files{"bin/greet": "#!/bin/sh\necho $GREETING $HOME $CONDA_PREFIX\n", "bin/link": "->greet", "bin/fail": "#!/bin/sh\nexit 7\n"}),
		mounttest.Pack(t, mounttest.Files{"share/large": large()}),
		mounttest.Pack(t, many))
	return l
}

func large() string {
	var b strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&b, "%x\n", i*2654435761)
	}
	return b.String()
}

func TestCommandInEnvironment(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	l := layout(t, u)
	for _, share := range []string{"--no-share=false", "--no-share"} {
		out, messages, code := u.run(t, "run", share, "--idle=1s", l.Name(), "--", "greet")
		if out != "hello "+u.home+" /opt/conda\n" || code != 0 {
			t.Errorf("%s: output %q, exit code %d, messages %s", share, out, code, messages)
		}
		out, messages, code = u.run(t, "run", share, "--idle=1s", l.Name(), "--", "sh", "-c", "cat /opt/conda/share/large; ls /opt/conda/lib/many | wc -l; cat /opt/conda/lib/many/file499; fail")
		if out != large()+"500\ncontent 499\n" || code != 7 {
			t.Errorf("%s: output of %d bytes, exit code %d, messages %s", share, len(out), code, messages)
		}
		if _, _, code = u.run(t, "run", share, "--idle=1s", l.Name(), "--", "missing"); code != 127 {
			t.Errorf("%s: exit code %d of a missing command", share, code)
		}
		if _, _, code = u.run(t, "run", share, "--idle=1s", l.Name(), "--", "sh", "-c", "kill -TERM $$"); code != 128+15 {
			t.Errorf("%s: exit code %d of a command that a signal ended", share, code)
		}
		out, messages, code = u.run(t, "run", share, "--idle=1s", l.Name(), "--", "sh", "-c", "grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status | grep -v 0000000000000000; touch /opt/conda/x")
		if out != "" || code == 0 || !strings.Contains(messages, "Read-only file system") {
			t.Errorf("%s: capabilities %q, exit code %d of a write, messages %s", share, out, code, messages)
		}
	}
}

// An environment without an image has its own variables, and is only for its platform.
func TestEnvironmentWithoutImage(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	tools := mounttest.Pack(t, mounttest.Files{"bin/greet": "#!/bin/sh\necho hello $TOOL $(cat /opt/conda/share/x)\n", "share/x": "x"})
	env := []string{"PATH=/opt/conda/bin:/usr/bin:/bin", "TOOL=from the environment"}
	l := mounttest.WriteStandalone(t, filepath.Join(u.home, "layout"), environment.Config{Platform: "linux/" + runtime.GOARCH, Env: env}, tools)
	for _, args := range [][]string{{"--idle=1s"}, {"--no-share"}, {"--offline", "--no-share"}} {
		out, messages, code := u.run(t, append(append([]string{"run"}, args...), l.Name(), "--", "greet")...)
		if out != "hello from the environment x\n" || code != 0 {
			t.Errorf("%v: output %q, exit code %d, messages %s", args, out, code, messages)
		}
	}
	if _, messages, code := u.run(t, "run", "--base", l.Name(), "--", "greet"); code == 0 || !strings.Contains(messages, "has no root") {
		t.Errorf("with --base: exit code %d, messages %s", code, messages)
	}
	other := mounttest.WriteStandalone(t, filepath.Join(u.home, "other"), environment.Config{Platform: "linux/riscv64"}, tools)
	if _, messages, code := u.run(t, "run", other.Name(), "--", "greet"); code == 0 || !strings.Contains(messages, "is for linux/riscv64, and this machine is linux/") {
		t.Errorf("of another platform: exit code %d, messages %s", code, messages)
	}
}

// A server of an earlier release rejects the format. The command states what helps, and requests nothing else.
func TestEarlierServer(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Format string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Format != "environment" {
			t.Errorf("%s %s: %+v, %v", r.Method, r.URL, body, err)
		}
		requests.Add(1)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"message": "format must be one of docker, oci, sif, not \"environment\""}`)
	}))
	t.Cleanup(server.Close)
	_, messages, code := u.run(t, "--server", server.URL, "run", "samtools=1.20", "--", "samtools")
	if code != 1 || requests.Load() != 1 || !strings.Contains(messages, "update the server, or let it make an image as well, with --base-image IMAGE") {
		t.Errorf("exit code %d, %d requests, messages %s", code, requests.Load(), messages)
	}
}

var counts = regexp.MustCompile(`messages: ([^;]*); fetched (\d+) bytes`)

// stats returns the messages and the number of fetched bytes of --stats.
func stats(t *testing.T, messages string) (names []string, bytes string) {
	t.Helper()
	m := counts.FindStringSubmatch(messages)
	if m == nil {
		t.Fatalf("there are no statistics in %q", messages)
	}
	for _, one := range strings.Split(m[1], ", ") {
		if name, _, _ := strings.Cut(one, " "); name != "" {
			names = append(names, name)
		}
	}
	return names, m[2]
}

// readAll reads the environment as an interpreter does, and looks for what does not exist.
const readAll = `cd /opt/conda && find . | wc -l && cat lib/many/* share/large >/dev/null && ls -l lib/many bin >/dev/null && ! test -e lib/missing/x && link`

func TestSecondCommandNeedsNoMessages(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	l := layout(t, u)
	_, messages, code := u.run(t, "run", "--stats", "--idle=20s", l.Name(), "--", "sh", "-c", readAll)
	if names, bytes := stats(t, messages); code != 0 || !slices.Contains(names, "read") || bytes == "0" {
		t.Fatalf("first: exit code %d, %s", code, messages)
	}
	_, messages, code = u.run(t, "run", "--stats", "--idle=1s", l.Name(), "--", "sh", "-c", readAll)
	names, bytes := stats(t, messages)
	names = slices.DeleteFunc(names, func(name string) bool { return name == "ioctl" || name == "forget" || name == "statfs" }) // find calls statfs
	if code != 0 || len(names) > 0 || bytes != "0" {
		t.Errorf("second: exit code %d, %s", code, messages)
	}
}

func TestOfflineAfterTheFirstCommand(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	l := layout(t, u)
	if _, messages, code := u.run(t, "run", "--offline", "--no-share", l.Name(), "--", "greet"); code != 1 || !strings.Contains(messages, "not in the cache") {
		t.Errorf("with an empty cache: exit code %d, %s", code, messages)
	}
	if out, messages, code := u.run(t, "fetch", l.Name()); code != 0 || out != l.Environment.String()+"\n" {
		t.Fatalf("fetch: exit code %d, %q, %s", code, out, messages)
	}
	if blobs, err := filepath.Glob(u.home + "/cache/blobs/*"); err != nil || len(blobs) != 3 {
		t.Errorf("the cache has the packages %v, %v", blobs, err)
	}
	if err := os.RemoveAll(l.Folder); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--no-share"}, {"--no-share", "--offline"}, {"--offline"}} {
		args = append(append([]string{"run", "--idle=1s"}, args...), l.Name(), "--", "sh", "-c", readAll)
		if out, messages, code := u.run(t, args...); code != 0 {
			t.Errorf("%v: exit code %d, %s, %s", args, code, out, messages)
		}
	}
}

func TestReadOnlyCache(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	l := layout(t, u)
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: only root can create a folder that the user cannot write")
	}
	if err := os.Mkdir(u.home+"/cache", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, share := range []string{"--no-share=false", "--no-share"} {
		if out, messages, code := u.run(t, "run", share, "--idle=1s", l.Name(), "--", "sh", "-c", readAll); code != 0 {
			t.Errorf("%s: exit code %d, %s, %s", share, code, out, messages)
		}
	}
}

func TestTamperedBlobsAreReadErrors(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	l := layout(t, u)
	if _, messages, code := u.run(t, "run", "--no-share", l.Name(), "--", "true"); code != 0 {
		t.Fatal(messages)
	}
	p := mounttest.Pack(t, mounttest.Files{"share/large": large()})
	blob, err := os.ReadFile(l.BlobPath(p.Digest))
	if err != nil {
		t.Fatal(err)
	}
	for i := 1000; i < len(blob); i += 50_000 {
		blob[i] ^= 0x40
	}
	if err := os.WriteFile(l.BlobPath(p.Digest), blob, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, share := range []string{"--no-share=false", "--no-share"} {
		out, messages, code := u.run(t, "run", share, "--idle=1s", l.Name(), "--", "sh", "-c", "wc -c <bin/greet; cat /opt/conda/share/large >/dev/null && echo read; greet")
		if code != 0 || strings.Contains(out, "read") || !strings.Contains(out, "hello") || !strings.Contains(messages, p.Device.Name()) {
			t.Errorf("%s: exit code %d, %q, %s", share, code, out, messages)
		}
	}
}

// times returns a number of repetitions, which is smaller under the race detector: it makes the processes many times slower.
func times(all, raced int) int {
	if os.Getenv("SLIPWAY_TEST_RACE") != "" {
		return raced
	}
	return all
}

func TestManyCommandsOnAnEmptyCache(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	l := layout(t, u)
	want := large()
	var commands sync.WaitGroup
	for i := range times(64, 16) {
		commands.Go(func() {
			args := []string{"run", "--idle=2s", l.Name(), "--", "sh", "-c", "cat /opt/conda/share/large"}
			if i%8 == 0 {
				args = slices.Insert(args, 1, "--no-share")
			}
			cmd := u.command(args...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); err != nil || stdout.String() != want {
				t.Errorf("%v: %v, %d bytes, %s", args, err, stdout.Len(), stderr.String())
			}
		})
	}
	commands.Wait()
	if sockets, err := filepath.Glob(u.home + "/agents/*.lock"); err != nil || len(sockets) != 1 {
		t.Errorf("locks of agents: %v, %v", sockets, err)
	}
}

// A garbage collection of the process that serves the files must not wait for the start of one of them.
func TestExecutingFetchedFilesWhileCollectingGarbage(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	l := mounttest.Write(t, filepath.Join(u.home, "layout"), []string{"PATH=/opt/conda/bin"}, mounttest.Pack(t, mounttest.Files{"bin/shell": string(shell), "share/large": large()}))
	for i := range times(10, 3) {
		cmd := u.command("run", "--no-share", l.Name(), "--", "shell", "-c", "cat /opt/conda/share/large | wc -c")
		cmd.Env = append(slices.Clone(u.env), "GOGC=1", fmt.Sprintf("SLIPWAY_CACHE=%s/cache%d", u.home, i))
		if out, messages, code := runCommand(t, cmd); code != 0 || strings.TrimSpace(out) != fmt.Sprint(len(large())) {
			t.Fatalf("exit code %d, %q, %s", code, out, messages)
		}
	}
}

// The command gets all files of the caller, and the process that serves the environment none: it would hold their locks.
func TestFilesOfTheCaller(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	l := layout(t, u)
	for _, share := range []string{"--no-share=false", "--no-share"} {
		script := fmt.Sprintf("exec 3>%[1]s/three 4>%[1]s/four 9>%[1]s/lock 12>%[1]s/twelve; flock -n 9 || exit 3; %[2]s run %[3]s --idle=20s %[4]s -- bash -c 'echo 3 >&3; echo 4 >&4; echo 12 >&12'", u.home, u.binary, share, l.Name())
		if _, messages, code := runCommand(t, u.prepare(exec.Command("bash", "-c", script))); code != 0 {
			t.Fatalf("%s: exit code %d, %s", share, code, messages)
		}
		for file, want := range map[string]string{"three": "3\n", "four": "4\n", "twelve": "12\n"} {
			if b, err := os.ReadFile(filepath.Join(u.home, file)); err != nil || string(b) != want {
				t.Errorf("%s: %s is %q, %v", share, file, b, err)
			}
		}
		if out, err := u.prepare(exec.Command("flock", "-n", u.home+"/lock", "true")).CombinedOutput(); err != nil {
			t.Errorf("%s: the lock of the caller is held: %v, %s", share, err, out)
		}
	}
}

// Signals that are sent to the command line alone reach the command.
func TestSignalsReachTheCommand(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	l := layout(t, u)
	names := []string{"TERM", "INT", "QUIT", "USR1", "USR2"}
	if !signal.Ignored(syscall.SIGHUP) { // as with nohup, which is for the command as well
		names = append(names, "HUP")
	}
	for _, name := range names {
		cmd := u.command("run", "--idle=1s", l.Name(), "--", "bash", "-c", "trap 'echo got; exit 9' "+name+"; echo ready; while :; do read -t 0.1 line <> <(:); done")
		cmd.SysProcAttr.Setsid = true
		var messages bytes.Buffer
		cmd.Stderr = &messages
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, len("ready\n"))
		if _, err := io.ReadFull(out, b); err != nil {
			t.Fatal(err)
		}
		signals := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2}
		if err := cmd.Process.Signal(signals[name]); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(out)
		_ = cmd.Wait() // the exit code is checked
		if code := cmd.ProcessState.ExitCode(); err != nil || string(rest) != "got\n" || code != 9 {
			t.Errorf("%s: %q, %v, exit code %d, %s", name, rest, err, code, messages.String())
		}
	}
}

// A machine without /dev/fuse is explained, and is no missing command.
func TestAdviceWithoutDevice(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	l := layout(t, u)
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: only root can hide /dev/fuse")
	}
	for _, share := range []string{"--no-share=false", "--no-share"} {
		script := fmt.Sprintf("mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && exec setpriv --reuid %d --regid %[1]d --clear-groups %s run %s --idle=1s %s -- true", nobody, u.binary, share, l.Name())
		cmd := exec.Command("unshare", "--mount", "sh", "-c", script)
		cmd.Env, cmd.Dir = append(slices.Clone(u.env), "PATH=/usr/bin:/bin:/usr/sbin:/sbin"), "/"
		_, messages, code := runCommand(t, cmd)
		if code == 0 || code == 127 || !strings.Contains(messages, "modprobe fuse") {
			t.Errorf("%s: exit code %d, %s", share, code, messages)
		}
	}
}

// The agent must not see the environment at the prefix: it would read certificates there, e.g. those of SSL_CERT_FILE, and wait for
// itself.
func TestAgentHasNoMountAtThePrefix(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	l := layout(t, u)
	if _, messages, code := u.run(t, "run", "--idle=20s", l.Name(), "--", "greet"); code != 0 {
		t.Fatal(messages)
	}
	agents := 0
	lists, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lists {
		env, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(env), "SLIPWAY_AGENT_DIR="+u.home) {
			continue
		}
		mounts, err := os.ReadFile(filepath.Join(filepath.Dir(path), "mountinfo"))
		if err != nil || !strings.Contains(string(mounts), "fuse.slipway") {
			continue
		}
		agents++
		if strings.Contains(string(mounts), " /opt/conda ") {
			t.Errorf("the agent has a mount at the prefix: %s", mounts)
		}
	}
	if agents != 1 {
		t.Errorf("%d agents", agents)
	}
}

// `slipway mount` refuses folders whose files the process that serves the environment needs.
func TestMountThatHidesTheCache(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	l := layout(t, u)
	for _, folder := range []string{u.home, l.Folder, "/etc", "/"} {
		if _, messages, code := u.run(t, "mount", l.Name(), folder); code != 1 || !strings.Contains(messages, "hides") {
			t.Errorf("%s: exit code %d, %s", folder, code, messages)
		}
	}
}

// Root without the capability to mount, as in most containers, gets a user namespace, and no capability in it.
func TestRootWithoutCapability(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	l := layout(t, u)
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: only root can be root without a capability")
	}
	for _, share := range []string{"--no-share=false", "--no-share"} {
		cmd := exec.Command("setpriv", "--bounding-set", "-sys_admin", u.binary, "run", share, "--idle=1s", l.Name(), "--", "sh", "-c", "greet; grep -E 'Cap(Prm|Eff|Amb)' /proc/self/status | grep -v 0000000000000000; id -u")
		cmd.Env, cmd.Dir = append(slices.Clone(u.env), "SLIPWAY_CACHE="+u.home+"/root", "SLIPWAY_AGENT_DIR="+u.home+"/rootagents"), "/"
		out, messages, code := runCommand(t, cmd)
		if code != 0 || out != "hello "+u.home+" /opt/conda\n0\n" || strings.Contains(messages, "not shared") {
			t.Errorf("%s: exit code %d, %q, %s", share, code, out, messages)
		}
	}
}

// What a command reads first is recorded, and fetched the next time before it is read: here into an empty cache, to which the record is copied.
func TestTrace(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	l := layout(t, u)
	_, messages, code := u.run(t, "run", "--trace", l.Name(), "--", "sh", "-c", "head -c 20 /opt/conda/share/large >/dev/null; cat /opt/conda/lib/many/file3")
	if code != 0 || !strings.Contains(messages, "were not recorded before") {
		t.Fatalf("exit code %d, %s", code, messages)
	}
	for i, share := range []string{"--no-share=false", "--no-share"} {
		cache := fmt.Sprintf("%s/cache%d", u.home, i)
		copied := fmt.Sprintf("mkdir -p %s && cp -r %s/cache/firsts %[1]s/", cache, u.home)
		if out, err := u.prepare(exec.Command("sh", "-c", copied)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		reads := fmt.Sprintf("for n in $(seq 200); do test -n \"$(ls %s/chunks)\" -a -n \"$(ls %[1]s/blobs)\" && exit 0; sleep 0.1; done 2>/dev/null; exit 5", cache)
		if _, messages, code := u.run(t, "run", share, "--idle=1s", "--cache", cache, l.Name(), "--", "/bin/sh", "-c", reads); code != 0 {
			t.Errorf("%s: nothing was fetched: exit code %d, %s", share, code, messages)
		}
	}
}
