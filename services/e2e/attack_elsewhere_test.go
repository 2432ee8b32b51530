package e2e

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/services/internal/testkit"
)

// firstID is the first of the 65536 user ids that a rootless daemon gets from newuidmap.
const firstID = 100000

// rootless is a rootless `slipwayd buildkitd`.
type rootless struct {
	address string
	port    string // the port on loopback
	cmd     *exec.Cmd
	ended   chan struct{}
	mu      sync.Mutex
	said    bytes.Buffer
}

func (r *rootless) log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said.String()
}

// startRootless starts a rootless daemon. If /proc is masked, as in container engines, steps
// cannot mount their own.
func startRootless(t *testing.T, covered bool, s settings) *rootless {
	t.Helper()
	home, err := os.MkdirTemp("", "sw") // socket paths must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	for _, dir := range []string{"", "root", "run"} {
		_ = os.Mkdir(filepath.Join(home, dir), 0o755)
		if err := os.Chown(filepath.Join(home, dir), firstID, firstID); err != nil {
			t.Fatal(err)
		}
	}
	// The mapped users need access to these files.
	for _, name := range []string{"slipwayd", "slipway-runc", "buildkitd", "runc"} {
		program, err := os.ReadFile(filepath.Join(binaries, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(home, name), program, 0o755)
		}
		if err != nil && name != "runc" { // runc of the machine may be used instead
			t.Fatal(err)
		}
	}
	_ = os.Chmod(home, 0o755)
	r := &rootless{address: "unix://" + home + "/b.sock", port: testkit.FreePort(t), ended: make(chan struct{})}
	ids := []syscall.SysProcIDMap{{HostID: firstID, Size: 65536}}
	r.cmd = exec.Command(filepath.Join(home, "slipwayd"), "buildkitd", "--root", home+"/root", "--run", home+"/run",
		"--addr", r.address, "--addr", "tcp://127.0.0.1:"+r.port)
	r.cmd.Env = append(s.environ(), "HOME="+home, "TMPDIR="+home) // only root may be able to write to /tmp
	r.cmd.Stderr = &lockedWriter{mu: &r.mu, w: &r.said}
	r.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
		Credential: &syscall.Credential{}, Pdeathsig: syscall.SIGKILL,
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends together with its mounts
		defer close(r.ended)
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, "")
		}
		if err == nil && covered {
			err = unix.Mount("/dev/null", "/proc/version", "", unix.MS_BIND, "")
		}
		if err == nil {
			err = r.cmd.Start()
		}
		started <- err
		if err == nil {
			_ = r.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("starting it in a user namespace: %v", err)
	}
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.ended
		if t.Failed() {
			t.Logf("log of slipwayd buildkitd:\n%s", tail(r.log(), 6000))
		}
	})
	return r
}

// TestStepsElsewhereReachNothing runs hostile steps on a daemon that several builders share.
// They try to receive other connections, to inspect other processes, and to reach other
// addresses through their proxy, although egress_allow contains all of them. It does not run in
// parallel: a thread of it ends, and with it the programs that this thread has started for any test.
func TestStepsElsewhereReachNothing(t *testing.T) {
	needBuilds(t)
	for name, covered := range map[string]bool{"own proc": false, "covered proc": true} {
		t.Run(name, func(t *testing.T) {
			up, store := testkit.NewRegistry(t, testkit.Open), "127.0.0.1:"+testkit.FreePort(t)
			base := hostileImage(t, up)
			site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a public page") }))
			defer site.Close()
			elsewhere := startRootless(t, covered, settings{"egress_allow": "0.0.0.0/0,::/0,localhost", "insecure_registries": up.Host + "," + store})
			p := oneProcess(t, common(t, []string{up.Host}, settings{"store_addr": store, "buildkit_addr": elsewhere.address, "build_concurrency": "2"}))
			log := func(answer map[string]any) string {
				return string(p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId")+"/logs", nil).body)
			}
			victim := p.order(recipe("FROM "+base, "RUN echo it runs && busybox sleep 10"))
			if err := within(time.Minute, func() error {
				if !strings.Contains(log(victim), "it runs") {
					return fmt.Errorf("the other build does not start: %s", log(victim))
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			var asked []string
			_, storePort, _ := net.SplitHostPort(store)
			for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "[::1]", "127.0.0.9", "[::ffff:127.0.0.1]"} {
				asked = append(asked, host+":"+elsewhere.port, host+":"+storePort)
			}
			asked = append(asked, up.Host)
			lines := []string{
				"FROM " + base, "RUN /hostile sniff", "RUN /hostile show", "RUN /hostile look", "RUN /hostile connect " + strings.Join(asked, " "),
				"RUN busybox wget -q -O - " + site.URL + " || no_proxy= busybox wget -q -O - " + site.URL,
			}
			answer := p.order(recipe(lines...))
			if s := p.finished(t, answer); s["succeeded"] != true {
				t.Errorf("the build ended as %v", s)
			}
			got := log(answer)
			for _, want := range []string{
				"AF_PACKET: operation not permitted", "interfaces 1, unix sockets 0, otel false, ports [3128]", "processes of others: []", "a public page",
			} {
				if !strings.Contains(got, want) {
					t.Errorf("%q is missing in %s", want, tail(got, 4000))
				}
			}
			for _, a := range asked {
				if !strings.Contains(got, "asked for "+p.shown(a, store)+" HTTP/1.1 403 ") {
					t.Errorf("%s was reached: %s", a, tail(got, 3000))
				}
			}
			if s := p.finished(t, victim); s["succeeded"] != true {
				t.Errorf("the other build ended as %v", s)
			}
			again := p.order(recipe(append(lines, "LABEL again=yes")...))
			p.finished(t, again)
			if got := strings.Count(log(again), "CACHED"); got < 5 {
				t.Errorf("%d steps are cached: %s", got, log(again))
			}
			if said := p.procs[0].log(); strings.Contains(said, "share one network") {
				t.Errorf("the daemon is classified as one whose steps share a network: %s", tail(said, 3000))
			}
			if want := map[bool]string{true: `"own_proc":false`, false: `"own_proc":true`}[covered]; !strings.Contains(elsewhere.log(), want) {
				t.Errorf("%s is missing in %s", want, tail(elsewhere.log(), 3000))
			}
			stopDuringBuild(t, p, elsewhere, base)
		})
	}
}

// stopDuringBuild stops the daemon during a build, as Kubernetes does.
func stopDuringBuild(t *testing.T, p *program, elsewhere *rootless, base string) {
	t.Helper()
	answer := p.order(recipe("FROM "+base, "RUN echo it began && busybox sleep 4 && echo it is done"))
	logs := "/v1alpha1/builds/" + text(answer, "buildId") + "/logs"
	if err := within(time.Minute, func() error {
		if body := p.call(http.MethodGet, logs, nil).body; !strings.Contains(string(body), "it began") {
			return fmt.Errorf("the build does not start: %s", body)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := elsewhere.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Errorf("the build that ran ended as %v", s)
	}
	select {
	case <-elsewhere.ended:
		if state := elsewhere.cmd.ProcessState; !state.Success() {
			t.Errorf("the daemon exited with %v", state)
		}
	case <-time.After(time.Minute):
		t.Error("the daemon does not exit")
	}
}
