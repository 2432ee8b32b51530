package testkit

import (
	"bytes"
	"sync"
)

// An Output records text that is written to it, such as the log of a service or the output of a
// running program. It may be read and written concurrently. The zero value is empty.
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
