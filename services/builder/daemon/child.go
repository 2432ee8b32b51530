package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/services/builder/daemon/step"
	"slipway.dev/services/internal/limits"
)

// child is one run of the daemon.
type child struct {
	proxy string // address of the proxy inside the sandbox
	cmd   *exec.Cmd
	said  chan string
	ended chan struct{}
	err   error // why it ended; valid once ended is closed
}

// start starts the daemon in a new sandbox.
func (d *Daemon) start() (*child, error) {
	config, err := d.configure()
	if err != nil {
		return nil, err
	}
	_ = os.Remove(d.socket("buildkitd"))
	_ = os.RemoveAll(d.state()) // the containers of an earlier daemon
	c := &child{ended: make(chan struct{})}
	started := make(chan error)
	go d.run(c, config, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// run locks an OS thread for as long as the child lives. The thread creates the network;
// the child is started on it and so shares that network. The child is killed when the
// thread ends.
func (d *Daemon) run(c *child, config string, started chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The main thread represents the whole process in /proc, so another one is used.
		// The new goroutine cannot get the main thread, which is locked meanwhile.
		go d.run(c, config, started)
		time.Sleep(50 * time.Millisecond)
		runtime.UnlockOSThread()
		return
	}
	sandbox, home, err := d.enter()
	if err != nil {
		started <- err // never unlock the thread: it may be in the wrong network
		return
	}
	c.proxy = "http://" + sandbox.proxy.Addr().String()
	err = d.spawn(c, config)
	if back := unix.Setns(home, unix.CLONE_NEWNET); back == nil {
		defer runtime.UnlockOSThread() // otherwise the thread ends with this function
	}
	_ = unix.Close(home)
	if err != nil {
		sandbox.close()
		started <- err
		return
	}
	d.serve(sandbox)
	started <- nil
	said := <-c.said // before Wait, which closes the pipe
	if err := c.cmd.Wait(); err != nil {
		said = strings.TrimSpace(said + " (" + err.Error() + ")")
	}
	c.err = errors.New(said)
	sandbox.close()
	close(c.ended)
}

// initScript is what the child runs before it becomes the daemon. It enters its control groups
// and raises its OOM score. Its mounts stay private, and /proc shows its own processes.
const initScript = `for group in $GROUPS_TO_ENTER; do
	echo 0 >"$group/cgroup.procs" || { echo "buildkitd: its control group cannot be entered" >&2; exit 1; }
done
unset GROUPS_TO_ENTER
echo 300 >/proc/self/oom_score_adj || true
mount --make-rslave / && mount -t proc proc /proc && exec "$@"`

// spawn starts the child on this thread, as the first process of a new PID namespace: when
// it is killed, the kernel kills all processes of the namespace.
func (d *Daemon) spawn(c *child, config string) error {
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", initScript, "sh", d.programs.daemon, "--config", config)
	cmd.Dir = d.o.Dir
	cmd.Env = environment{
		proxy: c.proxy, steps: d.socket("steps"), runtime: d.programs.runtime, state: d.state(), noNewPrivileges: d.o.NoNewPrivileges,
	}.all()
	if d.own != nil {
		cmd.Env = append(cmd.Env, "GROUPS_TO_ENTER="+strings.Join(d.own.dirs, " "), fmt.Sprintf("GOMEMLIMIT=%d", d.o.DaemonMemory/5*4))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // so that only this process receives a Ctrl-C
	}
	out, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	c.cmd = cmd
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting buildkitd in new PID and mount namespaces, which this machine must allow: %w", err)
	}
	c.said = make(chan string, 1)
	go func() { c.said <- logOutput(out, d.o.Log) }()
	return nil
}

// state returns the folder where runc records its containers.
func (d *Daemon) state() string { return filepath.Join(d.o.Dir, "runc") }

// environment holds the additional variables of buildkitd, which it passes on to
// slipway-runc.
type environment struct {
	proxy                 string // URL
	steps, runtime, state string // paths
	noNewPrivileges       bool
}

func (e environment) all() []string {
	out := append(plainEnv(),
		// Long output is shortened before it reaches the daemon, with its end preserved;
		// the daemon would omit the end.
		fmt.Sprintf("BUILDKIT_STEP_LOG_MAX_SIZE=%d", limits.DaemonStepLog), fmt.Sprintf("BUILDKIT_STEP_LOG_MAX_SPEED=%d", limits.DaemonStepLog),
		"HTTP_PROXY="+e.proxy, "HTTPS_PROXY="+e.proxy, "http_proxy="+e.proxy, "https_proxy="+e.proxy,
		step.EnvSocket+"="+e.steps, step.EnvRuntime+"="+e.runtime, step.EnvState+"="+e.state)
	if e.noNewPrivileges {
		out = append(out, step.EnvNoNewPrivileges+"=1")
	}
	return out
}

// plainEnv returns the few variables that the daemon needs from our environment, none of
// which can be secret.
func plainEnv() []string {
	var out []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if v, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+v)
		}
	}
	return out
}

// logOutput forwards the daemon's log and returns its last line.
func logOutput(r io.Reader, log *slog.Logger) (last string) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		if text, ok := strings.CutPrefix(in.Text(), "buildkitd: "); ok {
			last = text
		}
		log.Debug("Build daemon", "said", in.Text())
	}
	_, _ = io.Copy(io.Discard, r)
	return last
}

// kill kills the child and all its processes, and waits for their end.
func (c *child) kill() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.ended:
		return
	case <-time.After(3 * time.Second): // it may be waiting for its builds
	}
	_ = c.cmd.Process.Kill()
	<-c.ended
}
