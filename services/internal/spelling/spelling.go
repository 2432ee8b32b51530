// Package spelling compares names, to suggest the one that a misspelt name means.
package spelling

// maxName is the length of the longest names that are compared, in bytes.
const maxName = 100

// Distance returns the Levenshtein distance of two names: how many bytes must be inserted,
// removed or replaced to turn a into b. If a name is longer than 100 bytes, Distance returns
// the length of the longer one without comparing them.
func Distance(a, b string) int {
	if len(a) > maxName || len(b) > maxName {
		return max(len(a), len(b))
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, replaced)
		}
	}
	return row[len(b)]
}
