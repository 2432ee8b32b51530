// Command e2e proves deploy/k8s on a real cluster: two nodes on one Linux machine,
// each a network namespace with containerd, a kubelet and kube-proxy, under a
// control plane of the same. It applies the overlay e2e with our own images, and
// pulls and builds while it rolls, deletes and drains. Everything runs in
// namespaces of its own: when the program ends, the kernel ends the rest.
//
// It needs root and Debian's containerd, runc, containernetworking-plugins,
// nftables, iproute2 and mmdebstrap. `make k8s-e2e` prepares and runs it.
//
// Usage: e2e [-keep] [-run SCENARIO,…]
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

// settings are what the flags say.
type settings struct {
	keep         bool
	only, report string
}

// outside prepares the machine, and runs this program again as the first process
// of the cluster's namespaces.
func outside(ctx context.Context, _ settings) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("a cluster needs root")
	}
	dir, err := os.MkdirTemp("", "slipway-k8s-")
	if err != nil {
		return err
	}
	groups, err := makeGroups()
	if err == nil {
		err = again(ctx, dir)
	}
	if left := errors.Join(groups.remove(), removeAll(dir)); left != nil {
		err = errors.Join(err, fmt.Errorf("something is left on the machine: %w", left))
	}
	return err
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

// removeAll takes the folder away. The kernel takes a moment to let go of what was
// mounted in it.
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

// inside starts the cluster and goes through the scenarios.
func inside(ctx context.Context, s settings) error {
	c, err := newCluster(ctx, os.Getenv("SLIPWAY_E2E_INSIDE"))
	if err != nil {
		return err
	}
	r := newReport()
	err = c.start(ctx, r)
	if err == nil {
		err = scenarios(ctx, c, r, s.only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		c.explain(ctx)
	}
	if s.keep {
		fmt.Printf("The cluster stays until Ctrl-C: nsenter -t %d -a, KUBECONFIG=%s\n", os.Getpid(), filepath.Join(c.dir, "admin.kubeconfig"))
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
