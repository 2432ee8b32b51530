package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/services/builder/daemon/step"
	"slipway.dev/services/internal/limits"
)

// steps serves the steps of builds. Each gets its own proxy for as long as it runs, and its
// output is forwarded. slipway-runc presents steps at a socket that no step sees.
type steps struct {
	egress dial
	builds builds
	log    *slog.Logger
}

func newSteps(egress dial, log *slog.Logger) *steps {
	return &steps{egress: egress, builds: builds{all: map[string]*build{}}, log: log}
}

// listenSteps opens the socket.
func listenSteps(path string) (*net.UnixListener, error) {
	_ = os.Remove(path)
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("listening for steps: %w", err)
	}
	return l, os.Chmod(path, 0o600)
}

// serve serves steps until the listener is closed.
func (s *steps) serve(l *net.UnixListener) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			if !waitTemporary(err) {
				return
			}
			continue
		}
		go func() {
			defer func() { _ = conn.Close() }()
			if err := s.take(conn); err != nil {
				s.log.Warn("A step was not served", "err", err)
			}
		}()
	}
}

// waitTemporary waits after a temporary error of Accept, such as too many open files. It returns
// false if the listener is closed.
func waitTemporary(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return false
	}
	time.Sleep(20 * time.Millisecond)
	return true
}

// presented is a step as slipway-runc presents it.
type presented struct {
	step.Request
	process  *os.File // becomes readable when the step ends
	outputs  []*os.File
	listener net.Listener // nil for a step without network
}

func (p *presented) close() {
	_ = p.process.Close()
	for _, f := range p.outputs {
		_ = f.Close()
	}
	if p.listener != nil {
		_ = p.listener.Close()
	}
}

// take serves one step from its beginning to its end.
func (s *steps) take(conn *net.UnixConn) error {
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	p, err := receive(conn)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { await(p.process); close(ended) }()
	b := s.builds.of(p.Token)
	if b == nil {
		defer p.close()
		return sendResponse(conn, step.Response{Refused: "the build that it belongs to has ended"}, nil)
	}
	select {
	case b.steps <- struct{}{}:
		defer func() { <-b.steps }()
	case <-ended:
		p.close()
		return nil
	}
	ours, theirs, err := outputs(b.log, p.outputs)
	if err != nil {
		defer p.close()
		return errors.Join(err, sendResponse(conn, step.Response{Refused: "the build service has too many open logs; try again"}, nil))
	}
	stop := s.serveProxy(p, b)
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	err = sendResponse(conn, step.Response{Parent: b.parent}, theirs)
	closeAll(theirs)
	for _, o := range ours {
		go o.pump() // ends with the last process of the step, and closes what was received
	}
	if err != nil {
		return err
	}
	<-ended
	return nil
}

// serveProxy serves the step's proxy until stop is called.
func (s *steps) serveProxy(p *presented, b *build) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	if p.listener == nil {
		return func() { cancel(); _ = p.process.Close() }
	}
	l := newCounted(ctx, p.listener, b)
	proxy := newProxy(s.egress)
	server := proxyServer(proxy)
	go func() { _ = server.Serve(l) }()
	return func() {
		cancel()
		_ = server.Close()
		l.closeAll()
		proxy.close()
		_ = p.process.Close()
	}
}

func proxyServer(p *proxy) *http.Server {
	return &http.Server{
		Handler: p, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: limits.StepProxyHeader,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
}

// receive receives a step from slipway-runc.
func receive(conn *net.UnixConn) (*presented, error) {
	buf, oob := make([]byte, step.PacketBytes), make([]byte, unix.CmsgSpace(4*4))
	n, oobn, _, _, err := conn.ReadMsgUnix(buf, oob)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return nil, errors.New("it came without descriptors")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	p := &presented{}
	if err := json.Unmarshal(buf[:n], &p.Request); err != nil || len(fds) < 3 || p.Network != (len(fds) == 4) {
		closeAll(fds)
		return nil, errors.New("it came with descriptors that do not match its header")
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
		_ = unix.SetNonblock(fd, true) // so that waiting for them blocks no thread
	}
	p.process = os.NewFile(uintptr(fds[0]), "process")
	p.outputs = []*os.File{os.NewFile(uintptr(fds[1]), "stdout"), os.NewFile(uintptr(fds[2]), "stderr")}
	if !p.Network {
		return p, nil
	}
	file := os.NewFile(uintptr(fds[3]), "listener")
	defer file.Close()
	if p.listener, err = net.FileListener(file); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// sendResponse sends the response, with the descriptors of the step's output.
func sendResponse(conn *net.UnixConn, w step.Response, fds []int) error {
	raw, err := json.Marshal(w)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err = conn.WriteMsgUnix(raw, rights, nil)
	return err
}

// await waits until the process of a pidfd has ended.
func await(pidfd *os.File) {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n > 0
	})
}
