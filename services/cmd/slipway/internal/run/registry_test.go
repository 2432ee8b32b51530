package run_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/regclient/regclient"
	"github.com/regclient/regclient/config"
	"github.com/regclient/regclient/types/ref"

	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/mount/kernel"
	"slipway.dev/services/mount/mounttest"
)

// push copies an image and its environment to a registry, and returns its name.
func push(t *testing.T, u *user, l mounttest.Layout, to *testkit.Registry) string {
	t.Helper()
	host := config.HostNewName(to.Host)
	host.TLS, host.User, host.Pass = config.TLSDisabled, testkit.User, testkit.Password
	c := regclient.New(regclient.WithConfigHost(*host))
	from, err := ref.New(l.Name())
	if err != nil {
		t.Fatal(err)
	}
	name := to.Host + "/team/tools:1"
	target, err := ref.New(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ImageCopy(t.Context(), from, target, regclient.ImageWithReferrers()); err != nil {
		t.Fatal(err)
	}
	login := base64.StdEncoding.EncodeToString([]byte(testkit.User + ":" + testkit.Password))
	if err := os.MkdirAll(u.home+"/.docker", 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, to.Host, login)
	if err := os.WriteFile(u.home+"/.docker/config.json", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(l.Folder); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestEnvironmentOfRegistry(t *testing.T) {
	t.Parallel()
	for name, auth := range map[string]testkit.Auth{"open": testkit.Open, "basic": testkit.Basic, "bearer": testkit.Bearer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			registry := testkit.NewRegistry(t, auth)
			image := push(t, u, layout(t, u), registry)
			out, messages, code := u.run(t, "run", "--stats", "--no-share", image, "--", "sh", "-c", "greet; head -c 100 /opt/conda/share/large | wc -c")
			if code != 0 || out != "hello "+u.home+" /opt/conda\n100\n" {
				t.Fatalf("exit code %d, %q, %s", code, out, messages)
			}
			if _, fetched := stats(t, messages); atoi(t, fetched) == 0 || atoi(t, fetched) > 900_000 {
				t.Errorf("%s bytes were fetched: not only the parts that are needed", fetched)
			}
			if strings.Contains(messages, "ignores ranges") {
				t.Error("the client did not request ranges, or does not use them")
			}
			registry.Requests()
			if _, messages, code := u.run(t, "run", "--no-share", image, "--", "greet"); code != 0 || len(registry.Requests()) != 0 {
				t.Errorf("second: exit code %d, %s", code, messages)
			}
			registry.Stop()
			if _, messages, code := u.run(t, "run", "--no-share", image, "--", "greet"); code != 0 {
				t.Errorf("without the registry: exit code %d, %s", code, messages)
			}
		})
	}
}

// Of an image with a new name, as each request has one, only what the name means is looked up.
func TestNewNameOfAKnownImage(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	registry := testkit.NewRegistry(t, testkit.Open)
	image := push(t, u, layout(t, u), registry)
	for _, name := range []string{image, strings.Replace(image, "127.0.0.1", "localhost", 1)} {
		registry.Requests()
		if out, messages, code := u.run(t, "run", "--no-share", name, "--", "greet"); code != 0 {
			t.Fatalf("%s: exit code %d, %q, %s", name, code, out, messages)
		}
	}
	requests := registry.Requests()
	for _, r := range requests {
		if !strings.HasSuffix(r, "/manifests/1") && !strings.Contains(r, "referrers") {
			t.Errorf("there was the request %s", r)
		}
	}
	if len(requests) == 0 {
		t.Error("the name was not looked up")
	}
}

// Names of one environment share an agent. It fetches packages by the newest name, and by the others if that one is denied.
func TestNamesShareAnAgent(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	registry := testkit.NewRegistry(t, testkit.Open)
	first := push(t, u, layout(t, u), registry)
	second := strings.Replace(first, "127.0.0.1", "localhost", 1)
	var denied atomic.Value // the hosts
	denied.Store("")
	registry.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		list, _ := denied.Load().(string)
		host, _, _ := strings.Cut(r.Host, ":")
		if !strings.Contains(list, host) {
			return false
		}
		http.Error(w, "denied", http.StatusForbidden)
		return true
	})
	for _, one := range []struct{ denied, name, script, want string }{
		{"", first, "greet", "hello " + u.home + " /opt/conda\n"},
		{"127.0.0.1", second, "head -c 9 /opt/conda/share/large", large()[:9]},
		{"127.0.0.1", first, "cat /opt/conda/lib/many/file499", "content 499\n"},
		{"127.0.0.1 localhost", first, "tail -c 9 /opt/conda/share/large 2>/dev/null || echo failed", "failed\n"},
		{"localhost", second, "tail -c 9 /opt/conda/share/large", large()[len(large())-9:]},
	} {
		denied.Store(one.denied)
		out, messages, code := u.run(t, "run", "--idle=30s", one.name, "--", "sh", "-c", one.script)
		if code != 0 || out != one.want {
			t.Errorf("%s, with %q denied: exit code %d, %q, %s", one.name, one.denied, code, out, messages)
		}
	}
	if pids := agents(t, u); len(pids) != 1 {
		t.Errorf("agents %v", pids)
	}
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A registry that ignores ranges costs more, and is reported.
func TestRegistryWithoutRanges(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	registry := testkit.NewRegistry(t, testkit.Open)
	image := push(t, u, layout(t, u), registry)
	registry.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Range")
		return false
	})
	out, messages, code := u.run(t, "run", "--no-share", image, "--", "sh", "-c", "cat /opt/conda/share/large")
	if code != 0 || out != large() || !strings.Contains(messages, "ignores ranges") {
		t.Errorf("exit code %d, %d bytes, %s", code, len(out), messages)
	}
}

func TestImageWithoutEnvironment(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	registry := testkit.NewRegistry(t, testkit.Open)
	image := push(t, u, layout(t, u), registry)
	registry.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/referrers/") || strings.Contains(r.URL.Path, "/manifests/sha256-") {
			http.NotFound(w, r)
			return true
		}
		return false
	})
	if _, messages, code := u.run(t, "run", image, "--", "greet"); code != 1 || !strings.Contains(messages, "has no environment") {
		t.Errorf("exit code %d, %s", code, messages)
	}
}

// A record that was pushed is used by all users of the image.
func TestPushedTrace(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	registry := testkit.NewRegistry(t, testkit.Open)
	image := push(t, u, layout(t, u), registry)
	_, messages, code := u.run(t, "run", "--trace-push", image, "--", "sh", "-c", "head -c 20 /opt/conda/share/large >/dev/null")
	if code != 0 || !strings.Contains(messages, "pushed the record as") {
		t.Fatalf("exit code %d, %s", code, messages)
	}
	other := u.home + "/other"
	if _, messages, code := u.run(t, "run", "--no-share", "--cache", other, image, "--", "true"); code != 0 || strings.Contains(messages, "in advance") {
		t.Errorf("exit code %d, %s", code, messages)
	}
	ours, err := filepath.Glob(u.home + "/cache/firsts/*")
	if err != nil || len(ours) != 1 {
		t.Fatalf("%v, %v", ours, err)
	}
	want, err := os.ReadFile(ours[0])
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(other, "firsts", filepath.Base(ours[0]))); err != nil || string(got) != string(want) {
		t.Errorf("%s instead of %s, %v", got, want, err)
	}
}

// The command of a killed agent fails, and the next command starts another agent.
func TestKilledAgent(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	l := layout(t, u)
	if _, messages, code := u.run(t, "run", "--idle=30s", l.Name(), "--", "greet"); code != 0 {
		t.Fatal(messages)
	}
	pids := agents(t, u)
	if len(pids) != 1 {
		t.Fatalf("agents %v", pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitForEnd(t, u)
	if out, messages, code := u.run(t, "run", "--idle=1s", l.Name(), "--", "greet"); code != 0 || !strings.HasPrefix(out, "hello") {
		t.Errorf("exit code %d, %s", code, messages)
	}
	waitForEnd(t, u) // it ends by itself
}

func waitForEnd(t *testing.T, u *user) {
	t.Helper()
	testkit.Until(t, "the agent ends", func() error {
		if all := agents(t, u); len(all) > 0 {
			return fmt.Errorf("agents %v", all)
		}
		return nil
	})
}

// agents returns the processes that serve environments of a user.
func agents(t *testing.T, u *user) []int {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, path := range lines {
		exe, err := os.Readlink(filepath.Join(filepath.Dir(path), "exe"))
		if b, readErr := os.ReadFile(path); err == nil && readErr == nil && exe == u.binary && strings.HasPrefix(string(b), "slipway-agent\x00") {
			out = append(out, atoi(t, filepath.Base(filepath.Dir(path))))
		}
	}
	return out
}

// Signals reach the command, and its end is that of `slipway run`.
func TestSignals(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	l := layout(t, u)
	for _, share := range []string{"--no-share=false", "--no-share"} {
		cmd := u.command("run", share, "--idle=1s", l.Name(), "--", "sh", "-c", "trap 'echo term; exit 9' TERM; echo ready; while :; do read x; done")
		if code := signalled(t, cmd, syscall.SIGTERM); code != 9 {
			t.Errorf("%s: exit code %d", share, code)
		}
	}
}

func signalled(t *testing.T, cmd *exec.Cmd, s syscall.Signal) int {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Log(err) // it has ended
	}
	_ = cmd.Wait() // the exit code tells more
	return cmd.ProcessState.ExitCode()
}

func TestRootUsesTheKernel(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	if os.Getuid() != 0 || kernel.Available() != nil {
		t.Skip("NOT TESTED: this user cannot mount EROFS of the kernel")
	}
	l := layout(t, u)
	root := func(args ...string) *exec.Cmd {
		cmd := u.command(args...)
		cmd.SysProcAttr.Credential = nil
		cmd.Env = append(cmd.Env, "SLIPWAY_CACHE="+u.home+"/root", "SLIPWAY_AGENT_DIR="+u.home+"/rootagents")
		return cmd
	}
	if _, messages, code := runCommand(t, root("fetch", l.Name())); code != 0 {
		t.Fatal(messages)
	}
	out, messages, code := runCommand(t, root("run", "--stats", l.Name(), "--", "sh", "-c", "cat /opt/conda/share/large; "+readAll))
	if code != 0 || !strings.HasPrefix(out, large()) || !strings.Contains(messages, "kernel mount") {
		t.Errorf("exit code %d, %d bytes, %s", code, len(out), messages)
	}
	folder := t.TempDir()
	for _, kind := range []string{"/root", "/empty"} { // the kernel; a process of this program
		cmd := root("mount", l.Name(), folder)
		cmd.Env = append(cmd.Env, "SLIPWAY_CACHE="+u.home+kind)
		if _, messages, code := runCommand(t, cmd); code != 0 {
			t.Fatalf("%s: %s", kind, messages)
		}
		b, err := os.ReadFile(folder + "/share/large")
		_, messages, code := runCommand(t, root("unmount", folder))
		if err != nil || string(b) != large() || code != 0 {
			t.Errorf("%s: %d bytes, %v, exit code %d of unmount, %s", kind, len(b), err, code, messages)
		}
		if list, err := os.ReadDir(folder); err != nil || len(list) != 0 {
			t.Errorf("%s: after unmount %v, %v", kind, list, err)
		}
	}
}
