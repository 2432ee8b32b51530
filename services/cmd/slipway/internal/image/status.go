package image

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/follow"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Status returns `slipway status`.
func Status(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status ID",
		Short: "Show whether an image can be pulled yet",
		Long: `Show whether an image can be pulled yet.

` + idForms,
		Args: usage.Exactly(1),
	}
	format := output.Flag(cmd, &containerv1.GetContainerStatusResponse{}, &buildv1.GetBuildStatusResponse{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		what, err := readSubject(args[0])
		if err != nil {
			return err
		}
		if what.build != "" {
			return buildStatus(cmd, s, what, format)
		}
		var res containerv1.GetContainerStatusResponse
		raw, err := s.Do(cmd.Context(), session.Call{Method: http.MethodGet, Path: what.path() + "/status"}, &res)
		if err != nil {
			return fmt.Errorf("reading the status: %w", err)
		}
		return format.Print(cmd.OutOrStdout(), raw, statusTable(&res))
	}
	return cmd
}

func statusTable(r *containerv1.GetContainerStatusResponse) output.Table {
	var t output.Table
	t.Fact("Request", r.GetId())
	t.Fact("Name", r.GetTargetImage())
	t.Fact("Status", r.GetStatus())
	awaited(&t, r)
	t.Fact("Succeeded", output.YesNo(r.Succeeded))
	t.Fact("Reason", r.GetReasonCode())
	t.Text("Message", r.GetMessage())
	t.Fact("Build", r.GetBuildId())
	t.Fact("Created", output.FormatTime(r.GetCreationTime()))
	t.Fact("Duration", elapsed(r.GetDuration()))
	t.Fact("Details", r.GetDetailsUri())
	return t
}

func buildStatus(cmd *cobra.Command, s *session.Settings, what subject, format *output.Format) error {
	var res buildv1.GetBuildStatusResponse
	raw, err := s.Do(cmd.Context(), session.Call{Method: http.MethodGet, Path: what.path() + "/status"}, &res)
	if err != nil {
		return fmt.Errorf("reading the status: %w", err)
	}
	var t output.Table
	t.Fact("Build", res.GetId())
	t.Fact("Status", res.GetStatus())
	awaited(&t, &res)
	t.Fact("Succeeded", output.YesNo(res.Succeeded))
	t.Fact("Reason", res.GetReasonCode())
	t.Text("Message", res.GetMessage())
	t.Fact("Started", output.FormatTime(res.GetStartTime()))
	if res.Duration != nil {
		t.Fact("Duration", output.Seconds(res.Duration))
	}
	return format.Print(cmd.OutOrStdout(), raw, t)
}

// pending is the state of an unfinished build.
type pending interface {
	GetPosition() int32
	GetExpectedStart() float64
	GetExpectedEnd() float64
}

// awaited shows when a build is likely to begin and end.
func awaited(t *output.Table, r pending) {
	if n := r.GetPosition(); n > 0 {
		t.Fact("Position", strconv.Itoa(int(n)))
	}
	t.Fact("Expected", follow.Expected(r.GetExpectedStart(), r.GetExpectedEnd()))
}

// elapsed formats nanoseconds, which the contract encodes as a string.
func elapsed(nanoseconds string) string {
	d, err := time.ParseDuration(nanoseconds + "ns")
	if err != nil {
		return nanoseconds
	}
	return d.Round(time.Millisecond).String()
}
