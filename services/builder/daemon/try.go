package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"slipway.dev/services/builder/daemon/step"
)

// Probe runs a whole trial: see [Try] and [Trial.Result].
func Probe(ctx context.Context, runtime string) (path, version string, err error) {
	t := Try(ctx, runtime)
	defer t.Close()
	return t.Result()
}

// Trial finds the programs that run steps, and runs a container that does nothing. It runs
// in the background, because it starts several processes.
type Trial struct {
	cancel   context.CancelFunc
	ended    chan struct{}
	programs programs
	err      error
}

// Try begins a trial. The argument runtime is Options.Runtime. It must be called as root.
func Try(ctx context.Context, runtime string) *Trial {
	ctx, cancel := context.WithCancel(ctx)
	t := &Trial{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(t.ended)
		if t.programs, t.err = findPrograms(runtime); t.err == nil {
			t.err = t.programs.try(ctx)
		}
	}()
	return t
}

// Result waits for the end of the trial. It returns the path and the version of runc, and
// an error that explains to an operator why builds would fail here.
func (t *Trial) Result() (path, version string, err error) {
	<-t.ended
	return t.programs.runtime, t.programs.version, t.err
}

// Close cancels the trial and waits until it has ended.
func (t *Trial) Close() {
	t.cancel()
	<-t.ended
}

// try runs a container that does nothing, with everything that a step's container has:
// namespaces, a control group, and a /proc.
func (p programs) try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	dir, err := os.MkdirTemp("", "slipway-try-")
	if err != nil {
		return fmt.Errorf("no step can be tried: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := writeBundle(dir, p.wrapper); err != nil {
		return fmt.Errorf("no step can be tried: %w", err)
	}
	id := "slipway-try-" + strings.ToLower(rand.Text()[:8])
	runc := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, p.runtime, append([]string{"--root", filepath.Join(dir, "state")}, args...)...)
		var said bytes.Buffer
		cmd.Stderr = &said
		err := cmd.Run()
		return strings.TrimSpace(said.String()), err
	}
	said, err := runc("run", "--bundle", dir, id)
	if err == nil {
		return nil
	}
	_, _ = runc("delete", "--force", id)
	return errors.New(refusal(p.runtime, said, err))
}

// refusal returns why runc failed and how to fix it.
func refusal(runtime, said string, err error) string {
	first, _, _ := strings.Cut(said, "\n")
	if first == "" {
		first = err.Error()
	}
	help := "make sure that this machine, or the container that slipwayd is in, lets root make namespaces and control groups (privileged), or set buildkit_addr"
	if strings.Contains(said, "cgroup") {
		help = "mount control groups (mount -t cgroup2 none /sys/fs/cgroup), writable also in a container (--privileged, --cgroupns=private), or set buildkit_addr"
	}
	return fmt.Sprintf("%s cannot start a container here: %s; %s", runtime, first, help)
}

// writeBundle writes an OCI bundle whose only program is slipway-runc, which is linked
// statically.
func writeBundle(dir, program string) error {
	root := filepath.Join(dir, "rootfs")
	if err := os.MkdirAll(filepath.Join(root, "proc"), 0o755); err != nil { //nolint:gosec // what a container sees
		return err
	}
	if err := copyProgram(filepath.Join(root, "try"), program); err != nil {
		return err
	}
	type m = map[string]any
	var namespaces []m
	for _, kind := range []string{"pid", "mount", "ipc", "uts", "network"} {
		namespaces = append(namespaces, m{"type": kind})
	}
	raw, err := json.Marshal(m{
		"ociVersion": "1.0.2",
		"process":    m{"args": []string{"/try", step.NoOp}, "cwd": "/", "user": m{"uid": 0, "gid": 0}, "noNewPrivileges": true},
		"root":       m{"path": "rootfs", "readonly": true},
		"mounts":     []m{{"destination": "/proc", "type": "proc", "source": "proc"}},
		"linux":      m{"namespaces": namespaces, "cgroupsPath": "/" + rootGroup + "/try-" + filepath.Base(dir)},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "config.json"), raw, 0o600)
}

func copyProgram(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755) //nolint:gosec // it is a program
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
