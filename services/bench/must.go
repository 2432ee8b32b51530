package main

import (
	"context"
	"fmt"
	"time"
)

// caught is what do was ended with, if anything.
func caught(do func()) (err error) {
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

// check ends the section where there is an error. It is for the section's own
// goroutine.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must is a value without its error, which ends the section.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// fail ends the section with a reason.
func fail(format string, args ...any) { check(fmt.Errorf(format, args...)) }

// pause waits, or ends the section with the program.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
		check(ctx.Err())
	case <-time.After(d):
	}
}
