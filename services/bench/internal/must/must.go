// Package must ends a section when a step fails, so that measurements are written without
// error returns. The failure is a panic that Caught converts back to an error.
package must

import (
	"context"
	"fmt"
	"time"
)

// Caught returns the error that ended do, if any.
func Caught(do func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	do()
	return nil
}

// A failure is the panic value that Do ends a section with.
type failure struct{ error }

// Do ends the section if err is not nil. It must be called in the section's own goroutine.
func Do(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Get returns a value, or ends the section with its error.
func Get[T any](v T, err error) T {
	Do(err)
	return v
}

// Fail ends the section with a message.
func Fail(format string, args ...any) { Do(fmt.Errorf(format, args...)) }

// Wait waits for d, or ends the section if ctx ends.
func Wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
		Do(ctx.Err())
	case <-time.After(d):
	}
}

// T is what readers of test data expect of a test. It ends the section if the data cannot be read.
type T struct{}

func (T) Helper() {}

func (T) Fatalf(format string, args ...any) { Fail(format, args...) }
