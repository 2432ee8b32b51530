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

// killed is the exit code of a step that was ended by force.
const killed = 137

const (
	// messageBytes is how long a failure's message may be.
	messageBytes = 8000
	// endLines are those of a step that failed that its message ends with; the log has
	// them all.
	endLines = 12
)

// colours are sequences that steer a terminal, of a text that is read elsewhere, too.
var colours = regexp.MustCompile("\x1b\\[[0-9;?]*[ -/]*[@-~]")

// failure says in words why the daemon made no image.
func (p *progress) failure(ctx context.Context, err error, outOfMemory func() bool) *jobs.Failure {
	if errors.Is(context.Cause(ctx), errDisk) {
		return jobs.Build.Failure("The build writes more to disk than it may", err)
	}
	p.blame(err)
	var exit *gateway.ExitError
	exited := errors.As(err, &exit)
	switch {
	case exited && p.solve:
		return jobs.Solve.Failure(p.words("The Conda environment could not be solved", p.complaint()), err)
	case exited && exit.ExitCode == killed && outOfMemory():
		return jobs.Memory.Failure(p.words(p.subject()+" needs more memory than a build may have", p.lastWords()), err)
	case exited:
		return jobs.Build.Failure(p.words(fmt.Sprintf("%s failed with exit code %d", p.subject(), exit.ExitCode), p.lastWords()), err)
	case gone(err):
		return jobs.Internal.Failure("The build service's daemon went away during the build", status.Error(codes.Unavailable, err.Error()))
	case strings.HasPrefix(p.said(err), "failed to push "), p.failed != nil && strings.HasPrefix(p.failed.name, exporting):
		return jobs.Push.Failure(p.said(err), err)
	default:
		return jobs.Build.Failure(p.said(err)+hint(err), err)
	}
}

// hint says what to do about a mistake that many make.
func hint(err error) string {
	if strings.Contains(err.Error(), "failed to compute cache key") && strings.Contains(err.Error(), "not found") {
		return ". COPY and ADD find only what the request's buildContext holds (slipway build --context DIR)"
	}
	return ""
}

// blame finds the step that an error is about: others may have failed without
// harm, such as reading a cache that is not there yet.
func (p *progress) blame(err error) {
	var v *errdefs.VertexError
	if !errors.As(err, &v) {
		return
	}
	if s := p.steps[digest.Digest(v.Digest)]; s != nil && s.begun {
		p.failed = s
	}
}

// gone says whether the daemon's end is what failed.
func gone(err error) bool {
	if grpcerrors.Code(err) == codes.Unavailable {
		return true
	}
	text := err.Error()
	return strings.Contains(text, "error reading from server: EOF") || strings.Contains(text, "transport is closing") ||
		strings.Contains(text, "no active session")
}

// subject names the step that failed.
func (p *progress) subject() string {
	if p.failed == nil {
		return "A step"
	}
	return "The step " + fault.Clip(p.redact(p.failed.name), lastLineBytes)
}

// words adds lines of the step to a text.
func (p *progress) words(text string, lines []string) string {
	if len(lines) == 0 {
		return text
	}
	return fault.Clip(colours.ReplaceAllString(text+":\n"+strings.Join(lines, "\n"), ""), messageBytes)
}

// lastWords are the last lines of the step that failed.
func (p *progress) lastWords() []string {
	if p.failed == nil {
		return nil
	}
	return p.failed.last[max(0, len(p.failed.last)-endLines):]
}

// complaint is what the solver says, from its beginning, without what went before:
// every package that is missing is in it.
func (p *progress) complaint() []string {
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

// said is the daemon's own text, without the frames that it puts around it.
func (p *progress) said(err error) string {
	text := err.Error()
	for _, frame := range []string{"failed to solve: ", "rpc error: code = Unknown desc = ", "failed to solve: "} {
		text = strings.TrimPrefix(text, frame)
	}
	return fault.Clip(p.redact(colours.ReplaceAllString(text, "")), messageBytes)
}
