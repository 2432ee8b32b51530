// Package bounded decodes JSON from strangers in memory that is in proportion to
// its length. encoding/json alone is not enough for that: of two bytes it makes a
// struct, and of three a slice of structs. Here one pass over the bytes, which
// allocates nothing, counts values and depth before anything is decoded.
package bounded

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Shape bounds a JSON text.
type Shape struct {
	// Depth is how many arrays and objects may be inside each other.
	Depth int
	// Values is how many values there may be in all: scalars, arrays and objects.
	Values int
}

// Decode is json.Unmarshal for texts within the bounds; those beyond are refused
// with an error that says so, before anything is allocated.
func (s Shape) Decode(raw []byte, v any) error {
	if err := s.Check(raw); err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// Check holds raw against the bounds. It does not judge whether raw is JSON: of
// what is none it counts at least as much as a decoder would read before it
// stops.
func (s Shape) Check(raw []byte) error {
	depth, values := 0, 1
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = endOfString(raw, i+1)
			continue
		case '{', '[':
			// The first value inside is counted here, further ones at their commas.
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
		if depth > s.Depth {
			return fmt.Errorf("its JSON is nested more than %d levels deep", s.Depth)
		}
		if values > s.Values {
			return fmt.Errorf("its JSON has more than %d values", s.Values)
		}
	}
	return nil
}

// endOfString is where the string that begins at i has its closing quote, or the
// end of raw.
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
