package builder

import (
	"context"
	"errors"

	"slipway.dev/services/builder/jobs"
)

// What can end a build from outside: causes of its context.
var (
	errCancelled = errors.New("the build was cancelled")
	errDrained   = errors.New("the worker stops")
	errOverTime  = errors.New("the build's time is up")
	// errEngineGone is why a job is handed back that this worker can build no more.
	errEngineGone = errors.New("the engine is gone")
)

// failureOf is the failure that the user is told of. Why the context ended goes
// first: the engine's own error is then only an echo of it.
func failureOf(ctx context.Context, err error) *jobs.Failure {
	var f *jobs.Failure
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errCancelled):
		return jobs.Cancelled.Failure("The build was cancelled", err)
	case errors.Is(cause, errOverTime):
		return jobs.Timeout.Failure("The build did not end in time", err)
	case errors.As(err, &f):
		return f
	}
	return jobs.Internal.Failure("The build service could not finish this build", err)
}
