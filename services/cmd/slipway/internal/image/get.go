package image

import (
	"fmt"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Get returns `slipway get`.
func Get(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Print a fresh name for what was requested or built before",
		Long: `Print a fresh name for what was requested or built before, also when the old
name has expired. Nothing is built; a pull waits for a running build.

` + idForms + `

Only the user who made a request can get a name for it. Images that require the
user's login are read again. A revoked request gets no new name. The name of a kept
image does not expire, and is printed as it is.`,
		Example: `  docker pull $(slipway get 3f2a5b6c7d8e9f01_1)
  slipway builds && slipway get 3f2a5b6c7d8e9f01_1 -o json`,
		Args:              usage.Exactly(1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := output.Flag(cmd, &containerv1.NameContainerResponse{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		what, err := readSubject(args[0])
		if err != nil {
			return err
		}
		c, err := s.Client()
		if err != nil {
			return err
		}
		raw, res, err := freshName(cmd.Context(), c, what)
		if err != nil {
			return fmt.Errorf("getting a name: %w", err)
		}
		return format.Print(cmd.OutOrStdout(), raw, output.Table{{res.GetTargetImage()}})
	}
	return cmd
}
