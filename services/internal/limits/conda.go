package limits

import "fmt"

const (
	// CondaVersion is how long a Conda version may be, in bytes.
	CondaVersion = 256
	// CondaSpec is how long a Conda package specification may be, in bytes.
	CondaSpec = 4096
	// CondaConstraints is how many bounds the version of one specification may have,
	// CondaParentheses how deep they may stand in each other.
	CondaConstraints = 256
	CondaParentheses = 20
	// CondaPattern is how long a glob or regular expression may be, in bytes.
	CondaPattern = 256
)

// condaRows bound what a request for Conda packages may hold.
func condaRows() []Row {
	const asks = "each is held against every record of the package, and everything that it may need"
	return []Row{
		{What: "version of a Conda package", Bound: size(CondaVersion), Why: "the longest of conda-forge has 60 characters"},
		{What: "Conda package specification", Bound: size(CondaSpec), Why: "the longest of conda-forge has some 300 characters"},
		{What: "bounds of the version in a Conda specification", Bound: fmt.Sprintf("%d, in %d parentheses", CondaConstraints, CondaParentheses), Why: asks},
		{What: "glob or regular expression in a Conda specification", Bound: size(CondaPattern), Why: asks},
	}
}
