package image

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/layer"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Describe returns `slipway describe`.
func Describe(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe ID",
		Short: "Show what was requested",
		Long: `Show what was requested, without its secrets; also when the name has expired. By
the id of another user's request it leaves out what was added to the image, and who
made the request.

` + idForms + `
Of a build it shows what ` + "`slipway builds show`" + ` does.`,
		Args: usage.Exactly(1),
	}
	format := output.Flag(cmd, &containerv1.DescribeContainerResponse{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		what, err := readSubject(args[0])
		if err != nil {
			return err
		}
		if what.build != "" {
			return showBuild(cmd, s, what.build, format)
		}
		var res containerv1.DescribeContainerResponse
		raw, err := s.Do(cmd.Context(), session.Call{Method: http.MethodGet, Path: what.path(), Signed: what.isID()}, &res)
		if err != nil {
			return fmt.Errorf("describing the request: %w", err)
		}
		return format.Print(cmd.OutOrStdout(), raw, requestTable(&res, args[0]))
	}
	return cmd
}

func requestTable(r *containerv1.DescribeContainerResponse, id string) output.Table {
	var t output.Table
	t.Fact("Request", r.GetRequestId())
	t.Fact("Name", r.GetTargetImage())
	if r.GetBuildId() == "" { // the location of a built image is of no use to users
		t.Fact("Image", r.GetContainerImage())
	}
	t.Fact("Build", r.GetBuildId())
	t.Fact("Platform", r.GetContainerPlatform())
	t.Fact("Digests", r.GetDigests()...)
	addConfig(&t, r.GetContainerConfig())
	t.Fact("Includes", r.GetContainerIncludes()...)
	t.Text("Recipe", r.GetContainerFile())
	t.Text("Conda", r.GetCondaFile())
	t.Fact("Frozen", output.YesNo(r.Freeze))
	t.Fact("User", output.Number(r.UserId))
	t.Fact("Workspace", output.Number(r.WorkspaceId))
	t.Fact("Known to", r.GetPlatformEndpoint())
	t.Fact("Workflow", r.GetWorkflowId())
	t.Fact("Fingerprint", r.GetFingerprint())
	t.Fact("Timestamp", r.GetTimestamp())
	t.Fact("Created", output.FormatTime(r.GetCreationTime()))
	t.Fact("Expires", output.FormatTime(r.GetExpiration()), again(r, id))
	t.Fact("Revoked", output.FormatTime(r.GetRevocationTime()))
	return t
}

// again returns a hint how to get another name for id if the old name has expired, otherwise
// "".
func again(r *containerv1.DescribeContainerResponse, id string) string {
	if r.GetExpiration() == nil || r.GetRevocationTime() != nil || r.GetFreeze() || time.Now().Before(r.GetExpiration().AsTime()) {
		return ""
	}
	return "`slipway get " + id + "` prints a fresh name"
}

func addConfig(t *output.Table, c *containerv1.ContainerConfig) {
	t.Fact("Entrypoint", output.FormatCommand(c.GetEntrypoint()))
	t.Fact("Cmd", output.FormatCommand(c.GetCmd()))
	t.Fact("Env", c.GetEnv()...)
	t.Fact("Working dir", c.GetWorkingDir())
	for i, l := range c.GetLayers() {
		t.Fact(fmt.Sprintf("Layer %d", i+1), l.GetGzipDigest()+" "+output.BytesText(float64(l.GetGzipSize())), hosted(l))
	}
}

// hosted returns the URL of a layer; "" if it came with the request.
func hosted(l *containerv1.Layer) string {
	if l.GetLocation() == layer.DataPrefix {
		return ""
	}
	return l.GetLocation()
}
