package gateway

import (
	"errors"
	"fmt"
)

// jsonLimits bound what a body makes its readers allocate: a list of 10 million empty
// objects is 30 MB, and a hundred times that once it is read.
type jsonLimits struct {
	// values counts every value that is in a list or an object.
	values int
	// depth counts lists and objects within each other.
	depth int
}

const (
	// MaxValues is how many JSON values a body may hold.
	MaxValues = 20_000
	// MaxPlatformValues is the same for the platform's REST API: runs report tasks.
	MaxPlatformValues = 250_000
	// MaxDepth is how deeply they may be nested.
	MaxDepth = 100
)

// check goes over a body once and allocates nothing. What is not JSON is the decoder's
// to say.
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

// ErrBusy is the error, wrapped or not, of reading a request body when this process
// holds as many bytes of bodies as it can: the response is 503.
var ErrBusy = errors.New("the bodies of other requests take all the memory there is for them")

// busy is the message for such a request.
const busy = "The service is answering too many large requests right now; try again in a moment"
