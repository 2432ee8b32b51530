package limits

import "strconv"

// Limits of a Dockerfile and its expansion. Variables may refer to each other, so that a
// few hundred bytes could expand to gigabytes.
const (
	// Dockerfile is the maximum decoded size in bytes.
	Dockerfile = 1 << 20
	// DockerfileWords is the maximum number of words that the parser stores.
	DockerfileWords = 100_000
	// DockerfileStages is the maximum number of FROM instructions.
	DockerfileStages = 100
	// DockerfileImages is the maximum number of different images that it names.
	DockerfileImages = 50
	// DockerfileInstructions is the maximum number of instructions. ONBUILD instructions
	// count each time that they run.
	DockerfileInstructions = 2000
	// DockerfileVariables is the maximum number of instructions that set a variable or
	// label.
	DockerfileVariables = 2000
	// DockerfileDepth is the maximum nesting of ${A:-${B:-…}}.
	DockerfileDepth = 16
	// DockerfileUnknown is the assumed length of a variable that only a base image may set.
	DockerfileUnknown = 1 << 10
	// DockerfileGrowth is the maximum growth of one instruction by expansion, in bytes.
	DockerfileGrowth = 64 << 10
	// DockerfilePortRange is the assumed number of ports of an EXPOSE that may contain a
	// range.
	DockerfilePortRange = 64 << 10
	// DockerfileExpanded is the maximum expanded size in bytes, including the environment
	// of each RUN.
	DockerfileExpanded = 8 << 20
)

// dockerfileRows lists the limits of a Dockerfile.
func dockerfileRows() []Row {
	return []Row{
		{What: "Dockerfile, decoded", Bound: size(Dockerfile), Why: "the longest in use have some tens of KiB"},
		{What: "Dockerfile: words", Bound: strconv.Itoa(DockerfileWords), Why: "each takes 160 bytes while it is read"},
		{What: "Dockerfile: stages", Bound: strconv.Itoa(DockerfileStages), Why: "each base image is looked up and stored"},
		{What: "Dockerfile: different images", Bound: strconv.Itoa(DockerfileImages), Why: "each is looked up in its registry"},
		{What: "Dockerfile: instructions", Bound: strconv.Itoa(DockerfileInstructions), Why: "including those that ONBUILD repeats in each stage, also of base images; images have at most a few hundred layers"},
		{What: "Dockerfile: variables and labels that it sets", Bound: strconv.Itoa(DockerfileVariables), Why: "engines search them linearly"},
		{What: "Dockerfile: growth of an instruction by its variables", Bound: size(DockerfileGrowth), Why: "variables that refer to each other double with each line"},
		{What: "Dockerfile: length when expanded", Bound: size(DockerfileExpanded), Why: "each RUN carries the whole environment to the engine, with that of the base image"},
		{What: "Dockerfile: nesting of `${A:-${B:-…}}`", Bound: strconv.Itoa(DockerfileDepth), Why: "engines expand them recursively"},
	}
}
