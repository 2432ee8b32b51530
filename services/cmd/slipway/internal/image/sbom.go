package image

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// SBOM returns `slipway sbom`.
func SBOM(s *session.Settings) *cobra.Command {
	var as, platform, file string
	cmd := &cobra.Command{
		Use:   "sbom IMAGE",
		Short: "Print the bill of materials of an image",
		Long: `Print the bill of materials (SBOM) of an image.

It lists the Conda packages of the image, with licences, digests and addresses: from
the lock in images that Slipway has built, and from conda-meta folders in others. It
also lists the packages of Debian, Alpine, Python and R that are installed in
the other layers, which are all read. Programs that were copied into the image are
not listed.

The document is SPDX 2.3 or CycloneDX 1.6, as JSON. The same image always gives the
same document.`,
		Example: "  slipway sbom ubuntu:24.04 >ubuntu.spdx.json\n  slipway sbom quay.io/biocontainers/samtools:1.20--h50ea8bc_0 --format cyclonedx --output samtools.cdx.json\n  slipway sbom ubuntu:24.04 --platform linux/arm64",
		Args:    usage.Exactly(1),
	}
	cmd.Flags().StringVar(&as, "format", "spdx", "The document's format: spdx or cyclonedx.")
	cmd.Flags().StringVar(&platform, "platform", "", "The platform of a multi-platform image, e.g. linux/arm64 (default: linux/amd64, or the first one).")
	cmd.Flags().StringVar(&file, "output", "", "The `file` to write, instead of standard output.")
	usage.CompleteFlag(cmd, "format", "spdx", "cyclonedx")
	usage.CompleteFlag(cmd, "platform", "linux/amd64", "linux/arm64")
	name := session.WorkspaceFlag(cmd, s, "whose registry credentials are used")
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		if as != "spdx" && as != "cyclonedx" {
			return usage.Errorf("--format must be spdx or cyclonedx")
		}
		if slices.Contains([]string{"json", "yaml", "name", "text", "wide"}, file) {
			return usage.Errorf("--output is the file to write; the document is always JSON")
		}
		query, err := c.InWorkspace(cmd.Context(), *name)
		if err != nil {
			return err
		}
		query.Set("image", args[0])
		query.Set("format", as)
		if platform != "" {
			query.Set("platform", platform)
		}
		raw, err := c.Do(cmd.Context(), session.Call{Method: http.MethodGet, Path: "/v1alpha1/images/sbom", Signed: true, Query: query}, nil)
		if err != nil {
			return fmt.Errorf("reading the bill of materials of %s: %w", args[0], err)
		}
		if !bytes.HasPrefix(raw, []byte("{")) {
			return errors.New("the answer is no bill of materials; check --server")
		}
		if file == "" && s.IsLive(cmd.OutOrStdout()) {
			raw = []byte(output.PlainText(string(raw)))
		}
		return writeDocument(cmd, raw, file)
	})
	return cmd
}

// writeDocument writes a JSON document to a file, which is only replaced by a complete one, or to standard
// output.
func writeDocument(cmd *cobra.Command, raw []byte, file string) error {
	if file == "" {
		_, err := cmd.OutOrStdout().Write(raw)
		return err
	}
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() { // such as /dev/stdout
		return os.WriteFile(file, raw, 0o666) //nolint:gosec // the umask decides
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	part := fmt.Sprintf("%s.%d.part", file, os.Getpid())
	err := os.WriteFile(part, raw, 0o666) //nolint:gosec // the umask decides
	if err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		_ = os.Remove(part)
	}
	return err
}
