// Package step is what three parties agree on about the steps of builds: the
// engine, which gives BuildKit a build's token; slipway-runc, which BuildKit runs
// for each step and which finds the token there; and the process that answers
// slipway-runc and serves the step. It imports little, since slipway-runc starts
// anew for each step.
package step

import "crypto/rand"

// Proxy is where a step's own proxy listens, on the step's loopback. Nothing else
// is in its network.
const Proxy = "127.0.0.1:3128"

// TokenPrefix begins the value of a build's ALL_PROXY. BuildKit leaves the proxy
// variables out of its cache keys, so that a build's token may travel there: it
// says whose step this is, and no step sees it. ALL_PROXY is the one that
// Dockerfiles declare least (a declared one is part of the key).
const TokenPrefix = "slipway-step:"

// NewToken makes one for a build of a scope (letters and digits).
func NewToken(scope string) string { return TokenPrefix + scope + "." + rand.Text() }

// The environment of slipway-runc, which comes from the process that starts
// buildkitd. Steps do not see it.
const (
	// EnvSocket is the path of the socket of whoever serves steps.
	EnvSocket = "SLIPWAY_STEP_SOCKET"
	// EnvRuntime is the path of runc.
	EnvRuntime = "SLIPWAY_STEP_RUNTIME"
	// EnvState is the folder where runc notes which containers there are.
	EnvState = "SLIPWAY_STEP_STATE"
	// EnvNoNewPrivileges is "1" where setuid programs are to have no effect.
	EnvNoNewPrivileges = "SLIPWAY_STEP_NO_NEW_PRIVILEGES"
)

// A daemon says in the labels of its worker that its steps come to somebody who
// serves them: only then do builders elsewhere tell them of Proxy.
const (
	Label         = "dev.slipway.steps"
	LabelIsolated = "isolated"
)

// MountProc is the word that has slipway-runc try whether /proc can be mounted in
// its own, new namespaces of processes and mounts, and nothing else.
const MountProc = "slipway-mount-proc"

// Nothing is the word that has slipway-runc do nothing, and succeed.
const Nothing = "slipway-nothing"

// Hello is what slipway-runc says of a step, as one packet. These descriptors go
// with it: a pidfd of the process that becomes runc, its stdout and its stderr, and
// the listener at Proxy unless the step has no network.
type Hello struct {
	// Token is the build's; "" where BuildKit was given none.
	Token string
	// Network is false for a step without network (RUN --network=none).
	Network bool
}

// Welcome is the answer. Two descriptors go with it, unless the step is refused:
// what the step writes to as its stdout and its stderr.
type Welcome struct {
	// Parent is the control group in which the step's own is made; "" makes none
	// where the machine allows it none.
	Parent string
	// Refused is why the step may not start, as its log is to show it; "" when it may.
	Refused string
}

// PacketBytes is the most that a Hello or a Welcome may have.
const PacketBytes = 4096

// Share is what a build is given of the machine, by whoever serves its steps.
type Share struct {
	// Scope is the control group that BuildKit is told. It differs between callers
	// that may not find each other's steps in the cache, and not between the builds
	// of one caller; the steps' real group is in Welcome.
	Scope string
	// Token is the build's, with its prefix; "" where nobody serves its steps.
	Token string
	// OutOfMemory says whether a step hit the limit.
	OutOfMemory func() bool
	// Kill ends all processes of the build's steps.
	Kill func()
	// Release gives the share back. The caller calls it when the build has ended.
	Release func()
}
