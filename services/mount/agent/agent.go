// Package agent shares the mount of an environment between the commands of a user on one node, so that they share the pages that the
// kernel has cached, and each of them starts faster.
//
// An agent is a process with the mount in a mount namespace of its own. It listens on a socket in a folder that only its user can enter,
// and sends each client a clone of the mount. Images with different names may have the same environment, and names expire, so that each
// client sends its name first. A client keeps the connection while its command runs. An agent that has had no clients for some time
// ends. The file system ends with its last mount.
//
// Batch systems end all processes of a job, so that each job, and each step of Slurm, has agents of its own.
package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/mount/fuse"
)

// jobVariables identify the job of a batch system, and its part whose processes end together.
//
//nolint:gochecknoglobals // an immutable value
var jobVariables = []string{
	"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_ARRAY_TASK_ID", "PBS_JOBID", "PBS_ARRAY_INDEX", "LSB_JOBID", "LSB_JOBINDEX", "JOB_ID", "SGE_TASK_ID",
}

// Folder returns the folder of the sockets: SLIPWAY_AGENT_DIR, or a folder of the user on this node. It creates it, and returns an
// error if other users can enter it.
func Folder(env func(string) string) (string, error) {
	folder := env("SLIPWAY_AGENT_DIR")
	if folder == "" {
		base := env("XDG_RUNTIME_DIR")
		if !isOwn(base) {
			base = os.TempDir()
		}
		folder = filepath.Join(base, "slipway-"+strconv.Itoa(os.Getuid()))
	}
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("creating the folder of agents: %w; set SLIPWAY_AGENT_DIR", err)
	}
	if !isOwn(folder) {
		return "", fmt.Errorf("the folder of agents %s must be a folder of this user that other users cannot enter; set SLIPWAY_AGENT_DIR", folder)
	}
	return folder, nil
}

// isOwn reports whether a path is a folder, and no link to one, that only this user can enter.
func isOwn(path string) bool {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == os.Getuid() && st.Mode&0o077 == 0
}

// Name returns the name of the agent for what identifies an environment and its sources, on this node and in the current job: nodes
// may share the folder of the sockets. Without a variable of a batch system, the control group of the process is its job.
func Name(env func(string) string, parts ...string) string {
	h := sha256.New()
	for _, file := range []string{"/proc/sys/kernel/random/boot_id", "/proc/self/cgroup"} {
		b, _ := os.ReadFile(file) // "" if there is no /proc
		if file == "/proc/self/cgroup" {
			b = []byte(jobGroup(string(b), isInJob(env)))
		}
		fmt.Fprintf(h, "%d:%s", len(b), b)
	}
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	for _, name := range jobVariables {
		fmt.Fprintf(h, "%s=%q", name, env(name))
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

func isInJob(env func(string) string) bool {
	for _, name := range jobVariables {
		if env(name) != "" {
			return true
		}
	}
	return false
}

// jobGroup returns the part of a control group whose processes end together; "" for processes of a job with variables and of sessions
// of users, which share agents.
func jobGroup(groups string, inJob bool) string {
	if inJob {
		return ""
	}
	var out []string
	for line := range strings.Lines(groups) {
		_, path, _ := strings.Cut(strings.TrimSpace(line), ":")
		if strings.Contains(path, "/user.slice/") {
			return ""
		}
		path, _, _ = strings.Cut(path, "/task_") // Slurm has a group for each task of a step
		out = append(out, strings.TrimSuffix(path, "/user"))
	}
	return strings.Join(out, "\n")
}

// A Client is a connection to an agent.
type Client struct {
	conn *net.UnixConn
	in   *json.Decoder
	// Tree is a clone of the agent's mount. The caller closes it.
	Tree *os.File
}

// A Status describes the work of an agent since its start.
type Status struct {
	Messages           map[string]int64
	Requests, Bytes    int64
	Rejected           int64
	Memory             int64 // the maximum resident size in bytes
	Errors             []string
	Mounted            time.Duration
	Connections, Total int
}

// ErrNone is returned by Dial if there is no agent.
var ErrNone = errors.New("there is no agent")

// dialTimeout is the timeout for the answer of an agent.
const dialTimeout = 10 * time.Second

// ErrBusy is returned by Dial if the agent has as many clients as it may.
var ErrBusy = errors.New("the agent has too many commands")

// Dial connects to an agent, which may use the name of an image from then on; "" for none.
func Dial(socket, image string) (*Client, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("%w: %w", ErrNone, err)
	case err != nil:
		return nil, fmt.Errorf("connecting to the agent: %w", err)
	}
	c := &Client{conn: conn, in: json.NewDecoder(conn)}
	if err = verifyPeer(conn); err == nil {
		err = sendImage(conn, image)
	}
	if err == nil {
		c.Tree, err = receiveTree(conn)
	}
	if err == nil {
		return c, nil
	}
	_ = conn.Close()
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
		return nil, fmt.Errorf("%w: it has ended: %w", ErrNone, err)
	}
	return nil, fmt.Errorf("the agent sent no mount: %w", err)
}

// verifyPeer verifies that the other end of a connection is a process of this user.
func verifyPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("verifying the user of the other process: %w", err)
	}
	if int(peer.Uid) != os.Getuid() {
		return fmt.Errorf("the other process belongs to the user %d", peer.Uid)
	}
	return nil
}

// sendImage sends the name of an image. An agent that has too many clients, or that is about to end, does not read it.
func sendImage(conn *net.UnixConn, image string) error {
	if len(image) > limits.AgentImage || strings.Contains(image, "\n") {
		return fmt.Errorf("the name of the image is longer than %d bytes or has several lines", limits.AgentImage)
	}
	err := conn.SetDeadline(time.Now().Add(dialTimeout))
	if err == nil {
		_, err = io.WriteString(conn, image+"\n")
	}
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	return err
}

func receiveTree(conn *net.UnixConn) (*os.File, error) {
	if err := conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return nil, err
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	var failed error
	err = raw.Read(func(socket uintptr) bool {
		fd, failed = fuse.Receive(int(socket))
		return !errors.Is(failed, unix.EAGAIN)
	})
	if errors.Is(failed, fuse.ErrNoDescriptor) {
		failed = ErrBusy
	}
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "mount"), conn.SetDeadline(time.Time{})
}

// Status asks the agent for its status.
func (c *Client) Status() (Status, error) {
	var s Status
	if err := c.conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return s, err
	}
	if _, err := c.conn.Write([]byte{'\n'}); err != nil {
		return s, fmt.Errorf("asking the agent: %w", err)
	}
	if err := c.in.Decode(&s); err != nil {
		return s, fmt.Errorf("asking the agent: %w", err)
	}
	return s, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// DialOrStart connects to the agent with this socket, as Dial. If no agent listens, it calls start, which returns when the agent listens. Of
// concurrent callers on a node, one starts the agent.
func DialOrStart(socket, image string, start func() error) (*Client, error) {
	c, err := Dial(socket, image)
	if !errors.Is(err, ErrNone) {
		return c, err
	}
	unlock, err := lock(socket)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if c, err = Dial(socket, image); !errors.Is(err, ErrNone) {
		return c, err
	}
	if err := start(); err != nil {
		return nil, err
	}
	return Dial(socket, image)
}

// lock locks the start and the end of the agent with this socket.
func lock(socket string) (unlock func(), err error) {
	path := socket + ".lock"
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("locking the start of the agent: %w", err)
		}
		current, err := lockFile(f, path)
		if err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("locking the start of the agent: %w", err)
		}
		if current {
			return func() { _ = f.Close() }, nil
		}
		_ = f.Close() // Sweep has deleted it
	}
}

// lockFile locks a file and reports whether it is still the one at path. Its time is that of the last lock, for Sweep.
func lockFile(f *os.File, path string) (current bool, err error) {
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return false, err
	}
	ours, err := f.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Lstat(path)
	if err != nil || !os.SameFile(ours, now) {
		return false, nil //nolint:nilerr // it was deleted
	}
	return true, os.Chtimes(path, time.Time{}, time.Now())
}

// sweepAge is the age from which on the lock and the socket of an agent that has ended are deleted.
const sweepAge = 7 * 24 * time.Hour

// Sweep deletes the locks and sockets of agents that have ended long ago.
func Sweep(folder string, now time.Time) {
	list, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, e := range list {
		info, err := e.Info()
		name := strings.TrimSuffix(e.Name(), ".lock")
		if err != nil || len(name) != 24 || now.Sub(info.ModTime()) < sweepAge {
			continue
		}
		c, err := Dial(filepath.Join(folder, name), "")
		if err == nil {
			_ = errors.Join(c.Tree.Close(), c.Close())
		}
		if errors.Is(err, ErrNone) {
			_ = os.Remove(filepath.Join(folder, e.Name()))
		}
	}
}
