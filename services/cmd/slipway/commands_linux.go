package main

import (
	"errors"

	"slipway.dev/services/cmd/slipway/internal/doctor"
	mounted "slipway.dev/services/cmd/slipway/internal/run"
)

// linuxConstructors returns the constructors of the commands that only Linux has.
func linuxConstructors() []namedConstructor {
	return []namedConstructor{
		{"run", mounted.Run},
		{"shell", mounted.Shell},
		{"fetch", mounted.Fetch},
		{"mount", mounted.Mount},
		{"unmount", mounted.Unmount},
		{"cache", mounted.Cache},
		{"singularity", mounted.Singularity},
		{"doctor", doctor.Command},
	}
}

// entered reports whether this process was started by another one of this program, in the namespaces of a command, and returns the exit
// code after its work.
func entered() (code int, ok bool) { return mounted.Entered() }

// engines returns the names of programs that this one is called by instead of `slipway singularity`.
func engines() []string { return mounted.Engines() }

// exitCode returns the exit code of a command that ran in an environment; false if err is another error.
func exitCode(err error) (code int, ok bool) {
	exit, ok := errors.AsType[mounted.Exit](err)
	return int(exit), ok
}
