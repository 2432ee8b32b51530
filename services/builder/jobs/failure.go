package jobs

import (
	"fmt"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
)

// A Reason is the reason why a build failed.
type Reason string

// Reasons, which are part of the API.
const (
	Solve     Reason = "solve"     // the Conda packages conflict
	Build     Reason = "build"     // a step of the recipe failed
	Push      Reason = "push"      // the registry rejected the image
	Timeout   Reason = "timeout"   // the time limit was reached
	Memory    Reason = "memory"    // a step needed too much memory
	Cancelled Reason = "cancelled" // a user cancelled the build
	Internal  Reason = "internal"  // an error of the service
)

// TextBytes limits how much of an external text is quoted in a message.
const TextBytes = 300

// A Failure is returned for a build that produced no image.
type Failure struct {
	Reason Reason
	// Message is the message for the user.
	Message string
	// Cause is only logged, and may be nil.
	Cause error
	// Outdated is set if the channel no longer has a package of the build's lock. The build
	// may succeed if its packages are solved again.
	Outdated bool
}

// Failure returns a failure with this reason. The cause may be nil.
func (r Reason) Failure(message string, cause error) *Failure {
	return &Failure{Reason: r, Message: message, Cause: cause}
}

// Error returns the text for the log.
func (f *Failure) Error() string {
	if f.Cause == nil {
		return fmt.Sprintf("%s: %s", f.Reason, f.Message)
	}
	return fmt.Sprintf("%s: %s: %v", f.Reason, f.Message, f.Cause)
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Cause }

// StepsNeeded is returned by an engine that cannot run steps, for a build that needs some.
// The image that the engine has pushed is the base of these steps. If no engine can run
// them, StepsNeeded is a failure.
type StepsNeeded struct {
	Failure
	// Digest is the digest of the image that was pushed to the target's repository without
	// a tag.
	Digest string
	// Steps run on that image before the recipe's own steps.
	Steps *buildv1.Steps
}

// Unwrap returns the failure.
func (s *StepsNeeded) Unwrap() error { return &s.Failure }
