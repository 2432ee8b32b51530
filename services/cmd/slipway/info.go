package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

func infoCommand(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Show which server answers, and what it can do",
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
		able, err := c.abilities(cmd.Context())
		if err != nil {
			return err
		}
		t.fact("Version", able.GetProductVersion())
		t.fact("Contract", res.GetServiceInfo().GetVersion())
		t.fact("Commit", res.GetServiceInfo().GetCommitId())
		t.abilities(able)
		return output.print(cmd.OutOrStdout(), raw, t)
	}
	return cmd
}

// abilities asks what the server can do; nothing of one that does not say.
func (c *client) abilities(ctx context.Context) (*containerv1.ListAbilitiesResponse, error) {
	var res containerv1.ListAbilitiesResponse
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/v1alpha1/abilities"}, &res)
	if unlessRefused(err) != nil {
		return nil, fmt.Errorf("reading what the server can do: %w", err)
	}
	return &res, nil
}

// abilities adds what a server can do, and why it cannot do the rest.
func (t *table) abilities(r *containerv1.ListAbilitiesResponse) {
	titles := map[string]string{
		"build": "Builds", "freeze": "Freezes", "sif": "Singularity", "conda": "Conda", "mirror": "Mirrors", "scan": "Scans",
	}
	for _, a := range r.GetAbilities() {
		value := "yes"
		if !a.GetAvailable() {
			value = "no: " + a.GetProblem()
		} else if len(a.GetPlatforms()) > 0 {
			value = strings.Join(a.GetPlatforms(), ", ")
		}
		t.fact(cmp.Or(titles[a.GetName()], a.GetName()), value)
	}
}
