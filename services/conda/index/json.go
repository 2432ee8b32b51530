package index

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Repodata is JSON of hundreds of megabytes, of which a request needs little. So it is
// walked, not decoded: the functions here find where values end, and check on the way
// that it is JSON. They take bytes that may stop anywhere.

var (
	// errShort says that more bytes are needed to know.
	errShort = errors.New("the JSON ends in the middle")
	// errSyntax says that it is no JSON.
	errSyntax = errors.New("it is not JSON")
)

// maxDepth is how deep values may be nested: four in what channels write.
const maxDepth = 32

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// quoted is where the string that begins at i ends, behind its closing quote.
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

// value is where the value that begins at i ends. depth is how many levels there may
// be below.
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

// scalar is where a number, true, false or null ends. A byte must follow it.
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

// isCount knows the numbers that most numbers are, without asking json.Valid.
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

// object walks the members of the object that begins at i, and tells each to visit, if
// there is one: its key as written, between the quotes, and its value. It answers where
// the object ends.
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

// array does the same with an array's elements.
func array(b []byte, i, depth int, visit func(value []byte)) (int, error) {
	return members(b, i, depth, ']', func(i int) (int, error) {
		end, err := value(b, i, depth-1)
		if err == nil && visit != nil {
			visit(b[i:end])
		}
		return end, err
	})
}

// members goes through what stands between brackets and commas.
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
