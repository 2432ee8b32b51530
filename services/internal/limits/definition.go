package limits

import "strconv"

// Limits of a Singularity definition. It is sent as containerFile and translated to a
// Dockerfile, so their limits apply as well.
const (
	// DefinitionFiles is the maximum number of lines of %files.
	DefinitionFiles = 500
	// DefinitionLabels is the maximum number of lines of %labels.
	DefinitionLabels = 500
)

// definitionRows lists the limits of a Singularity definition.
func definitionRows() []Row {
	return []Row{
		{What: "Singularity definition: lines of %files, and of %labels", Bound: strconv.Itoa(DefinitionFiles) + ", and " + strconv.Itoa(DefinitionLabels), Why: "each becomes an instruction of a Dockerfile; a folder needs one line only"},
	}
}
