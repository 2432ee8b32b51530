package patch

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/follow"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// flags are the flags of `slipway patch`.
type flags struct {
	also                        []string
	allowChanges, dryRun, await bool
	all, again                  bool
	workspace                   *string
	output                      *output.Format
}

// Command returns `slipway patch`.
func Command(s *session.Settings) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "patch IMAGE PACKAGE...",
		Short: "Exchange Conda packages in an image, and keep everything else",
		Long: `Exchange Conda packages in an image, and keep everything else: the other packages,
the base image, the settings and what was added. Only the layers of the exchanged
packages and of the list of packages are new. The new name is printed, and the
changes on standard error. The old name remains valid.

IMAGE is the image name HOST/wt/TOKEN/PATH:TAG, or the id of its request with the
access token of the user who made it. Each PACKAGE is a name, for the newest version
with which all other packages can remain, or a specification such as
'openssl>=3.0.14'. If other packages must change, nothing is done, and the error
names them.

With --all, the package is exchanged in all your images that ` + "`slipway outdated`" + `
lists, except those that were patched before, and the new names are printed. An
image that cannot be patched does not stop the others. An image that was built from
a Dockerfile has to be built again.`,
		Example: `  slipway patch "$IMAGE" openssl --dry-run
  slipway patch 9f86d081…0f00a08 'openssl>=3.0.14' --also ca-certificates --await
  slipway patch --all 'openssl<3.0.14'`,
		Args: func(_ *cobra.Command, args []string) error {
			if f.all {
				_, err := parseBound(args)
				return err
			}
			if len(args) < 2 {
				return usage.Errorf("an image and the packages to exchange are required, e.g. slipway patch IMAGE openssl")
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	to := cmd.Flags()
	to.StringSliceVar(&f.also, "also", nil, "A `package` that may also change, if necessary (repeatable).")
	to.BoolVar(&f.allowChanges, "allow-changes", false, "Let any package change, if necessary.")
	to.BoolVar(&f.dryRun, "dry-run", false, "Print the changes; request nothing.")
	to.BoolVar(&f.await, "await", false, "Show the build's log on standard error, and print the name when the image exists.")
	to.BoolVar(&f.all, "all", false, "Patch all your images with an outdated package: slipway patch --all 'PACKAGE<VERSION'.")
	to.BoolVar(&f.again, "again", false, "With --all: also patch images that were patched before.")
	usage.CompleteFlag(cmd, "also")
	f.workspace = session.WorkspaceFlag(cmd, s, "whose images are patched with --all")
	f.output = output.Flag(cmd, &containerv1.PatchImageResponse{}, map[string]any{"results": []result{}})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		if f.dryRun && f.await {
			return usage.Errorf("--dry-run builds nothing that --await could wait for")
		}
		if f.all {
			return f.patchAll(cmd, c, args)
		}
		if f.again || cmd.Flags().Changed("workspace") {
			return usage.Errorf("--again and --workspace are for --all")
		}
		return f.patchOne(cmd, s, c, args)
	})
	return cmd
}

// patchOne exchanges packages in one image.
func (f *flags) patchOne(cmd *cobra.Command, s *session.Settings, c *session.Client, args []string) error {
	raw, res, err := f.request(cmd.Context(), c, args[0], args[1:])
	if err != nil {
		return fmt.Errorf("patching the image: %w", err)
	}
	if f.dryRun {
		return f.output.Print(cmd.OutOrStdout(), raw, changesTable(res))
	}
	for _, row := range changesTable(res)[1:] {
		cmd.PrintErrln("slipway:", output.Printable(strings.Join(row, " ")))
	}
	if f.await && !res.GetSucceeded() {
		of := &containerv1.SubmitContainerResponse{RequestId: res.RequestId, BuildId: res.BuildId, TargetImage: res.TargetImage, ContainerToken: res.ContainerToken}
		if err := follow.Await(cmd.Context(), c, of, follow.NewConsole(cmd.ErrOrStderr(), s.IsLive(cmd.ErrOrStderr()), true)); err != nil {
			return err
		}
	}
	return f.output.Print(cmd.OutOrStdout(), raw, output.Table{{res.GetTargetImage()}})
}

// request sends a patch.
func (f *flags) request(ctx context.Context, c *session.Client, image string, packages []string) ([]byte, *containerv1.PatchImageResponse, error) {
	var res containerv1.PatchImageResponse
	raw, err := c.Do(ctx, session.Call{Method: http.MethodPost, Path: "/v1alpha1/images/patch", Signed: true, Body: &containerv1.ImagePatch{
		Image: image, Packages: packages, Also: f.also, AllowChanges: f.allowChanges, DryRun: f.dryRun,
	}}, &res)
	return raw, &res, err
}

// changesTable shows the packages that differ between two images. Its first row is the header.
func changesTable(r *containerv1.PatchImageResponse) output.Table {
	t := output.Table{{"PACKAGE", "FROM", "TO", "PLATFORM"}}
	for _, platform := range r.GetChanges() {
		for _, p := range platform.GetPackages() {
			t = append(t, []string{p.GetName(), versionOf(p.GetOld()), versionOf(p.GetNew()), platform.GetPlatform()})
		}
	}
	return t
}

func versionOf(p *condav1.LockedPackage) string {
	return cmp.Or(strings.TrimSpace(p.GetVersion()+" "+p.GetBuild()), "none")
}
