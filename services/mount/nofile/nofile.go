// Package nofile has the limit of open files that this process was started with, for the commands that it starts.
//
// Go raises the soft limit of a program when the package syscall is initialised, and restores it only for programs that syscall and os/exec
// start. This package imports nothing, so that it is initialised before: Go initialises packages that have no imports left in the order
// of their paths. Its test fails if this is no longer so.
package nofile

// original is the limit, soft and hard.
//
//nolint:gochecknoglobals // never changed
var original, known = read()

func read() (limit [2]uint64, known bool) {
	known = get(&limit) == 0
	return limit, known
}

// Original returns the soft and the hard limit; false if they are unknown.
func Original() (soft, hard uint64, ok bool) { return original[0], original[1], known }
