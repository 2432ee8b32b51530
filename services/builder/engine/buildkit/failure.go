package buildkit

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	gateway "github.com/moby/buildkit/frontend/gateway/pb"
	"github.com/moby/buildkit/solver/errdefs"
	"github.com/moby/buildkit/util/grpcerrors"
	"github.com/opencontainers/go-digest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/fault"
)

// killed is the exit code of a step that was killed.
const killed = 137

const (
	// messageBytes limits the length of a failure's message.
	messageBytes = 8000
	// endLines is how many lines of the failed step the message ends with; the log has all
	// of them.
	endLines = 12
)

// colours matches terminal control sequences, which are removed from messages.
var colours = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")

// failure returns the reason why the daemon built no image.
func (p *progress) failure(ctx context.Context, err error, outOfMemory func() bool) *jobs.Failure {
	if errors.Is(context.Cause(ctx), errDisk) {
		return jobs.Build.Failure("The build writes more to disk than it may", err)
	}
	p.findFailedStep(err)
	var exit *gateway.ExitError
	exited := errors.As(err, &exit)
	switch {
	case exited && p.solve:
		return jobs.Solve.Failure(p.appendLines("The Conda environment could not be solved", p.solverError()), err)
	case exited && exit.ExitCode == killed && outOfMemory():
		return jobs.Memory.Failure(p.appendLines(p.subject()+" needs more memory than a build may have", p.endOfStep()), err)
	case exited:
		return jobs.Build.Failure(p.appendLines(fmt.Sprintf("%s failed with exit code %d", p.subject(), exit.ExitCode), p.endOfStep()), err)
	case daemonEnded(err):
		return jobs.Internal.Failure("The build service's daemon ended during the build", status.Error(codes.Unavailable, err.Error()))
	case strings.HasPrefix(p.daemonError(err), "failed to push "), p.failed != nil && strings.HasPrefix(p.failed.name, exporting):
		return jobs.Push.Failure(p.daemonError(err), err)
	default:
		return jobs.Build.Failure(p.daemonError(err)+hint(err), err)
	}
}

// hint returns advice about a common mistake.
func hint(err error) string {
	if strings.Contains(err.Error(), "failed to compute cache key") && strings.Contains(err.Error(), "not found") {
		return ". COPY and ADD find only what the request's buildContext holds (slipway build --context DIR)"
	}
	return ""
}

// findFailedStep finds the step that an error is about. Other steps may have failed without
// consequence, such as reading a cache that does not exist yet.
func (p *progress) findFailedStep(err error) {
	var v *errdefs.VertexError
	if !errors.As(err, &v) {
		return
	}
	if s := p.steps[digest.Digest(v.Digest)]; s != nil && s.begun {
		p.failed = s
	}
}

// daemonEnded reports whether the build failed because the daemon ended.
func daemonEnded(err error) bool {
	if grpcerrors.Code(err) == codes.Unavailable {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "error reading from server: EOF") || strings.Contains(text, "transport is closing") ||
		strings.Contains(text, "no active session")
}

// subject returns the name of the failed step.
func (p *progress) subject() string {
	if p.failed == nil {
		return "A step"
	}
	return "The step " + fault.Clip(p.redact(p.failed.name), lastLineBytes)
}

// appendLines appends lines of the step to a text.
func (p *progress) appendLines(text string, lines []string) string {
	if len(lines) == 0 {
		return text
	}
	return fault.Clip(colours.ReplaceAllString(text+":\n"+strings.Join(lines, "\n"), ""), messageBytes)
}

// endOfStep returns the last lines of the failed step.
func (p *progress) endOfStep() []string {
	if p.failed == nil {
		return nil
	}
	return p.failed.last[max(0, len(p.failed.last)-endLines):]
}

// solverError returns the solver's error from its beginning, without earlier output, so that
// it names every missing package.
func (p *progress) solverError() []string {
	if p.failed == nil {
		return nil
	}
	for i, line := range p.failed.last {
		if strings.Contains(line, "Could not solve") {
			return p.failed.last[i:]
		}
	}
	return p.failed.last
}

// daemonError returns the daemon's own error text without the enclosing error messages.
func (p *progress) daemonError(err error) string {
	text := err.Error()
	for _, frame := range []string{"failed to solve: ", "rpc error: code = Unknown desc = ", "failed to solve: "} {
		text = strings.TrimPrefix(text, frame)
	}
	return fault.Clip(p.redact(colours.ReplaceAllString(text, "")), messageBytes)
}
