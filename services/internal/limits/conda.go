package limits

import (
	"fmt"
	"time"
)

const (
	// CondaVersion is the maximum length of a Conda version, in bytes.
	CondaVersion = 256
	// CondaSpec is the maximum length of a Conda package specification, in bytes.
	CondaSpec = 4096
	// CondaConstraints is the maximum number of version bounds in a specification, and
	// CondaParentheses their maximum nesting.
	CondaConstraints = 256
	CondaParentheses = 20
	// CondaPattern is the maximum length of a glob or regular expression in bytes.
	// CondaPatternSteps is its approximate maximum length with repetitions expanded.
	CondaPattern, CondaPatternSteps = 256, 4000
	// CondaSpecs is the maximum number of packages in one request.
	CondaSpecs = 1000
	// CondaSolve is the timeout of a solve. CondaLearnt is the maximum size of learnt
	// clauses, in literals of 4 bytes.
	CondaSolve  = 20 * time.Second
	CondaLearnt = 16 << 20
	// CondaMemory is the approximate maximum size in bytes of the records and dependencies
	// that one solve loads.
	CondaMemory = 256 << 20
	// CondaRecordsCached is the approximate maximum size in bytes of the decoded records that
	// solves share.
	CondaRecordsCached = 48 << 20
	// CondaDocumentsCached is the approximate maximum size in bytes of the decoded descriptions
	// of package layers that a worker keeps in memory.
	CondaDocumentsCached = 16 << 20
	// CondaSolvesFewest and CondaSolvesMost limit the number of concurrent solves, which is
	// two for each processor. CondaSolvesWaiting is the maximum number of queued solves.
	// CondaSolveContended is the timeout of a solve for an anonymous caller while other
	// clients wait.
	CondaSolvesFewest, CondaSolvesMost = 4, 16
	CondaSolvesWaiting                 = 4000
	CondaSolveContended                = 4 * time.Second
	// CondaSolvesMemory is the memory for all solves in bytes, beyond CondaMemoryStep for
	// each. CondaMemoryWait is how long a solve waits for memory.
	CondaSolvesMemory, CondaMemoryStep = 384 << 20, 16 << 20
	CondaMemoryWait                    = 10 * time.Second
	// CondaReads is the memory in bytes for all searches and descriptions. Each uses
	// CondaRead, and CondaRecordSize times the size of the records that it reads, up to
	// CondaReadMost. CondaReadsWaiting and CondaReadsWaitingClient are the maximum numbers
	// of queued calls of all clients and of one client, and CondaReadsWait is how long they
	// wait.
	CondaReads, CondaRead, CondaReadMost       = 320 << 20, 16 << 20, 192 << 20
	CondaRecordSize                            = 3
	CondaReadsWaiting, CondaReadsWaitingClient = 1000, 50
	CondaReadsWait                             = 20 * time.Second
	// CondaExplain is how long the solver looks for the smallest conflict. CondaSuggest is
	// how long it looks for suggestions, with at most CondaTries solves.
	CondaExplain = 3 * time.Second
	CondaSuggest = 3 * time.Second
	CondaTries   = 24
	// CondaUpdate is how long the solver looks for the update of a lock that changes the
	// fewest packages. CondaChains is the maximum number of chains that explain why a
	// package is in an environment, CondaChainSteps that of their steps together, and
	// CondaChainsSize that of their size in bytes.
	CondaUpdate     = 5 * time.Second
	CondaChains     = 500
	CondaChainSteps = 10_000
	CondaChainsSize = 1 << 20
	// CondaListsAge is the age from which a refresh fetches a package list again. CondaHint
	// is the maximum size of the records that are read for a hint in a message, in bytes.
	CondaListsAge = time.Minute
	CondaHint     = 4 << 20
	// CondaMinAge is the maximum of minAge, CondaAgeText and CondaTimeText are the maximum
	// lengths of minAge and of asOf, and CondaExceptions is the maximum number of exceptions. CondaNamed is the maximum number of
	// packages that a note names.
	CondaMinAge     = 3650 * 24 * time.Hour
	CondaAgeText    = 32
	CondaTimeText   = 64
	CondaExceptions = 100
	CondaNamed      = 10
	// License is the maximum length of an SPDX expression in bytes.
	License = 500
	// LicensedNames is the number of packages whose licences a search compares.
	LicensedNames = 500
	// CondaTimeout is how long a request waits for the solver if it can only be built with
	// the solution.
	CondaTimeout = 25 * time.Second
	// CondaLosses is how often an image is assembled again because its layers were evicted
	// from the worker before they were sent.
	CondaLosses = 3
	// CranSources is the maximum number of R packages that a request has built from source.
	// Each takes one solve.
	CranSources = 100
	// CondaScripts is the maximum number of package scripts that a build runs.
	CondaScripts = 2000
	// CondaMeta is the maximum size of the records of installed packages in one image, in
	// bytes, for comparing images.
	CondaMeta = 256 << 20
)

// condaRows lists the limits of a request for Conda packages.
func condaRows() []Row {
	const asks = "each is matched against every record of the package and of its possible dependencies"
	return append([]Row{
		{What: "version of a Conda package", Bound: size(CondaVersion), Why: "the longest of 22,500 records of conda-forge has 21 characters"},
		{What: "Conda package specification", Bound: size(CondaSpec), Why: "the longest of 22,500 records of conda-forge has 120 characters"},
		{What: "bounds of the version in a Conda specification", Bound: fmt.Sprintf("%d, in %d parentheses", CondaConstraints, CondaParentheses), Why: asks},
		{What: "Conda packages that a request names", Bound: fmt.Sprint(CondaSpecs), Why: asks},
		{What: "solves of Conda packages at a time", Bound: fmt.Sprintf("two for each processor, %d to %d: one of them for users only, and half for one client; %d wait", CondaSolvesFewest, CondaSolvesMost, CondaSolvesWaiting), Why: "each takes a processor, and its memory; clients get equal shares"},
		{What: "memory of all solves of Conda packages", Bound: fmt.Sprintf("%s, in addition to %s for each", size(CondaSolvesMemory), size(CondaMemoryStep)), Why: "clients get equal shares; a solve that waits for memory longer than " + CondaMemoryWait.String() + " fails with 503"},
		{What: "decoded records of Conda packages in memory", Bound: size(CondaRecordsCached) + ", each while it is used", Why: "most solves use the same packages; decoding their records is half of a solve"},
		{What: "descriptions of layers of Conda packages in a worker's memory", Bound: size(CondaDocumentsCached), Why: "environments use the same packages; without the cache, decoding takes an eighth of the time for an environment whose layers all exist"},
		{What: "solve of a caller without a user while other clients wait", Bound: fmt.Sprint(CondaSolveContended), Why: "then it fails with 503: solving can take exponential time"},
		{What: "memory of searches and descriptions of Conda packages", Bound: fmt.Sprintf("%s, each %s and %d times the records that it reads; %d wait, %d of one client, for up to %s", size(CondaReads), size(CondaRead), CondaRecordSize, CondaReadsWaiting, CondaReadsWaitingClient, CondaReadsWait), Why: "a channel may have " + size(ChannelNameBytes) + " of records of one name; clients get equal shares"},
		{What: "searches, descriptions and solves of Conda packages of a user", Key: "limit_searches_user", Why: "each may take a processor; a web page searches after each pause in typing, once for each channel"},
		{What: "searches, descriptions and solves of Conda packages of an address without a user", Key: "limit_searches_anonymous", Why: "likewise; several users may share an address"},
		{What: "solving a request for Conda packages", Bound: fmt.Sprintf("%s, %s learnt, records of %s", CondaSolve, size(4*CondaLearnt), size(CondaMemory)), Why: "solving can take exponential time"},
		{
			What: "explaining why a Conda request is unsatisfiable, and suggesting alternatives", Bound: fmt.Sprintf("%s, %s and %d solves", CondaExplain, CondaSuggest, CondaTries),
			Why: "each step is a solve; after that the explanation may be longer than necessary",
		},
		{What: "looking for the update of a Conda lock that changes the fewest packages", Bound: fmt.Sprint(CondaUpdate), Why: "each step is a solve; after that the response has a note, and more packages may have changed than necessary"},
		{What: "refreshes of a package list at the request of callers", Bound: "one in " + CondaListsAge.String() + " for each channel and platform", Why: "each contacts the channel; all callers share the list"},
		{What: "age that a request demands of Conda packages (minAge)", Bound: fmt.Sprintf("%d days, %d exceptions", CondaMinAge/(24*time.Hour), CondaExceptions), Why: "each record is compared with each exception"},
		{What: "SPDX expression of a package", Bound: size(License), Why: "its parser is recursive; a longer one is reported as none"},
		{What: "packages in a search by licence", Bound: fmt.Sprint(LicensedNames) + " whose names match", Why: "the licence is in the records of a package, of which all are read"},
		{What: "chains of dependencies that explain why a package is in an environment", Bound: fmt.Sprintf("%d, %d steps and %s", CondaChains, CondaChainSteps, size(CondaChainsSize)), Why: "each dependent of the package has one, of up to all other packages"},
		{What: "waiting for a solution without which an image cannot be built", Bound: fmt.Sprint(CondaTimeout), Why: "enough for the first fetch of a channel; less than the gateway's timeout of a minute"},
		{What: "times that a Conda image is assembled again because its layers were evicted", Bound: fmt.Sprint(CondaLosses), Why: "images larger than conda_layers would be retried forever"},
		{What: "R packages of a request that are built from source (cranFallback)", Bound: fmt.Sprint(CranSources), Why: "that a package has no Conda package is found by solving without it, within the time for a solution"},
		{What: "scripts of Conda packages that a build runs", Bound: fmt.Sprint(CondaScripts), Why: "their list is one message on the bus; bioconda has 3,000 packages with a script"},
		{What: "records of installed packages (conda-meta) in an image that `slipwayd conda compare` reads", Bound: size(CondaMeta) + ", of " + size(Document) + " each", Why: "those of both images are in memory; only the digest of a larger record is compared"},
		{What: "glob or regular expression in a Conda specification", Bound: fmt.Sprintf("%s, %d steps", size(CondaPattern), CondaPatternSteps), Why: asks},
	}, condaFileRows()...)
}
