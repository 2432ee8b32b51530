package jobs

import (
	"fmt"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
)

// Reason is why there is no image.
type Reason string

// The reasons; clients see these words.
const (
	Solve     Reason = "solve"     // the Conda packages do not fit together
	Build     Reason = "build"     // a step of the recipe failed
	Push      Reason = "push"      // the registry did not take the image
	Timeout   Reason = "timeout"   // the time was up
	Memory    Reason = "memory"    // a step needed too much memory
	Cancelled Reason = "cancelled" // somebody ended the build
	Internal  Reason = "internal"  // our fault
)

// TextBytes is how much a message repeats of a text that is not ours.
const TextBytes = 300

// Failure is a build that made no image.
type Failure struct {
	Reason Reason
	// Message says it in words, for the user.
	Message string
	// Cause is for the log; may be nil.
	Cause error
}

// Failure is a build that made no image for this reason; cause may be nil.
func (r Reason) Failure(message string, cause error) *Failure { return &Failure{r, message, cause} }

// Error is the text for the log.
func (f *Failure) Error() string {
	if f.Cause == nil {
		return fmt.Sprintf("%s: %s", f.Reason, f.Message)
	}
	return fmt.Sprintf("%s: %s: %v", f.Reason, f.Message, f.Cause)
}

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Cause }

// StepsNeeded is how an engine that runs nothing ends a build of which something has to
// be run: what it has made is where the rest begins. Where nobody can run it, it is a
// failure.
type StepsNeeded struct {
	Failure
	// Digest is of the image that was pushed to the target's repository, without a name.
	Digest string
	// Steps are what has to be run on it, before the recipe's own lines.
	Steps *buildv1.Steps
}

// Unwrap gives the failure.
func (s *StepsNeeded) Unwrap() error { return &s.Failure }
