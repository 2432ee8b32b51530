package image

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// RecipeFlags are the flags of a built image: its target, and whether to wait for it.
type RecipeFlags struct {
	imageFlags
	frozenFlags
	buildRepo, cacheRepo string
	names                string
	compression          compression
	DryRun               bool
}

// Add adds the flags.
func (f *RecipeFlags) Add(cmd *cobra.Command, s *session.Settings) {
	f.AddTarget(cmd, s)
	f.frozenFlags.addWait(cmd)
	cmd.Flags().BoolVar(&f.DryRun, "dry-run", false, "Print the name that the image would have; build nothing.")
}

// AddTarget adds the flags of the image and its target: all except those about waiting for it and
// about its format.
func (f *RecipeFlags) AddTarget(cmd *cobra.Command, s *session.Settings) {
	f.imageFlags.add(cmd, s)
	flags := cmd.Flags()
	flags.Lookup("platform").Usage = "The platform to build for, e.g. linux/arm64; linux/amd64,linux/arm64 for both (default: the server's, linux/amd64)."
	flags.StringVar(&f.buildRepo, "build-repo", "", "The `repository` to push the image to, with your own credentials (default: the server's).")
	flags.StringVar(&f.cacheRepo, "cache-repo", "", "The `repository` to cache layers in for later builds.")
	f.frozenFlags.addFreeze(cmd)
	f.frozenFlags.addProgress(cmd)
	flags.StringVar(&f.names, "name-strategy", "", "How the image is named: none, tagPrefix or imageSuffix (default: the server's, tagPrefix).")
	flags.Var(&f.compression, "build-compression", "How the layers are compressed: gzip, zstd, estargz, zstd:chunked, erofs or erofs+zstd, and a level, e.g. zstd:19; with ,force also those of base images (default: gzip).")
	usage.CompleteFlag(cmd, "name-strategy", "none", "tagPrefix", "imageSuffix")
	usage.CompleteFlag(cmd, "build-compression", "gzip", "zstd", "estargz", "zstd:chunked", "erofs", "erofs+zstd")
	for _, name := range []string{"build-repo", "cache-repo"} {
		usage.CompleteFlag(cmd, name)
	}
}

// SetFormat sets the format of a request; "" for that of the other flags.
func (f *RecipeFlags) SetFormat(req *containerv1.ContainerRequest, format string) error {
	switch {
	case format != "" && format != "oci" && format != "sif" && format != "environment":
		return usage.Errorf("--format must be oci, sif or environment, not %q", format)
	case format != "" && format != "sif" && f.sif:
		return usage.Errorf("--sif and --format %s exclude each other", format)
	}
	f.sif = f.sif || format == "sif"
	req.Format = format
	return nil
}

// Run requests the image, waits for it if requested, and prints its name.
func (f *RecipeFlags) Run(cmd *cobra.Command, s *session.Settings, req *containerv1.ContainerRequest) error {
	ctx := cmd.Context()
	c, err := s.Client()
	if err != nil {
		return err
	}
	if err := f.target(cmd, req); err != nil {
		return err
	}
	if err := f.fill(cmd, s, c, req); err != nil {
		return err
	}
	raw, res, err := c.Submit(ctx, req)
	if err != nil {
		return fmt.Errorf("requesting the build: %w", err)
	}
	if err := f.wait(cmd, s, c, res); err != nil {
		return err
	}
	return f.Output.Print(cmd.OutOrStdout(), raw, output.Table{{f.nameOf(res)}})
}

// Defaults returns a request with the fields that the flags set.
func (f *RecipeFlags) Defaults(cmd *cobra.Command, s *session.Settings, c *session.Client) (*containerv1.ContainerRequest, error) {
	req := &containerv1.ContainerRequest{}
	if err := f.target(cmd, req); err != nil {
		return nil, err
	}
	return req, f.fill(cmd, s, c, req)
}

// IgnoreWorkspace makes Defaults ignore --workspace, which the server would have to look up.
func (f *RecipeFlags) IgnoreWorkspace() { *f.workspace = "" }

// Awaits reports whether --await is set.
func (f *RecipeFlags) Awaits() bool { return f.await }

// IsLive reports whether progress is shown on a line that is replaced.
func (f *RecipeFlags) IsLive(cmd *cobra.Command, s *session.Settings) bool {
	return f.progress == "tty" || f.progress == "auto" && s.IsLive(cmd.ErrOrStderr())
}

// nameOf returns the name to pull. After a dry run, the name of an image that does not exist
// yet has <token> in place of its token.
func (f *RecipeFlags) nameOf(res *containerv1.SubmitContainerResponse) string {
	name := res.GetTargetImage()
	if f.DryRun && !res.GetCached() {
		name = strings.Replace(name, "/wt/"+res.GetContainerToken()+"/", "/wt/<token>/", 1)
	}
	return name
}

func (f *RecipeFlags) target(cmd *cobra.Command, req *containerv1.ContainerRequest) error {
	req.BuildRepository, req.CacheRepository, req.NameStrategy, req.DryRun = f.buildRepo, f.cacheRepo, f.names, f.DryRun
	req.Compression = f.compression.as
	if f.DryRun && f.await {
		return usage.Errorf("--dry-run builds nothing that --await could wait for")
	}
	if f.freeze != "" && f.buildRepo != "" && f.buildRepo != f.freeze {
		return usage.Errorf("--freeze and --build-repo name two repositories; give only --freeze")
	}
	return f.frozenFlags.target(cmd, req)
}

// Encoded returns a file, or standard input for "-", in base64 as the contract requires.
func Encoded(cmd *cobra.Command, name string) (string, error) {
	text, err := contents(cmd, name)
	return base64.StdEncoding.EncodeToString([]byte(text)), err
}

// contents reads a file, or standard input for "-".
func contents(cmd *cobra.Command, name string) (string, error) {
	var raw []byte
	var err error
	if name == "-" {
		raw, err = io.ReadAll(cmd.InOrStdin())
	} else {
		raw, err = os.ReadFile(name)
	}
	if err == nil && len(raw) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	return string(raw), nil
}
