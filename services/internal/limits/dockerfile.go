package limits

import "strconv"

// What a Dockerfile may hold, and what it may expand to. Whoever reads it expands
// variables that name each other: a few hundred bytes would stand for gigabytes.
const (
	// Dockerfile is its length in bytes, decoded.
	Dockerfile = 1 << 20
	// DockerfileWords is how many words its parser may have to keep.
	DockerfileWords = 100_000
	// DockerfileStages is how many FROM it may have.
	DockerfileStages = 100
	// DockerfileInstructions counts those that ONBUILD repeats as often as they run.
	DockerfileInstructions = 2000
	// DockerfileVariables is how often it may set a variable or a label.
	DockerfileVariables = 2000
	// DockerfileDepth is how deeply ${A:-${B:-…}} may be nested.
	DockerfileDepth = 16
	// DockerfileUnknown is how long the value of a variable is taken to be that the
	// file does not set, but a base image may.
	DockerfileUnknown = 1 << 10
	// DockerfileGrowth is by how much one instruction may get longer, in bytes.
	DockerfileGrowth = 64 << 10
	// DockerfilePortRange is what EXPOSE counts for where it may name a range.
	DockerfilePortRange = 64 << 10
	// DockerfileExpanded is how long it may be in all when it is expanded, in bytes,
	// with the environment that each RUN carries.
	DockerfileExpanded = 8 << 20
)

// dockerfileRows bound a Dockerfile.
func dockerfileRows() []Row {
	return []Row{
		{What: "Dockerfile, decoded", Bound: size(Dockerfile), Why: "the longest in use have some tens of KiB"},
		{What: "Dockerfile: words", Bound: strconv.Itoa(DockerfileWords), Why: "each takes 160 bytes while it is read"},
		{What: "Dockerfile: stages", Bound: strconv.Itoa(DockerfileStages), Why: "each base is looked up and kept"},
		{What: "Dockerfile: instructions", Bound: strconv.Itoa(DockerfileInstructions), Why: "with those that ONBUILD repeats in each stage; images have at most a few hundred layers"},
		{What: "Dockerfile: variables and labels that it sets", Bound: strconv.Itoa(DockerfileVariables), Why: "engines search them one after the other"},
		{What: "Dockerfile: what an instruction gains by its variables", Bound: size(DockerfileGrowth), Why: "variables that name each other double with each line"},
		{What: "Dockerfile: length when expanded", Bound: size(DockerfileExpanded), Why: "each RUN carries the whole environment to the engine"},
		{What: "Dockerfile: `${A:-${B:-…}}` within each other", Bound: strconv.Itoa(DockerfileDepth), Why: "engines read them by recursion"},
	}
}
