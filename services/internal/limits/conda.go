package limits

import (
	"fmt"
	"time"
)

const (
	// CondaVersion is how long a Conda version may be, in bytes.
	CondaVersion = 256
	// CondaSpec is how long a Conda package specification may be, in bytes.
	CondaSpec = 4096
	// CondaConstraints is how many bounds the version of one specification may have,
	// CondaParentheses how deep they may stand in each other.
	CondaConstraints = 256
	CondaParentheses = 20
	// CondaPattern is how long a glob or regular expression may be, in bytes, and
	// CondaPatternSteps about how long with what it repeats written out.
	CondaPattern, CondaPatternSteps = 256, 4000
	// CondaSpecs is how many packages one request may name.
	CondaSpecs = 1000
	// CondaSolve is how long one solve may take, and CondaLearnt how much it may learn,
	// in literals of 4 bytes.
	CondaSolve  = 20 * time.Second
	CondaLearnt = 16 << 20
	// CondaMemory is about what the records and dependencies may take that one solve
	// looks at, in bytes.
	CondaMemory = 256 << 20
	// CondaCallsOfClient and CondaCallsAtOnce are how many calls look at records at a time.
	CondaCallsOfClient, CondaCallsAtOnce = 4, 16
	// CondaExplain is how long the smallest reason is looked for why a request cannot be,
	// CondaSuggest how long for what could be instead, with at most CondaTries solves.
	CondaExplain = 3 * time.Second
	CondaSuggest = 3 * time.Second
	CondaTries   = 24
	// CondaPatience is how long a request waits to be solved where nobody could build it
	// otherwise.
	CondaPatience = 25 * time.Second
	// CondaLosses is how often an image is put together again whose layers were removed
	// from the worker before they were sent.
	CondaLosses = 3
	// CondaScripts is how many scripts of packages a build runs.
	CondaScripts = 2000
	// CondaMeta is what the records of installed packages in one image may have together,
	// in bytes, that is compared with another.
	CondaMeta = 256 << 20
)

// condaRows bound what a request for Conda packages may hold.
func condaRows() []Row {
	const asks = "each is held against every record of the package, and everything that it may need"
	return append([]Row{
		{What: "version of a Conda package", Bound: size(CondaVersion), Why: "the longest of 22,500 records of conda-forge has 21 characters"},
		{What: "Conda package specification", Bound: size(CondaSpec), Why: "the longest of 22,500 records of conda-forge has 120 characters"},
		{What: "bounds of the version in a Conda specification", Bound: fmt.Sprintf("%d, in %d parentheses", CondaConstraints, CondaParentheses), Why: asks},
		{What: "Conda packages that a request names", Bound: fmt.Sprint(CondaSpecs), Why: asks},
		{What: "searches, descriptions and solves of Conda packages at a time", Bound: fmt.Sprintf("%d, %d of one client", CondaCallsAtOnce, CondaCallsOfClient), Why: "each may take a processor, and its memory, for as long as it may take"},
		{What: "searches, descriptions and solves of Conda packages of a user", Key: "limit_searches_user", Why: "each may take a processor; a page asks with every pause in what is typed, and once for each channel"},
		{What: "searches, descriptions and solves of Conda packages of an address without a user", Key: "limit_searches_anonymous", Why: "likewise; several people may share an address"},
		{What: "solving a request for Conda packages", Bound: fmt.Sprintf("%s, %s learnt, records of %s", CondaSolve, size(4*CondaLearnt), size(CondaMemory)), Why: "what is asked may be as hard as any puzzle"},
		{
			What: "explaining why a Conda request cannot be, and what could be instead", Bound: fmt.Sprintf("%s, %s and %d solves", CondaExplain, CondaSuggest, CondaTries),
			Why: "each step is a solve; after that the reason is longer than it need be",
		},
		{What: "waiting for a solution that an image cannot be made without", Bound: fmt.Sprint(CondaPatience), Why: "a channel that is read for the first time; below a gateway's minute"},
		{What: "times that a Conda image is put together again because its layers made room for others", Bound: fmt.Sprint(CondaLosses), Why: "images of which each is larger than conda_layers would go round for ever"},
		{What: "scripts of Conda packages that a build runs", Bound: fmt.Sprint(CondaScripts), Why: "their list goes over the bus in one message; bioconda has 3,000 packages with one"},
		{What: "records of installed packages (conda-meta) in an image that `slipwayd conda compare` reads", Bound: size(CondaMeta) + ", of " + size(Document) + " each", Why: "they are in memory, of both images; of a larger record the digest alone is compared"},
		{What: "glob or regular expression in a Conda specification", Bound: fmt.Sprintf("%s, %d steps", size(CondaPattern), CondaPatternSteps), Why: asks},
	}, condaFileRows()...)
}
