package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/mount/fuse"
)

// errDenied is wrapped by errors of mounts that the system denies in a namespace that it has created.
var errDenied = errors.New("this system does not allow mounts in user namespaces")

// errCommand is wrapped by errors about the command itself.
var errCommand = errors.New("the command cannot be started")

// A Failure is an error of another process of this program. errors.Is reports whether it is ErrNamespace or fuse.ErrNoDevice.
type Failure struct {
	Text                      string
	Denied, NoDevice, Missing bool
}

// Describe returns an error as a value that can be sent to another process.
func Describe(err error) Failure {
	return Failure{
		Text: err.Error(), Denied: errors.Is(err, errDenied) || errors.Is(err, ErrNamespace), NoDevice: errors.Is(err, fuse.ErrNoDevice),
		Missing: errors.Is(err, exec.ErrNotFound) || errors.Is(err, errCommand) && errors.Is(err, unix.ENOENT),
	}
}

// Error returns the text of the error.
func (f *Failure) Error() string { return f.Text }

// Is reports whether the error is of the kind of target.
func (f *Failure) Is(target error) bool {
	return f.Denied && target == ErrNamespace || f.NoDevice && target == fuse.ErrNoDevice
}

// code returns the exit code of a command that could not be started.
func (f *Failure) code() int {
	if f.Missing {
		return 127
	}
	return 126
}

// Send writes an error to a process that calls ReceiveFailure.
func Send(w io.Writer, err error) error { return json.NewEncoder(w).Encode(Describe(err)) }

// ReceiveFailure returns the error of a text that Send wrote.
func ReceiveFailure(text []byte) error {
	var f Failure
	if err := json.Unmarshal(text, &f); err != nil || f.Text == "" {
		return fmt.Errorf("it has ended: %q", text)
	}
	return &f
}

// Advise adds to an error of Start or of another process what can be done about it.
func Advise(err error) error {
	if !errors.Is(err, ErrNamespace) && !errors.Is(err, fuse.ErrNoDevice) {
		return err
	}
	for _, f := range Check() {
		if f.Required && !f.OK {
			return fmt.Errorf("%w: %s; see `slipway doctor --offline`", err, f.Advice)
		}
	}
	return err
}

// denied adds errDenied to an error if the system does not allow a mount.
func denied(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w: %w", errDenied, err)
	}
	return err
}

// report prints why the command could not be started, and returns the exit code; false if it was started.
func (p *Process) report() (int, bool) {
	defer func() { _ = p.status.Close() }()
	failure := p.failure()
	if failure == nil {
		return 0, false
	}
	fmt.Fprintln(os.Stderr, "slipway:", Advise(failure))
	if f, ok := errors.AsType[*Failure](failure); ok {
		return f.code(), true
	}
	return 126, true
}

// failure returns why the command could not be started; nil if the program was executed, which closed the pipe, or if a signal ended the process before.
func (p *Process) failure() error {
	text, err := io.ReadAll(io.LimitReader(p.status, limits.AgentMessage))
	if err != nil || len(text) == 0 {
		return nil //nolint:nilerr // it is unknown
	}
	if p.script == nil {
		return ReceiveFailure(text)
	}
	f := Describe(p.script.failure(text, p.name))
	return &f
}
