package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// controlPlane is the address of the first node, which runs the control plane.
const controlPlane = "192.168.77.1"

// A cluster is a control plane and two nodes. Its processes end with this program.
type cluster struct {
	// dir holds all files of the run, cache the results of prepare.sh, and bin the programs.
	// repo is the root folder of the repository.
	dir, cache, bin, repo string
}

// cacheDir returns the folder in which prepare.sh stores its results.
func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "slipway", "k8s"), err
}

// repository returns the root folder of the repository.
func repository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

func newCluster(ctx context.Context, dir string) (*cluster, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	repo, err := repository(ctx)
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir, cache: cache, bin: filepath.Join(dir, "bin"), repo: repo}
	if err := os.MkdirAll(c.bin, 0o750); err != nil {
		return nil, err
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"} {
		if err := os.Symlink(filepath.Join(c.cache, "bin", "hyperkube"), filepath.Join(c.bin, name)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// start starts all processes, and waits until both nodes are ready.
func (c *cluster) start(ctx context.Context, r *report) error {
	began := time.Now()
	for _, step := range []func(context.Context) error{c.namespaces, c.metadata, c.certificates} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	imported := make(chan error, 1)
	go func() { imported <- c.importImages(ctx) }()
	if err := errors.Join(c.controlPlane(ctx), <-imported); err != nil {
		return err
	}
	if err := errors.Join(c.kubelets(ctx), c.addons(ctx)); err != nil {
		return err
	}
	go c.enforce(ctx)
	r.fact("cluster ready", time.Since(began))
	return nil
}

// namespaces prepares the mount namespace: it mounts a new /proc, and hides the folders to
// which daemons write.
func (c *cluster) namespaces(ctx context.Context) error {
	if err := syscall.Mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	for _, dir := range []string{"/run", "/var/lib/cni", "/var/lib/kubelet", "/etc/cni"} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", dir, err)
		}
	}
	return c.sh(ctx, `
mkdir -p /run/netns /run/lock /run/metadata
ip link set lo up
ip link add node0 type bridge
ip addr add 192.168.77.1/24 dev node0
ip link set node0 up
sysctl -qw net.ipv4.ip_forward=1
ip route add default via 192.168.77.254 dev node0
ip netns add outside
ip link add v9 type veth peer name eth0 netns outside
ip link set v9 master node0 up
out="nsenter --net=/run/netns/outside"
$out ip link set lo up
$out ip addr add 192.168.77.254/24 dev eth0
$out ip addr add 169.254.169.254/32 dev eth0
$out ip link set eth0 up
$out ip route add 10.244.0.0/24 via 192.168.77.1
$out ip route add 10.244.1.0/24 via 192.168.77.2
ip netns add node2
ip link add v2 type veth peer name eth0 netns node2
ip link set v2 master node0 up
ip route add 10.244.1.0/24 via 192.168.77.2
in="nsenter --net=/run/netns/node2"
$in ip link set lo up
$in ip addr add 192.168.77.2/24 dev eth0
$in ip link set eth0 up
$in ip route add default via 192.168.77.1
$in sysctl -qw net.ipv4.ip_forward=1
`)
}

// metadata starts a server at the metadata address of clouds, outside both nodes.
func (c *cluster) metadata(context.Context) error {
	return c.daemon("metadata", "outside", "busybox", "httpd", "-f", "-p", metadata+":80", "-h", "/run/metadata")
}

func (c *cluster) certificates(context.Context) error {
	a, err := newAuthority(c.dir)
	if err != nil {
		return err
	}
	services := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "127.0.0.1", "10.96.0.1", controlPlane}
	err = errors.Join(
		a.issue("apiserver", "kube-apiserver", nil, services...),
		a.issue("admin", "admin", []string{"system:masters"}),
		a.issue("kcm", "system:kube-controller-manager", nil),
		a.issue("sched", "system:kube-scheduler", nil),
		a.issue("proxy", "system:kube-proxy", nil),
		a.issue("kubelet-client", "kube-apiserver-kubelet-client", []string{"system:masters"}),
		a.issue("front-proxy", "front-proxy-client", nil),
		a.issue("node1", "system:node:node1", []string{"system:nodes"}, "node1", "192.168.77.1"),
		a.issue("node2", "system:node:node2", []string{"system:nodes"}, "node2", "192.168.77.2"),
	)
	for _, who := range []string{"admin", "kcm", "sched", "proxy", "node1", "node2"} {
		err = errors.Join(err, a.kubeconfig(who, "https://"+controlPlane+":6443"))
	}
	return err
}

func (c *cluster) controlPlane(ctx context.Context) error {
	d := c.dir
	if err := os.MkdirAll(filepath.Join(d, "etcd"), 0o700); err != nil {
		return err
	}
	err := errors.Join(
		c.daemon("etcd", "", "etcd", "--data-dir", d+"/etcd", "--unsafe-no-fsync", "--log-level", "warn",
			"--listen-client-urls", "http://127.0.0.1:2379", "--advertise-client-urls", "http://127.0.0.1:2379", "--listen-peer-urls", "http://127.0.0.1:2380"),
		c.daemon("apiserver", "", "kube-apiserver", "--etcd-servers", "http://127.0.0.1:2379", "--advertise-address", controlPlane, "--bind-address", "0.0.0.0",
			"--service-cluster-ip-range", "10.96.0.0/16", "--allow-privileged=true", "--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction",
			"--client-ca-file", d+"/ca.crt", "--tls-cert-file", d+"/apiserver.crt", "--tls-private-key-file", d+"/apiserver.key",
			"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", d+"/sa.key", "--service-account-signing-key-file", d+"/sa.key",
			"--kubelet-client-certificate", d+"/kubelet-client.crt", "--kubelet-client-key", d+"/kubelet-client.key", "--kubelet-certificate-authority", d+"/ca.crt",
			"--kubelet-preferred-address-types", "InternalIP", "--requestheader-client-ca-file", d+"/ca.crt", "--requestheader-allowed-names", "front-proxy-client",
			"--requestheader-extra-headers-prefix", "X-Remote-Extra-", "--requestheader-group-headers", "X-Remote-Group", "--requestheader-username-headers", "X-Remote-User",
			"--proxy-client-cert-file", d+"/front-proxy.crt", "--proxy-client-key-file", d+"/front-proxy.key", "--enable-aggregator-routing=true",
			"--feature-gates", "HPAScaleToZero=true"),
	)
	if err != nil {
		return err
	}
	if err := c.until(ctx, "the API server", 5*time.Minute, func() error { _, err := c.kubectl(ctx, "get", "--raw", "/readyz"); return err }); err != nil {
		return err
	}
	return errors.Join(
		c.daemon("kcm", "", "kube-controller-manager", "--kubeconfig", d+"/kcm.kubeconfig", "--authentication-kubeconfig", d+"/kcm.kubeconfig",
			"--authorization-kubeconfig", d+"/kcm.kubeconfig", "--service-account-private-key-file", d+"/sa.key", "--root-ca-file", d+"/ca.crt",
			"--cluster-signing-cert-file", d+"/ca.crt", "--cluster-signing-key-file", d+"/ca.key", "--use-service-account-credentials", "--leader-elect=false",
			"--cluster-cidr", "10.244.0.0/16", "--horizontal-pod-autoscaler-sync-period", "5s", "--bind-address", "127.0.0.1", "--feature-gates", "HPAScaleToZero=true"),
		c.daemon("sched", "", "kube-scheduler", "--kubeconfig", d+"/sched.kubeconfig", "--authentication-kubeconfig", d+"/sched.kubeconfig",
			"--authorization-kubeconfig", d+"/sched.kubeconfig", "--leader-elect=false", "--bind-address", "127.0.0.1"),
	)
}

// daemon starts a program in a node's network; "" is the control plane's. The program runs as
// long as this one, and logs to dir/NAME.log.
func (c *cluster) daemon(name, network, program string, args ...string) error {
	log, err := os.Create(filepath.Join(c.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	if p := filepath.Join(c.bin, program); fileExists(p) {
		program = p
	}
	if network != "" {
		program, args = "nsenter", append([]string{"--net=/run/netns/" + network, program}, args...)
	}
	cmd := exec.Command(program, args...) //nolint:noctx // it must still run while explain prints a failure
	cmd.Env = append(os.Environ(), "PATH="+c.bin+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		err := cmd.Wait()
		fmt.Fprintf(os.Stderr, "%s ended: %v\n", name, err)
	}()
	return nil
}

// kubectl runs kubectl and returns its standard output.
func (c *cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	return c.kubectlWith(ctx, nil, args...)
}

func (c *cluster) kubectlWith(ctx context.Context, stdin []byte, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.dir, "admin.kubeconfig"))
	cmd.Stdin = bytes.NewReader(stdin)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(complaint.Bytes()))
	}
	return out.String(), nil
}

// sh runs a script, and returns its output in the error if it fails.
func (c *cluster) sh(ctx context.Context, script string) error {
	out, err := exec.CommandContext(ctx, "sh", "-euc", script).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// until calls try until it succeeds or the timeout has passed.
func (c *cluster) until(ctx context.Context, what string, timeout time.Duration, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, err)
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// explain prints the state of the cluster to help find the cause of a failure.
func (c *cluster) explain(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	for _, args := range [][]string{
		{"get", "pods", "-A", "-o", "wide"}, {"get", "events", "-A", "--sort-by=.lastTimestamp"},
	} {
		out, _ := c.kubectl(ctx, args...)
		fmt.Fprintln(os.Stderr, out)
	}
	out, _ := c.kubectl(ctx, "get", "pods", "-A", "--field-selector=status.phase!=Succeeded", "-o", `jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name}{"\n"}{end}`)
	for line := range strings.Lines(out) {
		if ns, pod, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			logs, _ := c.kubectl(ctx, "logs", "-n", ns, pod, "--all-containers", "--tail=8")
			fmt.Fprintf(os.Stderr, "--- %s/%s\n%s", ns, pod, logs)
		}
	}
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
