package agent

import (
	"slices"
	"sync"
)

// maxErrors is the maximum number of different errors that an agent remembers, and maxReported that of errors of one connection.
const maxErrors, maxReported = 20, 100

// Errors are the last errors of an agent. Each command gets those that occurred while it ran. It is safe for concurrent use.
type Errors struct {
	mu   sync.Mutex
	last uint64
	list []numbered // the newest is the last
}

// A numbered error has the number of its last occurrence.
type numbered struct {
	text   string
	number uint64
}

// Add adds an occurrence of an error.
func (e *Errors) Add(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	text := err.Error()
	e.list = slices.DeleteFunc(e.list, func(n numbered) bool { return n.text == text })
	if len(e.list) == maxErrors {
		e.list = slices.Delete(e.list, 0, 1)
	}
	e.last++
	e.list = append(e.list, numbered{text, e.last})
}

// Since returns the errors that occurred after the one with a number, and the number of the last one.
func (e *Errors) Since(number uint64) ([]string, uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	for _, n := range e.list {
		if n.number > number {
			out = append(out, n.text)
		}
	}
	return out, e.last
}
