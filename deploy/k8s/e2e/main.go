// Command e2e tests deploy/k8s on a real cluster. The cluster has two nodes on one Linux
// machine, each a network namespace with containerd, a kubelet and kube-proxy, and a control
// plane. The program deploys the overlay e2e with our own images, and pulls and builds during
// updates, deletions and drains. Everything runs in new namespaces, so that the kernel ends all
// processes when the program ends.
//
// It needs root and Debian's containerd, runc, containernetworking-plugins,
// nftables, iproute2 and mmdebstrap. `make k8s-e2e` prepares and runs it.
//
// Usage: e2e [-keep] [-tries N] [-run SCENARIO,…]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	var s settings
	flag.BoolVar(&s.keep, "keep", false, "leave the cluster running until interrupted")
	flag.StringVar(&s.only, "run", "", "scenarios to run, by name, with commas; empty is all")
	flag.StringVar(&s.report, "report", "REPORT.md", "where the report of a run of all scenarios goes")
	flag.IntVar(&s.tries, "tries", 1, "times that a scenario is tried until it passes")
	images := flag.Bool("images", false, "only make the images that nodes import")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := outside
	if *images {
		run = func(ctx context.Context, _ settings) error {
			cache, err := cacheDir()
			if err != nil {
				return err
			}
			top, err := repository(ctx)
			if err != nil {
				return err
			}
			return makeImages(cache, filepath.Join(top, "bin", "images"))
		}
	}
	if os.Getenv("SLIPWAY_E2E_INSIDE") != "" {
		run = inside
	}
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
}

// settings are the parsed flags.
type settings struct {
	keep         bool
	only, report string
	// tries is the maximum number of attempts of a scenario.
	tries int
}

// outside prepares the machine, and runs this program again as the first process
// of the cluster's namespaces.
func outside(ctx context.Context, _ settings) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("the test cluster needs root")
	}
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	dir, err := os.MkdirTemp("", "slipway-k8s-")
	if err != nil {
		return err
	}
	groups, err := makeGroups()
	if err == nil {
		err = again(ctx, dir)
	}
	if left := errors.Join(groups.remove(), removeAll(dir)); left != nil {
		err = errors.Join(err, fmt.Errorf("cleaning up the machine: %w", left))
	}
	return err
}

// lock waits until no other cluster runs on this machine, since all use the same control
// groups.
func lock() (unlock func(), err error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	unlock = func() { _ = f.Close() } // closing releases the lock
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		unlock()
		return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
	}
	return unlock, nil
}

// again runs this program as the first process of new namespaces.
func again(ctx context.Context, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, os.Args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), "SLIPWAY_E2E_INSIDE="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	return cmd.Run()
}

// removeAll deletes the folder. The kernel may take a moment to release mounts in it.
func removeAll(dir string) error {
	var err error
	for range 50 {
		if err = os.RemoveAll(dir); err == nil {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	return err
}

// inside starts the cluster and runs the scenarios.
func inside(ctx context.Context, s settings) error {
	pid, err := os.Readlink("/proc/self") // the number outside, until the cluster mounts its own /proc
	if err != nil {
		return err
	}
	c, err := newCluster(ctx, os.Getenv("SLIPWAY_E2E_INSIDE"))
	if err != nil {
		return err
	}
	r := newReport()
	err = c.start(ctx, r)
	if err == nil {
		err = scenarios(ctx, c, r, s)
	}
	if err != nil {
		c.explain(ctx)
	}
	if s.keep {
		fmt.Printf("The cluster stays until Ctrl-C: nsenter -t %s -a, KUBECONFIG=%s\n", pid, filepath.Join(c.dir, "admin.kubeconfig"))
		<-ctx.Done()
	}
	if err != nil {
		return err
	}
	if s.only != "" {
		return nil
	}
	return r.write(ctx, s.report)
}
