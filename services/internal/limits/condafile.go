package limits

import "strconv"

// What a Conda environment or lock may be, as a file. Most are YAML, whose readers
// go down by recursion, and compare each key of a mapping with all before it.
const (
	// CondaFile is its length in bytes.
	CondaFile = 1 << 20
	// YAMLDepth is how deeply it may be nested.
	YAMLDepth = 50
	// YAMLLine is how long a line may be, in bytes.
	YAMLLine = 2000
	// YAMLKeys is about how many keys a mapping may have.
	YAMLKeys = 1000
)

// condaFileRows bound environments and locks.
func condaFileRows() []Row {
	return []Row{
		{What: "Conda environment or lock", Bound: size(CondaFile), Why: "YAML is read into thirty times its length; the lock of a large workspace has some hundred KiB"},
		{What: "Conda environment or lock: nesting", Bound: strconv.Itoa(YAMLDepth), Why: "YAML is read by recursion"},
		{What: "Conda environment or lock: length of a line", Bound: strconv.Itoa(YAMLLine), Why: "nesting, in a form that no bracket shows"},
		{What: "Conda environment or lock: keys of a mapping", Bound: strconv.Itoa(YAMLKeys), Why: "each is compared with all before it: 50,000 take a minute"},
	}
}
