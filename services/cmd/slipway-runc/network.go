package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"slipway.dev/services/builder/daemon/step"
)

// prepare edits the container and moves this thread into the container's network.
func prepare(c call, strict bool) error {
	bundle, err := step.ReadBundle(c.bundle)
	if err != nil {
		return err
	}
	network, err := bundle.Restrict(strict)
	if err != nil {
		return err
	}
	response, err := sendRequest(step.Request{Token: bundle.Token, Network: network})
	if err != nil {
		return err
	}
	joins := ""
	if network {
		// A path, so that `runc exec` joins the network as well. This process becomes runc.
		joins = fmt.Sprintf("/proc/%d/ns/net", os.Getpid())
	}
	bundle.Place(response.Parent, c.id, joins)
	return bundle.Write()
}

// sendRequest presents the step to the process that serves steps, and returns its response.
func sendRequest(h step.Request) (step.Response, error) {
	// Connect before changing networks: the path of a socket does not depend on them.
	conn, err := connect()
	if err != nil {
		return step.Response{}, err
	}
	defer func() { _ = unix.Close(conn) }()
	me, err := unix.PidfdOpen(os.Getpid(), 0) // still identifies this process when it is runc
	if err != nil {
		return step.Response{}, fmt.Errorf("watching it: %w", err)
	}
	fds := []int{me, 1, 2}
	if h.Network {
		l, err := enter()
		if err != nil {
			return step.Response{}, err
		}
		fds = append(fds, l)
	}
	raw, err := json.Marshal(h)
	if err != nil {
		return step.Response{}, err
	}
	if err := unix.Sendmsg(conn, raw, unix.UnixRights(fds...), nil, 0); err != nil {
		return step.Response{}, fmt.Errorf("the build service does not listen: %w", err)
	}
	w, err := readResponse(conn)
	// Executing runc closes all others; these would keep the step's proxy open.
	for _, fd := range append(fds[3:], me) {
		_ = unix.Close(fd)
	}
	return w, err
}

func connect() (int, error) {
	conn, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Connect(conn, &unix.SockaddrUnix{Name: os.Getenv(step.EnvSocket)}); err != nil {
		_ = unix.Close(conn)
		return -1, fmt.Errorf("the build service does not respond: %w", err)
	}
	return conn, nil
}

// readResponse waits for the response and redirects this process's output to the received
// descriptors. The response may only arrive after other steps of the build have ended.
func readResponse(conn int) (w step.Response, err error) {
	buf, oob := make([]byte, step.PacketBytes), make([]byte, unix.CmsgSpace(2*4))
	n, oobn, _, _, err := unix.Recvmsg(conn, buf, oob, unix.MSG_CMSG_CLOEXEC)
	for errors.Is(err, unix.EINTR) {
		n, oobn, _, _, err = unix.Recvmsg(conn, buf, oob, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil || n == 0 {
		return w, errors.New("the build service rejected the step")
	}
	if err := json.Unmarshal(buf[:n], &w); err != nil {
		return w, errors.New("the build service's response cannot be read")
	}
	if w.Refused != "" {
		return w, errors.New(w.Refused)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return w, errors.New("the build service sent no log")
	}
	outputs, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(outputs) != 2 {
		return w, errors.New("the build service sent no log")
	}
	for i, fd := range outputs {
		if err := unix.Dup3(fd, i+1, 0); err != nil {
			return w, err
		}
	}
	return w, nil
}

// enter moves this thread into a new network and returns a listener at the proxy's address.
// The network contains nothing else.
func enter() (listener int, err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return -1, fmt.Errorf("this machine gives it no network of its own: %w", err)
	}
	if err := step.LoopbackUp(); err != nil {
		return -1, fmt.Errorf("bringing up its loopback: %w", err)
	}
	// Like Docker: ping and low ports need no privilege. If this cannot be set, root may
	// still use both.
	_ = os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 2147483647"), 0o600)
	_ = os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0o600)
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	at := netip.MustParseAddrPort(step.Proxy)
	if err := unix.Bind(l, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
		return -1, fmt.Errorf("listening for it: %w", err)
	}
	if err := unix.Listen(l, 128); err != nil {
		return -1, fmt.Errorf("listening for it: %w", err)
	}
	return l, nil
}

// mountProc mounts /proc in namespaces of its own.
func mountProc() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return err
	}
	return unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}
