package main

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

func statusCommand(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status ID",
		Short: "Show whether an image can be pulled by now",
		Long: `Show whether an image can be pulled by now.

` + idForms,
		Args: exactly(1),
	}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		what, err := readSubject(args[0])
		if err != nil {
			return err
		}
		if what.build != "" {
			return buildStatus(cmd, s, what, output)
		}
		var res containerv1.GetContainerStatusResponse
		raw, err := s.do(cmd.Context(), call{method: http.MethodGet, path: what.path() + "/status"}, &res)
		if err != nil {
			return fmt.Errorf("reading the status: %w", err)
		}
		return output.print(cmd.OutOrStdout(), raw, statusTable(&res))
	}
	return cmd
}

func statusTable(r *containerv1.GetContainerStatusResponse) table {
	var t table
	t.fact("Request", r.GetId())
	t.fact("Name", r.GetTargetImage())
	t.fact("Status", r.GetStatus())
	if r.Position != nil {
		t.fact("Position", strconv.Itoa(int(r.GetPosition())))
	}
	t.fact("Succeeded", yesNo(r.Succeeded))
	t.fact("Reason", r.GetReason())
	t.text("Message", r.GetMessage())
	t.fact("Build", r.GetBuildId())
	t.fact("Created", moment(r.GetCreationTime()))
	t.fact("Duration", elapsed(r.GetDuration()))
	t.fact("Details", r.GetDetailsUri())
	return t
}

func buildStatus(cmd *cobra.Command, s *settings, what subject, output *format) error {
	var res buildv1.GetBuildStatusResponse
	raw, err := s.do(cmd.Context(), call{method: http.MethodGet, path: what.path() + "/status"}, &res)
	if err != nil {
		return fmt.Errorf("reading the status: %w", err)
	}
	var t table
	t.fact("Build", res.GetId())
	t.fact("Status", res.GetStatus())
	t.fact("Succeeded", yesNo(res.Succeeded))
	t.fact("Reason", res.GetReason())
	t.text("Message", res.GetMessage())
	t.fact("Started", moment(res.GetStartTime()))
	if res.Duration != nil {
		t.fact("Duration", seconds(res.Duration))
	}
	return output.print(cmd.OutOrStdout(), raw, t)
}

// elapsed shows nanoseconds, which the contract has as text.
func elapsed(nanoseconds string) string {
	d, err := time.ParseDuration(nanoseconds + "ns")
	if err != nil {
		return nanoseconds
	}
	return d.Round(time.Millisecond).String()
}
