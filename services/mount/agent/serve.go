package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/services/internal/limits"
)

// A Server sends clones of a mount to clients.
type Server struct {
	// Folder is where the environment is mounted in the namespace of the agent.
	Folder string
	// Idle is the time without clients after which the agent ends.
	Idle time.Duration
	// Status describes the agent for clients, without errors.
	Status func() Status
	// Errors are the errors of reads.
	Errors *Errors
	// Image is called with the name of the image of each client, before the client has the mount. It is called concurrently.
	Image func(name string)

	mu     sync.Mutex
	now    int // connections
	total  int
	ended  bool
	timer  *time.Timer
	listen *net.UnixListener
	socket string
	own    os.FileInfo // the socket
}

// firstIdle is the minimum time that an agent waits for its first client, which started it.
const firstIdle = 10 * time.Second

// acceptRetry is the time after which a failed accept is tried again, e.g. when no descriptor was free.
const acceptRetry = 100 * time.Millisecond

// Listen creates the socket. The caller holds the lock of DialOrStart.
func (s *Server) Listen(socket string) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the socket of an agent that has ended: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return fmt.Errorf("listening for commands: %w", err)
	}
	l.SetUnlinkOnClose(false) // it may be the socket of another agent by then
	s.listen, s.socket = l, socket
	if s.own, err = os.Lstat(socket); err != nil {
		return fmt.Errorf("listening for commands: %w", err)
	}
	return nil
}

// Serve serves clients until there were none for the time Idle. It removes the socket.
func (s *Server) Serve() {
	s.timer = time.AfterFunc(max(s.Idle, firstIdle), s.end)
	var clients sync.WaitGroup
	for {
		conn, err := s.listen.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			s.removeSocket()
			clients.Wait()
			return
		case err != nil:
			time.Sleep(acceptRetry)
		case verifyPeer(conn) != nil:
			_ = conn.Close()
		case s.begin():
			clients.Go(func() { s.client(conn) })
		default:
			_, _ = conn.Write([]byte{0}) // without a mount: ErrBusy
			_ = conn.Close()
		}
	}
}

// removeSocket removes the socket, unless another agent has replaced it.
func (s *Server) removeSocket() {
	unlock, err := lock(s.socket)
	if err != nil {
		return // the next agent removes it
	}
	defer unlock()
	now, err := os.Lstat(s.socket)
	if err == nil && os.SameFile(now, s.own) && now.ModTime().Equal(s.own.ModTime()) {
		_ = os.Remove(s.socket)
	}
}

// end ends the agent, unless a client has connected meanwhile.
func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == 0 {
		s.ended = true
		_ = s.listen.Close()
	}
}

func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now >= limits.AgentConnections || s.ended {
		return false
	}
	s.timer.Stop()
	s.now++
	s.total++
	return true
}

func (s *Server) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now--; s.now == 0 {
		s.timer.Reset(s.Idle)
	}
}

// client sends a clone of the mount, and a status for each byte that the client sends.
func (s *Server) client(conn *net.UnixConn) {
	defer s.finish()
	defer func() { _ = conn.Close() }()
	in := bufio.NewReaderSize(conn, limits.AgentImage+1)
	image, err := receiveImage(conn, in)
	if err != nil {
		return
	}
	if image != "" {
		s.Image(image)
	}
	_, number := s.Errors.Since(0)
	if err := sendClone(conn, s.Folder); err != nil {
		return // the client reports that it got no mount, and mounts itself
	}
	out := json.NewEncoder(conn)
	var reported []string // each status has the errors of the one before, and those that have occurred since
	for {
		if _, err := in.ReadByte(); err != nil {
			return
		}
		status := s.Status()
		s.mu.Lock()
		status.Connections, status.Total = s.now, s.total
		s.mu.Unlock()
		var added []string
		added, number = s.Errors.Since(number)
		reported = append(reported, added[:min(len(added), maxReported-len(reported))]...)
		status.Errors = reported
		if err := out.Encode(status); err != nil {
			return
		}
	}
}

// receiveImage returns the name of an image that a client sent; "" for none.
func receiveImage(conn *net.UnixConn, in *bufio.Reader) (string, error) {
	if err := conn.SetReadDeadline(time.Now().Add(dialTimeout)); err != nil {
		return "", err
	}
	line, err := in.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	return string(line[:len(line)-1]), conn.SetReadDeadline(time.Time{})
}

func sendClone(conn *net.UnixConn, prefix string) error {
	tree, err := Clone(prefix)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(tree) }()
	_, _, err = conn.WriteMsgUnix([]byte{0}, unix.UnixRights(tree), nil)
	return err
}

// Clone returns a detached clone of a mount (Linux 5.2 and later).
func Clone(prefix string) (int, error) {
	tree, err := unix.OpenTree(unix.AT_FDCWD, prefix, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("cloning the mount at %s: %w", prefix, err)
	}
	return tree, nil
}
