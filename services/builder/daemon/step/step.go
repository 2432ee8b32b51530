// Package step defines the protocol for build steps between three parties: the engine,
// which passes a build's token to BuildKit; slipway-runc, which BuildKit runs for each step
// and which finds the token there; and the process that serves steps and responds to
// slipway-runc. The package has few imports, since slipway-runc starts for each step.
package step

import "crypto/rand"

// Proxy is the address of a step's own proxy, on the step's loopback. The step can reach
// nothing else.
const Proxy = "127.0.0.1:3128"

// TokenPrefix is the prefix of the value of a build's ALL_PROXY. BuildKit excludes the
// proxy variables from its cache keys, so they can carry a build's token. The token
// identifies the build of a step, and no step sees it. ALL_PROXY is the proxy variable that
// Dockerfiles declare least often; a declared one is part of the key.
const TokenPrefix = "slipway-step:"

// NewToken returns a new token for a build of a scope (letters and digits).
func NewToken(scope string) string { return TokenPrefix + scope + "." + rand.Text() }

// Environment variables of slipway-runc, which come from the process that starts buildkitd.
// Steps do not see them.
const (
	// EnvSocket is the path of the socket of the process that serves steps.
	EnvSocket = "SLIPWAY_STEP_SOCKET"
	// EnvRuntime is the path of runc.
	EnvRuntime = "SLIPWAY_STEP_RUNTIME"
	// EnvState is the folder where runc records its containers.
	EnvState = "SLIPWAY_STEP_STATE"
	// EnvNoNewPrivileges is "1" if setuid programs are disabled.
	EnvNoNewPrivileges = "SLIPWAY_STEP_NO_NEW_PRIVILEGES"
)

// Labels of a daemon's worker that state that its steps are served. Only then do remote
// builders pass Proxy to steps.
const (
	Label         = "dev.slipway.steps"
	LabelIsolated = "isolated"
)

// MountProc is the argument with which slipway-runc only tests whether /proc can be mounted
// in new PID and mount namespaces.
const MountProc = "slipway-mount-proc"

// NoOp is the argument with which slipway-runc does nothing and succeeds.
const NoOp = "slipway-nothing"

// Request is sent by slipway-runc for a step, as one packet. It comes with these
// descriptors: a pidfd of the process that becomes runc, its stdout and its stderr, and the
// listener at Proxy unless the step has no network.
type Request struct {
	// Token is the build's token; "" if BuildKit has none.
	Token string
	// Network is false for a step without network (RUN --network=none).
	Network bool
}

// Response is the response. Unless the step is refused, it comes with two descriptors for
// the step's stdout and stderr.
type Response struct {
	// Parent is the parent of the step's control group. If it is "", runc chooses the
	// group, or creates none if the machine does not allow that.
	Parent string
	// Refused is the reason why the step may not start, for its log; "" if it may.
	Refused string
}

// PacketBytes limits the size of a Request or a Response.
const PacketBytes = 4096

// Share is a build's share of the machine, from the process that serves its steps.
type Share struct {
	// Scope is the control group that BuildKit sees. It differs between callers that must
	// not share cached steps, and not between the builds of one caller. The steps' actual
	// group is in Response.
	Scope string
	// Token is the build's token with its prefix; "" if its steps are not served.
	Token string
	// OutOfMemory reports whether a step reached the memory limit.
	OutOfMemory func() bool
	// Kill kills all processes of the build's steps; nil for a remote daemon.
	Kill func()
	// Release releases the share. It must be called when the build has ended.
	Release func()
}
