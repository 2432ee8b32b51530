package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/world"
)

// A site is the machines of one contender: a head with the servers, and nodes.
type site struct {
	dir   string
	head  group
	nodes []*node
}

// A node is a machine that runs tasks. It has its own folder, and reaches servers by its link only.
type node struct {
	name, dir string
	group
	link
	lock    sync.Mutex
	fetched map[string]func() error
	// addresses are those of the link that lead to servers.
	addresses map[string]string
	// engine is its containerd, if the contender needs one, and installer its installer of packages.
	engine    *process.Server
	installer *installer
}

func newSite(w *world.World) *site {
	dir := must.Get(os.MkdirTemp(w.Dir, "site-"))
	must.Do(os.Chmod(dir, 0o755))
	s := &site{dir: dir, head: newGroup(filepath.Base(dir) + "-head")}
	for i := range nodes {
		n := &node{name: fmt.Sprintf("node-%d", i), fetched: map[string]func() error{}, addresses: map[string]string{}}
		n.dir, n.group = filepath.Join(dir, n.name), newGroup(filepath.Base(dir)+"-"+n.name)
		must.Do(os.Mkdir(n.dir, 0o755))
		s.nodes = append(s.nodes, n)
	}
	return s
}

// close ends what runs on nodes, and removes their files. The servers have ended.
func (s *site) close() {
	problems := []error{s.head.remove()}
	for _, n := range s.nodes {
		if n.engine != nil {
			n.engine.Stop()
		}
		problems = append(problems, n.link.close(), n.group.remove())
	}
	problems = append(problems, unmountBelow(s.dir), os.RemoveAll(s.dir))
	if err := errors.Join(problems...); err != nil {
		fmt.Fprintln(os.Stderr, "bench: cleaning up nodes:", err)
	}
}

// unmountBelow removes the mounts of tasks that were interrupted.
func unmountBelow(dir string) error {
	mounts, err := os.ReadFile("/proc/mounts")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			err = errors.Join(err, unix.Unmount(f[1], unix.MNT_DETACH))
		}
	}
	return err
}

// used returns the processor time of all nodes in seconds, and received the number of bytes that they received.
func (s *site) used() (sum float64) {
	for _, n := range s.nodes {
		sum += n.group.used()
	}
	return sum
}

func (s *site) received() (sum int64) {
	for _, n := range s.nodes {
		sum += n.link.received.bytes.Load()
	}
	return sum
}

// connect makes a server, host:port, reachable from all nodes.
func (s *site) connect(server string) {
	for _, n := range s.nodes {
		n.addresses[server] = n.link.to(server)
	}
}

// nearName replaces the server in the name of an image by the address of the node's link that leads to it.
func (n *node) nearName(image string) string {
	server, rest, _ := strings.Cut(image, "/")
	return n.addresses[server] + "/" + rest
}

// startEngine starts a containerd with its own store.
func (n *node) startEngine(w *world.World) {
	socket := filepath.Join(n.dir, "containerd.sock")
	config := filepath.Join(n.dir, "containerd.toml")
	must.Do(os.WriteFile(config, fmt.Appendf(nil, containerdConfig, filepath.Join(n.dir, "store"), filepath.Join(n.dir, "state"), socket), 0o600))
	n.engine = w.Start(process.Command{Name: "containerd-" + n.name, Path: must.Get(exec.LookPath("containerd")), Args: []string{"--config", config}, Addr: socket, Ready: process.Listens("unix", socket)})
	n.group.join(n.engine)
}

const containerdConfig = `version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs"]
[grpc]
  address = %q
`

// A group is a control group that counts the processor time of its processes. Containers stay in it, or in one below it.
type group struct {
	dir string
	// below is where engines put containers, as a path of theirs; "" if they stay in the group of the process that starts them.
	below string
}

// newGroup creates a control group of version 2. Where engines use version 1, that only counts.
func newGroup(name string) group {
	root := ""
	for line := range strings.Lines(string(must.Get(os.ReadFile("/proc/mounts")))) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			root = f[1]
		}
	}
	if root == "" {
		must.Fail("there is no control group file system of version 2")
	}
	g := group{dir: filepath.Join(root, "slipway-bench-"+name)}
	must.Do(os.Mkdir(g.dir, 0o755))
	if root == "/sys/fs/cgroup" {
		g.below = "/slipway-bench-" + name
		must.Do(os.Mkdir(g.processes(), 0o755)) // a group with groups has no processes of its own
	}
	return g
}

// processes is the group of the processes that are not in containers.
func (g group) processes() string {
	if g.below == "" {
		return g.dir
	}
	return filepath.Join(g.dir, "processes")
}

// join moves a server into the group.
func (g group) join(s *process.Server) { s.Join(g.processes()) }

// used returns the processor time in seconds.
func (g group) used() float64 {
	for line := range strings.Lines(string(must.Get(os.ReadFile(filepath.Join(g.dir, "cpu.stat"))))) {
		if text, ok := strings.CutPrefix(line, "usage_usec "); ok {
			return float64(must.Get(strconv.ParseInt(strings.TrimSpace(text), 10, 64))) / 1e6
		}
	}
	must.Fail("%s does not count processor time", g.dir)
	return 0
}

// remove ends processes that are left in the group, such as agents of mounts, and removes it.
func (g group) remove() error {
	left, err := os.ReadFile(filepath.Join(g.processes(), "cgroup.procs"))
	for pid := range strings.FieldsSeq(string(left)) {
		if n, bad := strconv.Atoi(pid); bad == nil {
			err = errors.Join(err, syscall.Kill(n, syscall.SIGKILL))
		}
	}
	if err != nil {
		return err
	}
	time.Sleep(time.Second / 2) // they leave it when they have ended
	if g.below != "" {
		if err := os.Remove(g.processes()); err != nil {
			return err
		}
	}
	return os.Remove(g.dir)
}

// output runs a program in the group and returns what it prints to standard output.
func (g group) output(ctx context.Context, prepare func(*exec.Cmd), args ...string) (string, error) {
	dir, err := os.Open(g.processes())
	if err != nil {
		return "", err
	}
	defer dir.Close()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent"}
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	if prepare != nil {
		prepare(cmd)
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s%s", args, err, out.String(), errs.String())
	}
	return out.String(), nil
}
