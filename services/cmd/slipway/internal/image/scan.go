package image

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/vex"
)

// severities returns the severities of vulnerabilities, the most severe first.
func severities() []string { return []string{"critical", "high", "medium", "low", "unknown"} }

// Scan returns `slipway scan`.
func Scan(s *session.Settings) *cobra.Command {
	var platform, failOn string
	var levels, files []string
	cmd := &cobra.Command{
		Use:   "scan IMAGE",
		Short: "Find known vulnerabilities of the packages in an image",
		Long: `Find known vulnerabilities of the packages in an image.

The packages are those of ` + "`slipway sbom`" + `. The server compares them with its own
copy of the OSV data, which its operator chooses. Vulnerabilities are listed with
the most severe first. FIXED is the first version without the vulnerability.

Conda packages are compared with advisories for the same software elsewhere,
marked upstream: a correction without a new version is not known there.

Findings that an OpenVEX document rules out do not count; STATUS is that of the
document. The documents are the operator's, those of the organisation of
--workspace, your own (` + "`slipway vex`" + `), and the files --vex, which are not sent.

Exit codes: 0, also if vulnerabilities were found; 1 if there is one of the
severity --fail-on or above, or of one that --levels does not list, or if the
image was not scanned; 2 for an invalid command line.`,
		Example: "  slipway scan ubuntu:24.04\n  slipway scan $(slipway conda samtools=1.20 --await) --fail-on high\n  slipway scan ubuntu:24.04 --levels low,medium --vex site.json\n  slipway scan ubuntu:24.04 -o json",
		Args:    usage.Exactly(1),
	}
	cmd.Flags().StringVar(&platform, "platform", "", "The platform of a multi-platform image, e.g. linux/arm64 (default: linux/amd64, or the first one).")
	cmd.Flags().StringVar(&failOn, "fail-on", "", "Fail if there is a vulnerability of this severity or above: critical, high, medium, low or unknown.")
	cmd.Flags().StringSliceVar(&levels, "levels", nil, "The severities that are tolerated: fail if there is a vulnerability of another one; with medium, unknown is tolerated as well.")
	cmd.Flags().StringArrayVar(&files, "vex", nil, "A `file` with a further OpenVEX document; may be repeated.")
	usage.CompleteFlag(cmd, "levels", severities()...)
	usage.CompleteFlag(cmd, "platform", "linux/amd64", "linux/arm64")
	usage.CompleteFlag(cmd, "fail-on", severities()...)
	name := session.WorkspaceFlag(cmd, s, "whose registry credentials are used")
	format := output.Flag(cmd, &inspectv1.FindVulnerabilitiesResponse{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		isGate := cmd.Flags().Changed("levels") || cmd.Flags().Changed("fail-on")
		if cmd.Flags().Changed("levels") && len(levels) == 0 || cmd.Flags().Changed("fail-on") && failOn == "" {
			return usage.Errorf("--levels and --fail-on need a severity: %s", strings.Join(severities(), ", "))
		}
		not, err := refused(failOn, levels)
		if err != nil {
			return err
		}
		documents, err := readVEX(files)
		if err != nil {
			return err
		}
		res, raw, err := findVulnerabilities(cmd.Context(), s, args[0], platform, *name)
		if err == nil && len(documents) > 0 {
			raw, err = applyVEX(cmd.Context(), res, documents)
		}
		if err != nil {
			return err
		}
		if !format.IsDocument() {
			cmd.PrintErrln(output.Printable(scanSummary(res)))
		}
		if err := format.List(cmd, raw, vulnerabilityTable(res.GetVulnerabilities()), "No known vulnerabilities were found."); err != nil {
			return err
		}
		if isGate && len(res.GetGaps()) > 0 {
			return fmt.Errorf("%s was not scanned as a whole: %s", args[0], strings.Join(res.GetGaps(), "; "))
		}
		return checkFindings(args[0], res.GetCounts(), not)
	}
	return cmd
}

// findVulnerabilities returns the vulnerabilities of an image, also as the server has sent them. platform and workspace
// may be "".
func findVulnerabilities(ctx context.Context, s *session.Settings, image, platform, workspace string) (*inspectv1.FindVulnerabilitiesResponse, []byte, error) {
	c, err := s.Client()
	if err != nil {
		return nil, nil, err
	}
	query, err := c.InWorkspace(ctx, workspace)
	if err != nil {
		return nil, nil, err
	}
	query.Set("image", image)
	if platform != "" {
		query.Set("platform", platform)
	}
	var res inspectv1.FindVulnerabilitiesResponse
	raw, err := c.Do(ctx, session.Call{Method: http.MethodGet, Path: "/v1alpha1/images/vulnerabilities", Signed: true, Query: query}, &res)
	if err != nil {
		return nil, nil, fmt.Errorf("scanning %s: %w", image, err)
	}
	return &res, raw, nil
}

// scanSummary returns a line about what was compared.
func scanSummary(res *inspectv1.FindVulnerabilitiesResponse) string {
	line := fmt.Sprintf("Compared %s of %s with data of %s", output.Count(int(res.GetPackages()), "package"), res.GetDigest(), res.GetDatabaseTime().AsTime().Format("2006-01-02"))
	if counts := countsText(res.GetCounts()); counts != "" {
		line += ": " + counts
	}
	ruled := 0
	for _, v := range res.GetVulnerabilities() {
		if v.Status != nil {
			ruled++
		}
	}
	if ruled > 0 {
		line += fmt.Sprintf("; %d ruled out by VEX documents", ruled)
	}
	return line + ". " + res.GetNote()
}

// countsText lists numbers by severity.
func countsText(counts map[string]int32) string {
	var out []string
	for _, level := range severities() {
		if n := counts[strings.ToUpper(level)]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, level))
		}
	}
	return strings.Join(out, ", ")
}

func vulnerabilityTable(list []*containerv1.Vulnerability) output.Table {
	t := output.Table{{"ID", "SEVERITY", "PACKAGE", "INSTALLED", "FIXED", "STATUS", "TITLE"}}
	for _, v := range list {
		title := v.GetTitle()
		if v.Status != nil { // why it does not count is more important than what it is
			title = v.GetDocument()
			if v.GetJustification() != "" {
				title += ": " + v.GetJustification()
			}
		}
		status := v.GetStatus()
		if status == "" {
			status = v.GetMatch()
		}
		t = append(t, []string{v.GetId(), strings.ToLower(v.GetSeverity()), v.GetPkgName(), v.GetInstalledVersion(), v.GetFixedVersion(), status, title})
	}
	return t
}

// refused returns the severities that --fail-on and --levels do not tolerate; none without these flags.
func refused(failOn string, levels []string) (not []string, err error) {
	if failOn = strings.ToLower(failOn); failOn != "" {
		i := slices.Index(severities(), failOn)
		if i < 0 {
			return nil, usage.Errorf("--fail-on must be one of %s, not %q", strings.Join(severities(), ", "), failOn)
		}
		not = severities()[:i+1]
	}
	if len(levels) == 0 {
		return not, nil
	}
	if not != nil {
		return nil, usage.Errorf("--fail-on and --levels exclude each other")
	}
	var tolerated []string
	for _, l := range levels {
		l = strings.ToLower(strings.TrimSpace(l))
		if !slices.Contains(severities(), l) {
			return nil, usage.Errorf("--levels must be some of %s, not %q", strings.Join(severities(), ", "), l)
		}
		if tolerated = append(tolerated, l); l == "medium" {
			tolerated = append(tolerated, "unknown") // as scanLevels of a request
		}
	}
	return slices.DeleteFunc(severities(), func(l string) bool { return slices.Contains(tolerated, l) }), nil
}

// readVEX reads the files of --vex.
func readVEX(files []string) (vex.Sets, error) {
	if len(files) > limits.VEXFiles {
		return nil, usage.Errorf("--vex may be given %d times", limits.VEXFiles)
	}
	docs, err := vex.ReadFiles(files, func(path string) string { return path })
	if err != nil {
		return nil, fmt.Errorf("reading --vex: %w", err)
	}
	return vex.ParseAll(docs)
}

// applyVEX applies local documents to a response, and returns it in JSON.
func applyVEX(ctx context.Context, res *inspectv1.FindVulnerabilitiesResponse, documents vex.Sets) ([]byte, error) {
	judged, err := documents.Apply(ctx, &containerv1.ScanResult{Vulnerabilities: res.GetVulnerabilities(), Counts: res.GetCounts(), Images: []string{res.GetDigest()}})
	if err != nil {
		return nil, err
	}
	res.Vulnerabilities, res.Counts = judged.GetVulnerabilities(), judged.GetCounts()
	return protojson.Marshal(res)
}

// checkFindings returns an error if there is a vulnerability of one of the severities.
func checkFindings(image string, counts map[string]int32, not []string) error {
	found := map[string]int32{}
	for _, level := range not {
		if n := counts[strings.ToUpper(level)]; n > 0 {
			found[strings.ToUpper(level)] = n
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("%s has vulnerabilities: %s", image, countsText(found))
	}
	return nil
}

// scanFlags are the flags of the scan of a requested image.
type scanFlags struct {
	mode   string
	levels []string
}

func (f *scanFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.mode, "scan-mode", "", "Scan the image for known vulnerabilities: async, or required to refuse pulls of an image with others than --scan-level tolerates; none (default).")
	cmd.Flags().StringSliceVar(&f.levels, "scan-level", nil, "A `severity` that --scan-mode tolerates: low, medium, high, critical or unknown; may be repeated.")
	usage.CompleteFlag(cmd, "scan-mode", "none", "async", "required")
	usage.CompleteFlag(cmd, "scan-level", severities()...)
}

func (f *scanFlags) fill(req *containerv1.ContainerRequest) error {
	if len(f.levels) > 0 && (f.mode == "" || f.mode == "none") {
		return usage.Errorf("--scan-level requires --scan-mode async or required")
	}
	req.ScanMode, req.ScanLevels = f.mode, nil
	for _, l := range f.levels {
		req.ScanLevels = append(req.ScanLevels, strings.ToUpper(l))
	}
	return nil
}
