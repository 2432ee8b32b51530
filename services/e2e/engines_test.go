package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// enter is the script that prepares a sandbox for a client: folders that the client modifies
// are replaced by empty ones, and changes to /etc are temporary, so that the engines of the
// machine are not affected.
const enter = `set -e
mount -t proc proc /proc
for place in /run /dev/shm /var/lib; do mount -t tmpfs tmpfs $place; done
mkdir /run/etc /run/etc.work
mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/etc,workdir=/run/etc.work /etc
exec "$@"`

// sandbox returns a command in new mount and process namespaces: when it ends, its containers
// and mounts end too. Its files are in home. PATH contains Debian's programs and the tools.
func sandbox(ctx context.Context, home string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", enter, "sh"}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin:" + binaries, "HOME=" + home, "TMPDIR=" + home}
	cmd.Dir = home
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// output returns the output of a client, which must succeed.
func output(t testing.TB, home string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := sandbox(ctx, home, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s\n%v\n%s%s", strings.Join(args, " "), err, tail(out.String(), 2000), tail(errs.String(), 4000))
	}
	return out.String()
}

// buildTools compiles crane, regctl and the registry distribution of the tools module next to our own binaries, like `make
// builder` does, so that the compiled packages are shared.
var buildTools = sync.OnceValue(func() error {
	build := exec.Command("go", "build", "-C", "../tools", "-trimpath", "-ldflags", "-s -w", "-o", binaries+"/",
		"github.com/google/go-containerregistry/cmd/crane", "github.com/regclient/regclient/cmd/regctl", "github.com/distribution/distribution/v3/cmd/registry")
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building crane, regctl and distribution: %w\n%s", err, out)
	}
	return nil
})

// copier is a client that writes an image to a folder as an OCI layout.
type copier struct {
	name string
	args func(image, dir string) []string
}

func copiers() []copier {
	return []copier{
		{"skopeo", func(image, dir string) []string {
			return []string{"skopeo", "--insecure-policy", "copy", "--src-tls-verify=false", "docker://" + image, "oci:" + dir + ":copy"}
		}},
		{"crane", func(image, dir string) []string {
			return []string{"crane", "pull", "--insecure", "--format", "oci", image, dir}
		}},
		{"regctl", func(image, dir string) []string {
			host, _, _ := strings.Cut(image, "/")
			return []string{"regctl", "--host", "reg=" + host + ",tls=disabled", "image", "copy", image, "ocidir://" + dir + ":copy"}
		}},
	}
}

// engine is a client that runs images. run returns the output of the container and deletes the
// image, so that the next pull is complete.
type engine struct {
	name string
	run  func(t testing.TB, image string) string
}

// engines returns podman, and docker and containerd with a daemon that ends with the test.
func engines(t testing.TB) []engine {
	t.Helper()
	d := startDocker(t)
	return []engine{{"podman", podman}, {"docker", d.docker}, {"containerd", d.containerd}}
}

// podman has no daemon: every call starts with empty storage.
func podman(t testing.TB, image string) string {
	home := t.TempDir()
	return output(t, home,
		"podman", "--root", home+"/images", "--runroot", "/run/podman", "--storage-driver", "overlay",
		"--runtime", "runc", "--cgroup-manager", "cgroupfs", "--events-backend", "file",
		"run", "--rm", "--tls-verify=false", "--network=host",
		// The default limits are higher than a process without CAP_SYS_RESOURCE can set.
		"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", image)
}

// daemon is a dockerd with its own containerd.
type daemon struct{ home string }

// startDaemon runs a program until the test ends. If the test fails, it prints the end of the
// program's log.
func startDaemon(t testing.TB, home, program string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(home, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := sandbox(context.Background(), home, append([]string{program}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if said, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("log of %s:\n%s", program, tail(string(said), 6000))
		}
	})
}

// startDocker runs a daemon without networks: containers use the host network.
func startDocker(t testing.TB) daemon {
	t.Helper()
	d := daemon{home: t.TempDir()}
	startDaemon(t, d.home, "dockerd", "--config-file", d.configuration(t))
	if err := within(2*time.Minute, func() error {
		return sandbox(t.Context(), d.home, "docker", "-H", d.socket(), "version").Run()
	}); err != nil {
		t.Fatalf("dockerd does not respond: %v", err)
	}
	return d
}

// configuration writes the configuration of the daemon, and returns its path.
func (d daemon) configuration(t testing.TB) string {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"hosts": []string{d.socket()}, "data-root": d.home + "/data", "exec-root": d.home + "/exec", "pidfile": d.home + "/pid",
		"bridge": "none", "iptables": false, "ip6tables": false, "ip-forward": false, "storage-driver": "overlay2",
		"insecure-registries": []string{"127.0.0.0/8"}, "exec-opts": []string{"native.cgroupdriver=cgroupfs"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "daemon.json", string(raw))
}

func (d daemon) socket() string { return "unix://" + d.home + "/socket" }

func (d daemon) docker(t testing.TB, image string) string {
	out := output(t, d.home, "docker", "-H", d.socket(), "run", "--rm", "--network=host", image)
	output(t, d.home, "docker", "-H", d.socket(), "rmi", image)
	return out
}

func (d daemon) containerd(t testing.TB, image string) string {
	ctr := func(args ...string) string {
		return output(t, d.home, append([]string{"ctr", "-a", d.home + "/exec/containerd/containerd.sock", "-n", "slipway"}, args...)...)
	}
	ctr("image", "pull", "--plain-http", image)
	out := ctr("run", "--rm", "--net-host", "--fifo-dir", t.TempDir(), image, "once")
	ctr("image", "rm", "--sync", image)
	return out
}
