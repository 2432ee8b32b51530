package limits

import "strconv"

// Bounds on what the steps of one build may use at a time, whatever they do.
const (
	// StepsAtOnce is how many steps of a build run at a time; the others wait.
	StepsAtOnce = 64
	// StepConnections is how many connections the steps of a build have open at a
	// time; more wait to be accepted.
	StepConnections = 256
	// StepConnectionsASecond is how many connections the steps of a build may open,
	// once they have opened StepConnectionsAtFirst.
	StepConnectionsASecond = 50
	// StepConnectionsAtFirst is how many connections a build may open as fast as it
	// likes.
	StepConnectionsAtFirst = 1000
	// StepProxyHeader is how long a request's head may be, in bytes.
	StepProxyHeader = 64 << 10

	// StepLogHead is how much all steps of a build print before the middle of what
	// they print is left out, in bytes.
	StepLogHead = 15 << 19
	// StepLogTail is how much of the end of one step's output is kept then, in bytes.
	StepLogTail = 3 << 19
	// StepLogTails is how much of the ends of all steps is kept, in bytes.
	StepLogTails = 16 << 20
	// StepLogLeast is what is kept of the end of a step in any case, in bytes: its
	// last words say why it failed.
	StepLogLeast = 4 << 10
	// DaemonStepLog is what buildkitd itself takes of one step's output, in bytes and
	// in bytes per second: more than ever comes.
	DaemonStepLog = 16 << 20

	// BuildLosses is how often a build may be under way when the build daemon dies.
	BuildLosses = 3
)

// stepRows bound what the steps of a build, and the daemon that makes them, may use.
func stepRows() []Row {
	return []Row{
		{What: "memory of a build's steps", Key: "build_memory", Why: "one build must not take the machine's memory from the others and from the service"},
		{What: "memory of buildkitd", Key: "buildkit_memory", Why: "a Dockerfile, or an ONBUILD of its base, can make it grow without an end; a few hundred MiB are usual, and layers that are being written count as well"},
		{What: "processes and threads of a build's steps", Key: "build_pids", Why: "a fork bomb ends in its own build"},
		{What: "processors of a build's steps", Key: "build_cpus", Why: "unbounded by default, since the kernel shares out processors by itself"},
		{What: "disk that a build fills", Key: "build_disk", Why: "a full disk stops every build and, in one process, the databases"},
		{
			What: "steps of a build that run at a time", Bound: count(StepsAtOnce),
			Why: "each holds a network, a proxy and a few descriptors; the others wait until one has ended",
		},
		{
			What: "connections of a build's steps at a time", Bound: count(StepConnections),
			Why: "each takes two descriptors of the service; more wait to be accepted",
		},
		{
			What: "connections that a build's steps open", Bound: count(StepConnectionsAtFirst) + ", then " + count(StepConnectionsASecond) + " a second",
			Why: "a step that opens connections in a loop gets slow, and other builds do not; package managers keep theirs open",
		},
		{What: "head of a step's request to its proxy", Bound: size(StepProxyHeader), Why: "it is held in memory"},
		{
			What: "what a build's steps print, from its beginning", Bound: size(StepLogHead),
			Why: "buildkitd holds what steps print in memory and on disk until the build ends; a longer log keeps its beginning and its steps' ends",
		},
		{What: "the end of one step's output, of a longer log", Bound: size(StepLogTail), Why: "the end says what went wrong"},
		{What: "the ends of all steps' outputs, of a longer log", Bound: size(StepLogTails), Why: "thousands of steps must not add up; each still keeps " + size(StepLogLeast)},
		{What: "one step's output, and what of it comes in a second, in buildkitd", Bound: size(DaemonStepLog), Why: "a second line behind the bounds above"},
		{
			What: "tries of a build under which the build daemon died", Bound: count(BuildLosses),
			Why: "the one that makes it die must not do so for ever; those that were under way besides have tries to spare, one after another",
		},
	}
}

// count writes a number.
func count(n int) string { return strconv.Itoa(n) }
