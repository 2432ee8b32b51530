package testkit

import (
	"bytes"
	"sync"
)

// An Output records what is written to it, and may be read meanwhile: the log of a service, or
// the output of a running program. The zero value is empty.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
