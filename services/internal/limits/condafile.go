package limits

import (
	"fmt"
	"strconv"
)

// Limits of Conda environment and lock files. Most are YAML, whose parsers are recursive
// and compare each key of a mapping with all earlier ones.
const (
	// CondaFile is the maximum size of a file in bytes.
	CondaFile = 1 << 20
	// CondaFileMemory is the approximate memory for reading a lock, as a multiple of its
	// size.
	CondaFileMemory = 30
	// YAMLDepth is the maximum nesting.
	YAMLDepth = 50
	// YAMLLine is the maximum length of a line in bytes.
	YAMLLine = 2000
	// YAMLKeys is the approximate maximum number of keys of a mapping.
	YAMLKeys = 1000
	// TOMLDepth is the maximum nesting of a pixi.toml, of brackets and of parts of a key, and
	// TOMLItems the maximum number of its lines, keys and items together.
	TOMLDepth, TOMLItems = 50, 10_000
	// CondaVariables is the maximum number of variables of an environment, and
	// CondaVariablesSize their maximum total size in bytes.
	CondaVariables, CondaVariablesSize = 200, 64 << 10
)

// condaFileRows lists the limits of environments and locks.
func condaFileRows() []Row {
	return []Row{
		{What: "Conda environment or lock", Bound: size(CondaFile), Why: "parsed YAML takes thirty times its size; the lock of a large workspace has some hundred KiB"},
		{What: "Conda environment or lock: nesting", Bound: strconv.Itoa(YAMLDepth), Why: "YAML parsers are recursive"},
		{What: "Conda environment or lock: length of a line", Bound: strconv.Itoa(YAMLLine), Why: "long lines can be nested without brackets"},
		{What: "Conda environment or lock: keys of a mapping", Bound: strconv.Itoa(YAMLKeys), Why: "each is compared with all before it: 50,000 take a minute"},
		{What: "pixi.toml: nesting; lines, keys and items", Bound: fmt.Sprintf("%d; %d", TOMLDepth, TOMLItems), Why: "TOML parsers are recursive, and each key is compared with all before it"},
		{What: "variables of a Conda environment", Bound: fmt.Sprintf("%d, %s together", CondaVariables, size(CondaVariablesSize)), Why: "they are in the image's configuration, which every pull reads"},
	}
}
