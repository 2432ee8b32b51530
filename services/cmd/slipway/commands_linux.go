package main

import (
	"errors"

	"slipway.dev/services/cmd/slipway/internal/doctor"
	mounted "slipway.dev/services/cmd/slipway/internal/run"
)

// linuxConstructors returns the constructors of the commands that only Linux has.
func linuxConstructors() []namedConstructor {
	return []namedConstructor{
		{"run", execute, mounted.Run},
		{"shell", execute, mounted.Shell},
		{"fetch", execute, mounted.Fetch},
		{"mount", execute, mounted.Mount},
		{"unmount", execute, mounted.Unmount},
		{"cache", execute, mounted.Cache},
		{"singularity", execute, mounted.Singularity},
		{"doctor", program, doctor.Command},
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
