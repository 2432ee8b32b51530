package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

func infoCommand(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Show which server answers",
		Args:  exactly(0),
	}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := s.client()
		if err != nil {
			return err
		}
		var res containerv1.GetServiceInfoResponse
		raw, err := c.do(cmd.Context(), call{method: http.MethodGet, path: "/service-info"}, &res)
		if err != nil {
			return fmt.Errorf("reading what the server is: %w", err)
		}
		var t table
		t.fact("Server", c.base.Redacted())
		t.fact("Contract", res.GetServiceInfo().GetVersion())
		t.fact("Commit", res.GetServiceInfo().GetCommitId())
		return output.print(cmd.OutOrStdout(), raw, t)
	}
	return cmd
}
