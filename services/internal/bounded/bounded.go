// Package bounded decodes untrusted JSON with memory use proportional to its length.
// encoding/json alone does not guarantee this: two bytes of input ("{}") can become a large
// struct, and three a slice of them. Limits counts values and nesting depth in one pass over
// the input, without allocating, before anything is decoded.
package bounded

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Limits bounds the size of a JSON document once it is decoded.
type Limits struct {
	// Depth is the maximum nesting depth of arrays and objects.
	Depth int
	// Values is the maximum number of values in total: scalars, arrays and objects.
	Values int
}

// Decode calls json.Unmarshal if raw is within the limits. Otherwise it returns an error
// that names the exceeded limit and allocates nothing.
func (l Limits) Decode(raw []byte, v any) error {
	if err := l.Check(raw); err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// Check returns an error if raw exceeds the limits. It does not validate the syntax: in
// malformed input it counts at least as many values as a decoder reads before it fails.
func (l Limits) Check(raw []byte) error {
	depth, values := 0, 1
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = endOfString(raw, i+1)
			continue
		case '{', '[':
			// The first value inside is counted here, the others at their commas.
			depth++
			values++
		case '}', ']':
			depth--
			continue
		case ',':
			values++
		default:
			continue
		}
		if depth > l.Depth {
			return fmt.Errorf("its JSON is nested more than %d levels deep", l.Depth)
		}
		if values > l.Values {
			return fmt.Errorf("its JSON has more than %d values", l.Values)
		}
	}
	return nil
}

// endOfString returns the index of the closing quote of the string that starts at i, or
// len(raw) if the string is unterminated.
func endOfString(raw []byte, i int) int {
	for i < len(raw) {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			return len(raw)
		}
		end := i + n
		slashes := 0
		for end-slashes > i && raw[end-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return end
		}
		i = end + 1
	}
	return i
}
