package image

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Containers returns `slipway containers`.
func Containers(s *session.Settings) *cobra.Command {
	var most int
	var from string
	cmd := &cobra.Command{
		Use:   "containers",
		Short: "List the containers that you requested, newest first",
		Long: `List the containers that you requested, newest first. This requires an access token.
The names are secret and not stored: the id of a request gives no access
to its image without your access token. Every command that takes an ID takes it.`,
		Example:           "  slipway containers --max 50\n  docker pull $(slipway get ID)\n  slipway containers -o name | xargs -n 1 slipway revoke",
		Args:              usage.Exactly(0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().IntVar(&most, "max", 0, "How many to show, 1 to 100 (default: the server's, 20).")
	cmd.Flags().StringVar(&from, "page", "", "The continuation token that the previous page ended with.")
	usage.CompleteFlag(cmd, "max")
	usage.CompleteFlag(cmd, "page")
	format := output.Flag(cmd, &containerv1.ListContainersResponse{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		if most != 0 {
			query.Set("max", strconv.Itoa(most))
		}
		if from != "" {
			query.Set("pageToken", from)
		}
		var res containerv1.ListContainersResponse
		raw, err := s.Do(cmd.Context(), session.Call{Method: http.MethodGet, Path: "/v1alpha1/containers", Query: query, Signed: true}, &res)
		if err != nil {
			return fmt.Errorf("listing the containers: %w", err)
		}
		err = format.List(cmd, raw, containersTable(&res, format.Kind == "wide"), "No containers yet. Those that you request with an access token are shown here: `slipway conda samtools=1.20`")
		if err == nil && res.GetNextPageToken() != "" && !format.IsDocument() {
			cmd.PrintErrln("There are more: slipway containers --page", output.Printable(res.GetNextPageToken()))
		}
		return err
	}
	return cmd
}

func containersTable(r *containerv1.ListContainersResponse, wide bool) output.Table {
	t := output.Table{{"ID", "CREATED", "NAME WORKS", "PLATFORM", "IMAGE"}}
	if wide {
		t[0] = append(t[0], "BUILD", "WORKSPACE", "WORKFLOW")
	}
	for _, c := range r.GetContainers() {
		row := []string{c.GetRequestId(), output.FormatTime(c.GetCreationTime()), until(c), c.GetContainerPlatform(), containerTitle(c)}
		if wide {
			row = append(row, c.GetBuildId(), output.Number(c.WorkspaceId), c.GetWorkflowId())
		}
		t = append(t, row)
	}
	return t
}

// until returns how long a name is valid.
func until(c *containerv1.Container) string {
	switch {
	case c.GetRevocationTime() != nil:
		return "revoked"
	case c.GetExpiration() == nil:
		return "always"
	case time.Now().After(c.GetExpiration().AsTime()):
		return "expired"
	}
	return "until " + output.FormatTime(c.GetExpiration())
}

// containerTitle returns the image or, for an image that the service built for itself, the
// packages that it is named after.
func containerTitle(c *containerv1.Container) string {
	if c.GetBuildId() == "" || c.GetFreeze() {
		return c.GetContainerImage()
	}
	return packagesIn(c.GetContainerImage(), c.GetBuildId())
}
