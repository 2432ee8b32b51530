package limits

import "strconv"

// Limits of the steps of one build.
const (
	// StepsAtOnce is the number of concurrent steps of a build; the others wait.
	StepsAtOnce = 64
	// StepConnections is the maximum number of open connections of a build's steps. Further
	// connections wait to be accepted.
	StepConnections = 256
	// StepConnectionsASecond is the maximum rate of new connections of a build's steps
	// after the first StepConnectionsAtFirst.
	StepConnectionsASecond = 50
	// StepConnectionsAtFirst is the number of connections of a build without a rate limit.
	StepConnectionsAtFirst = 1000
	// StepProxyHeader is the maximum size of a request's header in bytes.
	StepProxyHeader = 64 << 10

	// StepLogHead is the maximum output of all steps of a build in bytes before the middle
	// of further output is omitted.
	StepLogHead = 15 << 19
	// StepLogTail is how much of the end of one step's output is then retained, in bytes.
	StepLogTail = 3 << 19
	// StepLogTails is how much of the ends of all steps is retained, in bytes.
	StepLogTails = 16 << 20
	// StepLogLeast is the minimum that is retained of the end of each step, in bytes, since
	// the last lines explain a failure.
	StepLogLeast = 4 << 10
	// DaemonStepLog is buildkitd's own limit of one step's output, in bytes and in bytes
	// per second. It is above what the limits here allow.
	DaemonStepLog = 16 << 20

	// BuildLosses is how often the build daemon may die during a build.
	BuildLosses = 3
)

// stepRows lists the limits of the steps of a build and of the build daemon.
func stepRows() []Row {
	return []Row{
		{What: "memory of a build's steps", Key: "build_memory", Why: "one build must not take the machine's memory from the others and from the service"},
		{What: "memory of buildkitd", Key: "buildkit_memory", Why: "a few hundred MiB are usual; layers that are being written count as well"},
		{What: "processes and threads of a build's steps", Key: "build_pids", Why: "a fork bomb ends in its own build"},
		{What: "processors of a build's steps", Key: "build_cpus", Why: "unlimited by default, since the kernel shares processors fairly"},
		{What: "disk that a build fills", Key: "build_disk", Why: "a full disk stops every build and, in one process, the databases"},
		{
			What: "steps of a build that run at a time", Bound: count(StepsAtOnce),
			Why: "each holds a network, a proxy and a few descriptors; the others wait",
		},
		{
			What: "connections of a build's steps at a time", Bound: count(StepConnections),
			Why: "each takes two descriptors of the service; more wait to be accepted",
		},
		{
			What: "connections that a build's steps open", Bound: count(StepConnectionsAtFirst) + ", then " + count(StepConnectionsASecond) + " a second",
			Why: "a step that opens connections in a loop only slows itself down; package managers reuse connections",
		},
		{What: "header of a step's request to its proxy", Bound: size(StepProxyHeader), Why: "it is in memory"},
		{
			What: "output of a build's steps, from the beginning", Bound: size(StepLogHead),
			Why: "buildkitd holds the output of steps in memory and on disk until the build ends; of a longer log the beginning and the ends of the steps are retained",
		},
		{What: "end of one step's output in a longer log", Bound: size(StepLogTail), Why: "the end explains a failure"},
		{What: "ends of all steps' outputs in a longer log", Bound: size(StepLogTails), Why: "thousands of steps must not add up; each retains at least " + size(StepLogLeast)},
		{What: "one step's output, in total and per second, in buildkitd", Bound: size(DaemonStepLog), Why: "a second protection behind the limits above"},
		{
			What: "attempts of a build during which the build daemon died", Bound: count(BuildLosses),
			Why: "a build that kills the daemon must not be retried forever; builds that ran at the same time have attempts left",
		},
	}
}

// count formats a number.
func count(n int) string { return strconv.Itoa(n) }
