package image

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Builds returns `slipway builds`.
func Builds(s *session.Settings) *cobra.Command {
	var most, offset int
	cmd := &cobra.Command{
		Use:               "builds",
		Short:             "List your builds, newest first",
		Long:              "List your builds, newest first. This requires an access token.",
		Example:           "  slipway builds --max 50\n  slipway builds show 3f2a5b6c7d8e9f01_1\n  docker pull $(slipway get 3f2a5b6c7d8e9f01_1)",
		Args:              usage.Exactly(0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().IntVar(&most, "max", 0, "How many to show, 1 to 100 (default: the server's, 20).")
	cmd.Flags().IntVar(&offset, "offset", 0, "How many of the newest to skip.")
	usage.CompleteFlag(cmd, "max")
	usage.CompleteFlag(cmd, "offset")
	format := output.Flag(cmd, &buildv1.ListBuildsResponse{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{}
		if most != 0 {
			query.Set("max", strconv.Itoa(most))
		}
		if offset != 0 {
			query.Set("offset", strconv.Itoa(offset))
		}
		var res buildv1.ListBuildsResponse
		raw, err := s.Do(cmd.Context(), session.Call{Method: http.MethodGet, Path: "/v1alpha1/builds", Query: query, Signed: true}, &res)
		if err != nil {
			return fmt.Errorf("listing the builds: %w", err)
		}
		none := "No builds yet. Those that you start with an access token are shown here: `slipway conda samtools=1.20`"
		if offset > 0 {
			none = "No builds beyond --offset."
		}
		return format.List(cmd, raw, buildsTable(&res, format.Kind == "wide"), none)
	}
	cmd.AddCommand(buildsShowCommand(s))
	return cmd
}

func buildsTable(r *buildv1.ListBuildsResponse, wide bool) output.Table {
	t := output.Table{{"BUILD", "STATUS", "STARTED", "DURATION", "PLATFORM", "IMAGE"}}
	if wide {
		t[0] = append(t[0], "DIGEST", "MESSAGE")
	}
	for _, b := range r.GetBuilds() {
		row := []string{b.GetBuildId(), statusText(b), output.FormatTime(b.GetStartTime()), output.Seconds(b.Duration), b.GetPlatform(), imageTitle(b)}
		if wide {
			first, _, _ := strings.Cut(b.GetMessage(), "\n")
			row = append(row, b.GetDigest(), first)
		}
		t = append(t, row)
	}
	return t
}

// imageTitle returns the name by which an image is pulled. An image in the service's own
// repository has no fixed name (`slipway get` prints a valid one). For such an image,
// imageTitle returns the packages in its name.
func imageTitle(b *buildv1.Build) string {
	if !b.GetServed() {
		return b.GetTargetImage()
	}
	return packagesIn(b.GetTargetImage(), b.GetBuildId())
}

// packagesIn returns the packages that a build's image is named after; "-" for none.
func packagesIn(title, build string) string {
	id, _, _ := strings.Cut(build, "_")
	title = title[strings.LastIndexAny(title, "/:")+1:]
	if title = strings.TrimSuffix(strings.TrimSuffix(title, id), "--"); title != "" {
		return title
	}
	return "-"
}

// statusText returns a build's status in a word or two.
func statusText(b *buildv1.Build) string {
	switch {
	case b.Succeeded == nil:
		return b.GetStatus()
	case b.GetSucceeded():
		return "SUCCEEDED"
	case b.GetReasonCode() == "":
		return "FAILED"
	}
	return "FAILED (" + b.GetReasonCode() + ")"
}
