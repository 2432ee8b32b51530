package limits

// Limits of the evaluator of activation scripts of Conda packages.
const (
	// ActivationScript limits a script in bytes, and ActivationSteps the work to evaluate
	// it. Beyond that it is not evaluated. ActivationStepsAll limits the work for all
	// scripts of an environment.
	ActivationScript   = 64 << 10
	ActivationSteps    = 100_000
	ActivationStepsAll = 500_000
	// ActivationDepth limits nested commands, calls and evals.
	ActivationDepth = 100
	// ActivationValue limits a value, an expanded word and a printed text in bytes,
	// ActivationPattern a pattern, and ActivationName the name of a variable.
	ActivationValue   = 32 << 10
	ActivationPattern = 1 << 10
	ActivationName    = 128
	// ActivationPieces limits the parts of an expanded word, and ActivationProgram the
	// instructions of a compiled pattern.
	ActivationPieces  = 4096
	ActivationProgram = 4096
	// ActivationExported limits the names and values that scripts and documents set for an
	// image, in bytes.
	ActivationExported = 64 << 10
	// ActivationVariables limits the variables of a shell and the arguments of a command.
	ActivationVariables = 1000
)
