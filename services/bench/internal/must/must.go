// Package must ends a section whose step fails, so that measurements are written without
// error returns. The failure is a panic that Caught turns back into an error.
package must

import (
	"context"
	"fmt"
	"time"
)

// Caught is what do was ended with, if anything.
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

// failure is what check ends a section with.
type failure struct{ error }

// Do ends the section where there is an error. It is for the section's own
// goroutine.
func Do(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Get is a value without its error, which ends the section.
func Get[T any](v T, err error) T {
	Do(err)
	return v
}

// Fail ends the section with a reason.
func Fail(format string, args ...any) { Do(fmt.Errorf(format, args...)) }

// Wait waits, or ends the section with the program.
func Wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
		Do(ctx.Err())
	case <-time.After(d):
	}
}
