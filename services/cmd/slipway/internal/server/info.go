// Package server implements the commands about the server itself: its capabilities and its
// usage.
package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Info returns `slipway info`.
func Info(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Show the server's version and capabilities",
		Args:  usage.Exactly(0),
	}
	format := output.Flag(cmd, &containerv1.GetServiceInfoResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, _ []string) error {
		var res containerv1.GetServiceInfoResponse
		raw, err := c.Do(cmd.Context(), session.Call{Method: http.MethodGet, Path: "/service-info"}, &res)
		if err != nil {
			return fmt.Errorf("reading the server's version: %w", err)
		}
		var t output.Table
		t.Fact("Server", c.Base.Redacted())
		able, err := abilities(cmd.Context(), c)
		if err != nil {
			return err
		}
		t.Fact("Version", able.GetProductVersion())
		t.Fact("Contract", res.GetServiceInfo().GetVersion())
		t.Fact("Commit", res.GetServiceInfo().GetCommitId())
		addAbilities(&t, able)
		return format.Print(cmd.OutOrStdout(), raw, t)
	})
	return cmd
}

// abilities requests the server's capabilities; the list is empty for a server without that
// call.
func abilities(ctx context.Context, c *session.Client) (*containerv1.ListAbilitiesResponse, error) {
	var res containerv1.ListAbilitiesResponse
	_, err := c.Do(ctx, session.Call{Method: http.MethodGet, Path: "/v1alpha1/abilities"}, &res)
	if session.UnlessRefused(err) != nil {
		return nil, fmt.Errorf("reading the server's capabilities: %w", err)
	}
	return &res, nil
}

// addAbilities adds the server's capabilities, and the reasons for missing ones.
func addAbilities(t *output.Table, r *containerv1.ListAbilitiesResponse) {
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
		t.Fact(cmp.Or(titles[a.GetName()], a.GetName()), value)
	}
}
