package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

func describeCommand(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe ID",
		Short: "Show what was requested",
		Long: `Show what was requested, without its secrets; also when the name has expired.

` + idForms + `
Of a build it shows what ` + "`slipway builds show`" + ` does.`,
		Args: exactly(1),
	}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		what, err := readSubject(args[0])
		if err != nil {
			return err
		}
		if what.build != "" {
			return showBuild(cmd, s, what.build, output)
		}
		var res containerv1.DescribeContainerResponse
		raw, err := s.do(cmd.Context(), call{method: http.MethodGet, path: what.path()}, &res)
		if err != nil {
			return fmt.Errorf("describing the request: %w", err)
		}
		return output.print(cmd.OutOrStdout(), raw, requestTable(&res))
	}
	return cmd
}

func requestTable(r *containerv1.DescribeContainerResponse) table {
	var t table
	t.fact("Request", r.GetRequestId())
	t.fact("Name", r.GetTargetImage())
	if r.GetBuildId() == "" { // where an image lies that was built is of no use to anybody
		t.fact("Image", r.GetContainerImage())
	}
	t.fact("Build", r.GetBuildId())
	t.fact("Platform", r.GetContainerPlatform())
	t.fact("Digests", r.GetDigests()...)
	t.config(r.GetContainerConfig())
	t.fact("Includes", r.GetContainerIncludes()...)
	t.text("Recipe", r.GetContainerFile())
	t.text("Conda", r.GetCondaFile())
	t.fact("Frozen", yesNo(r.Freeze))
	t.fact("User", number(r.UserId))
	t.fact("Workspace", number(r.WorkspaceId))
	t.fact("Known to", r.GetPlatformEndpoint())
	t.fact("Workflow", r.GetWorkflowId())
	t.fact("Fingerprint", r.GetFingerprint())
	t.fact("Timestamp", r.GetTimestamp())
	t.fact("Created", moment(r.GetCreationTime()))
	t.fact("Expires", moment(r.GetExpiration()), again(r))
	t.fact("Revoked", moment(r.GetRevocationTime()))
	return t
}

// again says how to get another name where the old one no longer works.
func again(r *containerv1.DescribeContainerResponse) string {
	if r.GetExpiration() == nil || r.GetRevocationTime() != nil || r.GetFreeze() || time.Now().Before(r.GetExpiration().AsTime()) {
		return ""
	}
	return "`slipway get " + r.GetRequestId() + "` prints a fresh name"
}

func (t *table) config(c *containerv1.ContainerConfig) {
	t.fact("Entrypoint", words(c.GetEntrypoint()))
	t.fact("Cmd", words(c.GetCmd()))
	t.fact("Env", c.GetEnv()...)
	t.fact("Working dir", c.GetWorkingDir())
	for i, l := range c.GetLayers() {
		t.fact(fmt.Sprintf("Layer %d", i+1), l.GetGzipDigest()+" "+bytesText(float64(l.GetGzipSize())), hosted(l))
	}
}

// hosted is where a layer lies; empty when it came with the request.
func hosted(l *containerv1.Layer) string {
	if l.GetLocation() == dataPrefix {
		return ""
	}
	return l.GetLocation()
}
