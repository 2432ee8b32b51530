package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"text/template"
	"time"
)

//go:embed files
var files embed.FS

// A node is the data of a node's configuration files.
type node struct {
	Node, IP, Pods, Dir, Base string
	network                   string
}

func (c *cluster) both() []node {
	return []node{
		{"node1", "192.168.77.1", "10.244.0.0/24", filepath.Join(c.dir, "node1"), c.dir, ""},
		{"node2", "192.168.77.2", "10.244.1.0/24", filepath.Join(c.dir, "node2"), c.dir, "node2"},
	}
}

// importImages starts containerd for both nodes and imports the images of the cluster. It needs
// no control plane.
func (c *cluster) importImages(ctx context.Context) error {
	var side sync.WaitGroup
	failed := make([]error, 2)
	for i, n := range c.both() {
		side.Go(func() {
			if err := c.containerd(ctx, n); err != nil {
				failed[i] = fmt.Errorf("%s: %w", n.Node, err)
			}
		})
	}
	side.Wait()
	return errors.Join(failed...)
}

// kubelets starts the kubelets of both nodes, and waits until the nodes are ready.
func (c *cluster) kubelets(ctx context.Context) error {
	for _, n := range c.both() {
		if err := c.kubelet(n); err != nil {
			return fmt.Errorf("%s: %w", n.Node, err)
		}
	}
	return c.until(ctx, "both nodes", 5*time.Minute, func() error {
		out, err := c.kubectl(ctx, "get", "nodes", "-o", `jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status} {end}`)
		if err == nil && strings.Count(out, "True") != 2 {
			err = fmt.Errorf("ready: %s", out)
		}
		return err
	})
}

func (c *cluster) containerd(ctx context.Context, n node) error {
	var err error
	for _, dir := range []string{"cni", "pods", "kubelet", "plugins", "images"} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(n.Dir, dir), 0o750))
	}
	err = errors.Join(err,
		render("files/containerd.toml", filepath.Join(n.Dir, "containerd.toml"), n),
		render("files/kubelet.yaml", filepath.Join(n.Dir, "kubelet.yaml"), n),
		render("files/cni.conflist", filepath.Join(n.Dir, "cni", "10-e2e.conflist"), n),
		os.WriteFile(filepath.Join(n.Dir, "resolv.conf"), []byte("nameserver 192.168.77.254\n"), 0o600),
		c.daemon("containerd-"+n.Node, n.network, "containerd", "-c", filepath.Join(n.Dir, "containerd.toml")))
	if err != nil {
		return err
	}
	if err := c.until(ctx, "containerd", time.Minute, func() error { return c.ctr(ctx, n, "version") }); err != nil {
		return err
	}
	images, err := filepath.Glob(filepath.Join(c.cache, "images", "*.tar"))
	if err != nil {
		return err
	}
	for _, image := range images {
		if err := c.ctr(ctx, n, "-n", "k8s.io", "images", "import", image); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) kubelet(n node) error {
	return errors.Join(
		c.daemon("kubelet-"+n.Node, n.network, "kubelet", "--config", filepath.Join(n.Dir, "kubelet.yaml"), "--kubeconfig", filepath.Join(c.dir, n.Node+".kubeconfig"),
			"--hostname-override", n.Node, "--node-ip", n.IP, "--root-dir", filepath.Join(n.Dir, "kubelet"), "--cert-dir", filepath.Join(n.Dir, "pki"),
			"--node-labels", "topology.kubernetes.io/zone=zone-"+n.Node),
		c.daemon("proxy-"+n.Node, n.network, "kube-proxy", "--kubeconfig", filepath.Join(c.dir, "proxy.kubeconfig"), "--hostname-override", n.Node,
			"--cluster-cidr", "10.244.0.0/16", "--proxy-mode", "nftables", "--conntrack-max-per-core", "0", "--healthz-bind-address", "127.0.0.1:10256"))
}

func (c *cluster) ctr(ctx context.Context, n node, args ...string) error {
	out, err := exec.CommandContext(ctx, "ctr", append([]string{"-a", filepath.Join(n.Dir, "containerd.sock")}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// render executes a template of files/.
func render(from, to string, data any) error {
	t, err := template.ParseFS(files, from)
	if err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	return errors.Join(t.Execute(f, data), f.Close())
}

// addons deploys DNS and the persistent volumes.
func (c *cluster) addons(ctx context.Context) error {
	dns, err := files.ReadFile("files/coredns.yaml")
	if err != nil {
		return err
	}
	var volumes strings.Builder
	for i := range 8 {
		dir := filepath.Join(c.dir, "volumes", fmt.Sprint(i))
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o777)); err != nil { //nolint:gosec // pods of any user write there
			return err
		}
		fmt.Fprintf(&volumes, "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {name: volume-%d}\nspec: {capacity: {storage: 20Gi}, accessModes: [ReadWriteOnce], persistentVolumeReclaimPolicy: Retain, hostPath: {path: %s}}\n", i, dir)
	}
	if _, err := c.kubectlWith(ctx, append(dns, volumes.String()...), "apply", "-f", "-"); err != nil {
		return err
	}
	_, err = c.kubectl(ctx, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=5m")
	return err
}
