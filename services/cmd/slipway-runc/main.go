// Command slipway-runc is the OCI runtime of buildkitd for build steps. For "run" and
// "create" it removes unneeded privileges from the container, moves it into a network that
// only contains a proxy, and executes runc. The process that started buildkitd serves the
// proxy. For "exec" it restricts the new process. All other commands are passed to runc
// unchanged. If anything fails, the step does not start. The program is small, since it
// starts several times for each step. It prints no paths, since its output is in the build's
// log.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"slipway.dev/services/builder/daemon/step"
)

func main() {
	// The network belongs to a thread, and the thread that executes runc passes it on.
	runtime.LockOSThread()
	if err := become(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "This step cannot be started:", err)
		os.Exit(1)
	}
}

// become prepares the container and replaces this process by runc.
func become(args []string) error {
	call := parse(args)
	strict := os.Getenv(step.EnvNoNewPrivileges) == "1"
	var err error
	switch call.verb {
	case "run", "create":
		err = prepare(call, strict)
	case step.MountProc:
		if err := mountProc(); err != nil {
			return err
		}
		os.Exit(0)
	case step.NoOp:
		os.Exit(0)
	case "exec":
		err = step.RestrictProcess(call.process, strict)
	}
	if err != nil {
		return err
	}
	program := os.Getenv(step.EnvRuntime)
	if program == "" {
		return errors.New("the build service did not configure a runtime for steps")
	}
	argv := []string{program}
	if state := os.Getenv(step.EnvState); state != "" {
		argv = append(argv, "--root", state)
	}
	if err := syscall.Exec(program, append(argv, args...), environment()); err != nil {
		return fmt.Errorf("the build service's runc cannot be executed: %w", err.(syscall.Errno)) //nolint:errorlint,forcetypeassert // it is one, without the path
	}
	return nil
}

// environment returns our environment without the variables for this program.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "SLIPWAY_STEP_") })
}

// call holds the parsed arguments of runc.
type call struct{ verb, bundle, process, id string }

// parse parses runc's arguments as runc does: a flag's value is the next argument, or
// follows "=".
func parse(args []string) (c call) {
	valued := map[string]*string{
		"log": nil, "log-format": nil, "root": nil, "criu": nil, "rootless": nil, "console-socket": nil, "pid-file": nil,
		"preserve-fds": nil, "bundle": &c.bundle, "b": &c.bundle, "process": &c.process, "p": &c.process,
		"pidfd-socket": nil, "user": nil, "u": nil, "cwd": nil, "env": nil, "e": nil, "cap": nil, "c": nil, "cgroup": nil,
		"additional-gids": nil, "g": nil, "process-label": nil, "apparmor": nil,
	}
	var rest []string
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") {
			rest = append(rest, args[i])
			continue
		}
		name, value, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		to, takes := valued[name]
		if takes && !joined && i+1 < len(args) {
			i++
			value = args[i]
		}
		if to != nil {
			*to = value
		}
	}
	if len(rest) > 0 {
		c.verb = rest[0]
	}
	if len(rest) > 1 {
		c.id = rest[1]
	}
	return c
}
