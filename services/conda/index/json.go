package index

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Repodata files are hundreds of megabytes of JSON, of which a request needs little. They
// are therefore not decoded: the functions here find the end of values and check the syntax
// on the way. Their input may end anywhere.

var (
	// errShort is returned if more bytes are needed.
	errShort = errors.New("the JSON ends in the middle")
	// errSyntax is returned for invalid JSON.
	errSyntax = errors.New("it is not JSON")
)

// maxDepth is the maximum nesting of values. Channels use four levels.
const maxDepth = 32

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// quoted returns the end of the string that starts at i, after its closing quote.
func quoted(b []byte, i int) (int, error) {
	if b[i] != '"' {
		return 0, errSyntax
	}
	for j := i + 1; ; j++ {
		k := bytes.IndexByte(b[j:], '"')
		if k < 0 {
			return 0, errShort
		}
		j += k
		slashes := 0
		for b[j-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return j + 1, nil
		}
	}
}

// value returns the end of the value that starts at i. depth is the number of levels
// allowed below it.
func value(b []byte, i, depth int) (int, error) {
	if i >= len(b) {
		return 0, errShort
	}
	switch b[i] {
	case '"':
		return quoted(b, i)
	case '{':
		return object(b, i, depth, nil)
	case '[':
		return array(b, i, depth, nil)
	}
	return scalar(b, i)
}

// scalar returns the end of a number, true, false or null, which must be followed by
// another byte.
func scalar(b []byte, i int) (int, error) {
	j := i
	for j < len(b) && (b[j] >= '0' && b[j] <= '9' || b[j] >= 'a' && b[j] <= 'z' || b[j] == '-' || b[j] == '+' || b[j] == '.' || b[j] == 'E') {
		j++
	}
	switch {
	case j == len(b) && j-i < 64:
		return 0, errShort
	case isCount(b[i:j]) || j-i <= 64 && json.Valid(b[i:j]):
		return j, nil
	}
	return 0, errSyntax
}

// isCount recognizes the most common numbers without json.Valid.
func isCount(b []byte) bool {
	if len(b) == 0 || len(b) > 64 || b[0] == '0' && len(b) > 1 {
		return false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// object scans the object that starts at i and returns its end. It calls visit, unless nil,
// with each key as written, without the quotes, and its value.
func object(b []byte, i, depth int, visit func(key, value []byte)) (int, error) {
	return members(b, i, depth, '}', func(i int) (int, error) {
		end, err := quoted(b, i)
		if err != nil {
			return 0, err
		}
		key := b[i+1 : end-1]
		if i = space(b, end); i == len(b) {
			return 0, errShort
		} else if b[i] != ':' {
			return 0, errSyntax
		}
		i = space(b, i+1)
		if end, err = value(b, i, depth-1); err == nil && visit != nil {
			visit(key, b[i:end])
		}
		return end, err
	})
}

// array scans the array that starts at i and returns its end. It calls visit, unless nil, with
// each element.
func array(b []byte, i, depth int, visit func(value []byte)) (int, error) {
	return members(b, i, depth, ']', func(i int) (int, error) {
		end, err := value(b, i, depth-1)
		if err == nil && visit != nil {
			visit(b[i:end])
		}
		return end, err
	})
}

// members scans a comma-separated list between brackets.
func members(b []byte, i, depth int, closing byte, one func(i int) (int, error)) (int, error) {
	if depth == 0 {
		return 0, fmt.Errorf("its values are nested deeper than %d", maxDepth)
	}
	for first := true; ; first = false {
		if i = space(b, i+1); i >= len(b) {
			return 0, errShort
		}
		if first && b[i] == closing {
			return i + 1, nil
		}
		end, err := one(i)
		if err != nil {
			return 0, err
		}
		if i = space(b, end); i >= len(b) {
			return 0, errShort
		}
		if b[i] == closing {
			return i + 1, nil
		}
		if b[i] != ',' {
			return 0, errSyntax
		}
	}
}
