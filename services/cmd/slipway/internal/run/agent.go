package run

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/services/mount/agent"
	"slipway.dev/services/mount/cache"
	"slipway.dev/services/mount/fuse"
	"slipway.dev/services/mount/sandbox"
)

// agentMarker is the name under which the program starts itself as an agent, and mountMarker that for a mount that is not in a sandbox.
const agentMarker, mountMarker = "slipway-agent", "slipway-mount"

// A serving is what a process that serves an environment is started with.
type serving struct {
	Name       cache.Name
	Manifest   []byte
	Config     []byte
	Prefix     string
	Cache      string
	Lower      []string
	OfRoot     []string // see cache.TrustRoot
	Connection connection
	Offline    bool
	Socket     string        // of an agent
	Idle       time.Duration // of an agent
	Folder     string        // of a mount
}

// agent connects to the agent of the environment, and starts the agent if it is not running.
func (l *launch) agent() (*agent.Client, error) {
	folder, err := agent.Folder(os.Getenv)
	if err != nil {
		return nil, err
	}
	parts := append([]string{l.name.Environment, l.cache.Dir(), fmt.Sprint(l.offline, l.connection)}, l.cache.Lower()...)
	socket := filepath.Join(folder, agent.Name(os.Getenv, parts...))
	return agent.DialOrStart(socket, l.name.Image, func() error {
		agent.Sweep(folder, time.Now())
		s := l.serving()
		s.Socket, s.Idle = socket, l.idle
		return s.start(agentMarker, true)
	})
}

func (l *launch) serving() serving {
	return serving{Name: l.name, Manifest: l.manifest, Config: l.config, Prefix: l.prefix, Cache: l.cache.Dir(), Lower: l.cache.Lower(), OfRoot: l.cache.RootFolders(), Connection: l.connection, Offline: l.offline}
}

// start starts a process that serves the environment, in new namespaces or in those of this process, and returns when it is ready.
func (s serving) start(marker string, namespaces bool) error {
	spec, err := sandbox.Pass(s)
	if err != nil {
		return err
	}
	defer func() { _ = spec.Close() }()
	ready, theirs, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("starting a process: %w", err)
	}
	defer func() { _ = ready.Close() }()
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe")
	cmd.Args, cmd.Dir, cmd.Env = []string{marker}, "/", withoutFolder(cmp.Or(s.Folder, s.Prefix), os.Environ())
	cmd.ExtraFiles = []*os.File{spec, theirs}
	sandbox.Detach(cmd, namespaces)
	err = cmd.Start()
	_ = theirs.Close()
	if err != nil {
		return sandbox.StartError(err)
	}
	text, err := awaitReady(ready)
	if err != nil {
		_ = cmd.Process.Kill() // it has ended otherwise
		return errors.Join(fmt.Errorf("starting a process: %w", err), cmd.Wait())
	}
	defer func() { _ = cmd.Process.Release() }()
	if string(text) != readyText {
		return fmt.Errorf("the process that serves the environment: %w", sandbox.ReceiveFailure(text))
	}
	return nil
}

// startTimeout is the timeout for the start of a process that serves an environment. Other commands of the user wait meanwhile.
const startTimeout = time.Minute

// readyText is what a process writes when it serves; otherwise it writes an error with sandbox.Send.
const readyText = "ready"

func awaitReady(ready *os.File) ([]byte, error) {
	if err := ready.SetReadDeadline(time.Now().Add(startTimeout)); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(ready, 16<<10))
}

// withoutFolder returns variables without the folders of the environment, which is mounted at folder, in PATH: a process that serves files must not execute any
// of them, e.g. as a helper for logins.
func withoutFolder(folder string, env []string) []string {
	var out []string
	for _, v := range env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			var dirs []string
			for _, d := range filepath.SplitList(path) {
				if d != folder && !strings.HasPrefix(d, folder+"/") {
					dirs = append(dirs, d)
				}
			}
			v = "PATH=" + strings.Join(dirs, ":")
		}
		out = append(out, v)
	}
	return out
}

// Entered reports whether this process was started by another one of this program, and returns the exit code after its work.
func Entered() (code int, ok bool) {
	switch {
	case sandbox.Entered():
		return sandbox.Enter(), true
	case len(os.Args) > 0 && (os.Args[0] == agentMarker || os.Args[0] == mountMarker):
		return serveDetached(os.Args[0]), true
	}
	return 0, false
}

// serveDetached serves an environment, and reports to the process that started it whether it is ready.
func serveDetached(marker string) int {
	runtime.LockOSThread()
	ready := os.NewFile(4, "ready")
	unix.CloseOnExec(4)
	var s serving
	err := errors.Join(sandbox.CloseInherited(5), sandbox.UseAllProcessors(), sandbox.Receive(os.NewFile(3, "command"), &s))
	if err == nil && marker == agentMarker {
		err = s.agent(ready)
	} else if err == nil {
		err = s.mount(ready)
	}
	if err == nil {
		return 0
	}
	_ = sandbox.Send(ready, err) // the other process has ended otherwise
	return 1
}

// useName makes the environment use the name of an image of a new command.
func (e *opened) useName(image string) {
	if e.sources != nil {
		e.sources.add(image)
	}
}

func (s serving) open() (*opened, error) {
	c := cache.Open(s.Cache, s.Lower...)
	if s.Socket != "" { // in a user namespace
		c.TrustRoot(s.OfRoot)
	}
	l := launch{cache: c, name: s.Name, manifest: s.Manifest, config: s.Config, connection: s.Connection, offline: s.Offline}
	return l.open(context.Background())
}

// agent serves an environment to the commands of the user.
func (s serving) agent(ready *os.File) error {
	e, err := s.open()
	if err != nil {
		return err
	}
	defer e.files.Close()
	folder, err := s.hiddenFolder()
	if err != nil {
		return err
	}
	if err := sandbox.Prepare(folder); err != nil {
		return err
	}
	fd, err := fuse.Mount(folder, os.Getuid(), os.Getgid(), false)
	if err != nil {
		return err
	}
	limitMemory()
	var failed agent.Errors
	work := serve(fd, e, failed.Add)
	e.files.FetchFirsts(e.cache.Firsts(e.digest))
	tree, err := agent.Clone(folder)
	if err != nil {
		return err
	}
	_ = unix.Close(tree)
	a := agent.Server{Folder: folder, Idle: s.Idle, Status: work.status, Errors: &failed, Image: e.useName}
	if err := a.Listen(s.Socket); err != nil {
		return err
	}
	if err := report(ready); err != nil {
		return err
	}
	a.Serve()
	if err := fuse.Unmount(folder); err != nil {
		return err
	}
	<-work.done // when the last command has ended
	return nil
}

// hiddenFolder returns a folder of which the agent needs no files, to mount the environment at in its namespace. It is not the prefix:
// the agent would read certificates, logins and programs of the user that are below the prefix from the environment that it serves, and
// wait for itself.
func (s serving) hiddenFolder() (string, error) {
	const folder = "/proc/fs" // no file of it is opened by path
	if info, err := os.Stat(folder); err == nil && info.IsDir() {
		return folder, nil
	}
	own := filepath.Join(filepath.Dir(s.Socket), "mount")
	if err := os.Mkdir(own, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("creating a folder for the mount: %w", err)
	}
	return own, nil
}

// serve serves the connection of a mount, and calls failed for the errors of reads.
func serve(fd int, e *opened, failed func(error)) *served {
	s := &served{files: e.files, done: make(chan struct{})}
	s.server = fuse.NewServer(fd, e.index, e.files, fuse.Options{UID: os.Getuid(), GID: os.Getgid(), Failed: failed})
	go func() {
		defer close(s.done)
		_ = s.server.Serve() // the file system is unmounted
	}()
	return s
}

// mount serves an environment at a folder until it is unmounted.
func (s serving) mount(ready *os.File) error {
	e, err := s.open()
	if err != nil {
		return err
	}
	defer e.files.Close()
	// The certificates are read before a mount can hide them: the process would wait for itself.
	if _, err := x509.SystemCertPool(); err != nil && !s.Offline {
		return fmt.Errorf("reading the certificates of the system: %w", err)
	}
	var fd int
	if os.Getuid() == 0 {
		fd, err = fuse.Mount(s.Folder, 0, 0, true)
	} else {
		fd, err = fuse.Fusermount(s.Folder)
	}
	if err != nil {
		return err
	}
	limitMemory()
	work := newServed(fd, e)
	if err := report(ready); err != nil {
		return errors.Join(err, fuse.Unmount(s.Folder))
	}
	<-work.done
	return nil
}

// report tells the process that started this one that it is ready.
func report(ready *os.File) error {
	_, err := ready.WriteString(readyText)
	return errors.Join(err, ready.Close())
}
