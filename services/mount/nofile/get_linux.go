//go:build amd64 || arm64

package nofile

// get gets the limit from the kernel. It returns 0, or another number for an error.
//
//go:noescape
func get(limit *[2]uint64) (errno uintptr)
