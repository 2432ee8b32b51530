package gateway

import (
	"bytes"
	"fmt"
)

// jsonLimits bound the allocations for a body: a list of 10 million empty objects is 30 MB
// of JSON, and takes a hundred times as much memory when decoded.
type jsonLimits struct {
	// values limits the number of values in lists and objects.
	values int
	// depth limits the nesting of lists and objects.
	depth int
	// listed limits the number of objects in the lists of the body's object; 0 means no limit.
	listed int
}

const (
	// MaxValues is the maximum number of JSON values in a body.
	MaxValues = 20_000
	// MaxPlatformValues is the maximum for the platform's REST API, whose runs report many
	// tasks.
	MaxPlatformValues = 250_000
	// MaxBatch is the maximum number of container requests in a body, and MaxBatchValues the
	// maximum number of JSON values of such a body.
	MaxBatch       = 1000
	MaxBatchValues = 100_000
	// MaxDepth is the maximum nesting of JSON lists and objects.
	MaxDepth = 100
)

// check scans a body once without allocating. The decoder reports malformed JSON.
func (l jsonLimits) check(raw []byte) error {
	values, depth, listed := 1, 0, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i += textLength(raw[i+1:])
		case ',':
			values++
		case '[', '{':
			if raw[i] == '{' && depth == 2 {
				listed++
			}
			values++
			depth++
		case ']', '}':
			depth--
		}
		if depth > l.depth {
			return fmt.Errorf("Invalid JSON request body: it is nested more than %d levels deep", l.depth)
		}
		if values > l.values {
			return fmt.Errorf("Invalid JSON request body: it has more than %d values", l.values)
		}
		if l.listed > 0 && listed > l.listed {
			return fmt.Errorf("Invalid JSON request body: its lists have more than %d objects", l.listed)
		}
	}
	return nil
}

// textLength returns the length of the JSON string whose opening quotation mark precedes raw,
// including its closing quotation mark, or the length of raw if the string is not closed.
func textLength(raw []byte) int {
	for n := 0; n < len(raw); {
		end := bytes.IndexByte(raw[n:], '"')
		if end < 0 {
			break
		}
		end += n
		for n <= end { // skip escaped characters, possibly the quotation mark
			escape := bytes.IndexByte(raw[n:end], '\\')
			if escape < 0 {
				return end + 1
			}
			n += escape + 2
		}
	}
	return len(raw)
}
