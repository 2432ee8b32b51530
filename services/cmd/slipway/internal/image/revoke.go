package image

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Revoke returns `slipway revoke`.
func Revoke(s *session.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke a request, so that its name can no longer be pulled",
		Long: `Revoke a request, so that its name can no longer be pulled. Its build is cancelled
unless another request waits for it. The command can be repeated.

` + idForms + `
With an access token, a build's id revokes all your names of the build; the names
of other users stay valid.`,
		Args: usage.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			what, err := readSubject(args[0])
			if err != nil {
				return err
			}
			if what.build != "" {
				return revokeBuild(cmd, s, what)
			}
			if _, err := s.Do(cmd.Context(), session.Call{Method: http.MethodDelete, Path: what.path(), Signed: what.isID()}, nil); err != nil {
				return fmt.Errorf("revoking the request: %w", err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "Revoked.")
			return err
		},
	}
}

func revokeBuild(cmd *cobra.Command, s *session.Settings, what subject) error {
	var res containerv1.RevokeBuildResponse
	if _, err := s.Do(cmd.Context(), session.Call{Method: http.MethodDelete, Path: what.path(), Signed: true}, &res); err != nil {
		return fmt.Errorf("revoking the names of the build: %w", err)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "Revoked; names: %d.\n", res.GetRevoked())
	return err
}
