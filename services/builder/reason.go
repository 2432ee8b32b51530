package builder

import (
	"context"
	"errors"

	"slipway.dev/services/builder/jobs"
)

// Causes of a build context that was cancelled from outside.
var (
	errCancelled = errors.New("the build was cancelled")
	errDrained   = errors.New("the worker stops")
	errOverTime  = errors.New("the build's time is up")
	// errEngineStopped is returned when a job goes back to the queue because this worker no
	// longer has its engine.
	errEngineStopped = errors.New("the engine has stopped")
)

// failureOf returns the failure that the user sees. The cause of the context takes
// precedence, since the engine's error then only follows from it.
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
