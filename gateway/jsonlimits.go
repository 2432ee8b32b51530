package gateway

import "fmt"

// jsonLimits bound the allocations for a body: a list of 10 million empty objects is 30 MB,
// and a hundred times that when decoded.
type jsonLimits struct {
	// values limits the number of values in lists and objects.
	values int
	// depth limits the nesting of lists and objects.
	depth int
}

const (
	// MaxValues is how many JSON values a body may have.
	MaxValues = 20_000
	// MaxPlatformValues is the same for the platform's REST API, because runs report tasks.
	MaxPlatformValues = 250_000
	// MaxDepth is how deeply they may be nested.
	MaxDepth = 100
)

// check scans a body once without allocating. The decoder reports malformed JSON.
func (l jsonLimits) check(raw []byte) error {
	values, depth, inText := 1, 0, false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == ',':
			values++
		case c == '[' || c == '{':
			values++
			depth++
		case c == ']' || c == '}':
			depth--
		}
		if depth > l.depth {
			return fmt.Errorf("Invalid JSON request body: it is nested more than %d levels deep", l.depth)
		}
		if values > l.values {
			return fmt.Errorf("Invalid JSON request body: it holds more than %d values", l.values)
		}
	}
	return nil
}
