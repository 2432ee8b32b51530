package conda

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Explain returns `slipway explain`.
func Explain(s *session.Settings) *cobra.Command {
	var f packageFlags
	var why string
	cmd := &cobra.Command{
		Use:   "explain [PACKAGE...]",
		Short: "Explain why Conda packages conflict, or why a package is in an environment",
		Long: `Explain why Conda packages conflict, and suggest changes; or, with --why, explain
why a package is in an environment.

Each step of the explanation is shown below the step that it causes. Each
suggested change was tested. The exit code is 0 if the packages can be solved,
in which case the size of the environment is shown, and 1 otherwise.

--why NAME shows the requirements that lead to the package NAME, with their
versions: a chain for each package that requires it. The environment is that of
the packages, or the lock in --file. The exit code is 1 if NAME is not in it.`,
		Example: `  slipway explain samtools=1.20 htslib=1.17
  slipway explain samtools=1.20 --why openssl
  slipway explain --file pixi.lock --why libzlib
  slipway explain --file environment.yml --platform linux/arm64`,
		Args:              func(_ *cobra.Command, args []string) error { return f.check(args) },
		ValidArgsFunction: completePackages(s),
	}
	f.add(cmd, s)
	cmd.Flags().StringVar(&why, "why", "", "Explain why the package `name` is in the environment.")
	usage.CompleteFlag(cmd, "why")
	format := output.Flag(cmd, &condav1.LockPackagesResponse{}, &condav1.ExplainPackageResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		q, err := f.query(cmd, c, args)
		if err != nil {
			return err
		}
		if why != "" {
			return explainPackage(cmd, c, format, q, why)
		}
		raw, res, err := c.Lock(cmd.Context(), q)
		if err == nil {
			return format.Print(cmd.OutOrStdout(), raw, lockTable(res))
		}
		no, ok := errors.AsType[*session.Refused](err)
		if !ok || no.Status != http.StatusUnprocessableEntity {
			return fmt.Errorf("explaining: %w", err)
		}
		return printConflict(cmd, s, format, no, q)
	})
	return cmd
}

// printConflict shows why the packages cannot be solved.
func printConflict(cmd *cobra.Command, s *session.Settings, format *output.Format, no *session.Refused, q *condav1.LockQuery) error {
	w := cmd.OutOrStdout()
	if format.IsDocument() {
		return errors.Join(format.Print(w, no.Raw, nil), errUnsolvable)
	}
	res, err := no.Response.Conflict()
	if err != nil {
		return fmt.Errorf("reading the reason: %w", err)
	}
	p := painter{on: s.IsLive(w)}
	var out strings.Builder
	out.WriteString(p.bold(res.GetConflict().GetSummary()) + "\n")
	for _, r := range res.GetConflict().GetReasons() {
		p.reason(&out, r, 1)
	}
	for _, m := range res.GetConflict().GetMissing() {
		p.missing(&out, m)
	}
	out.WriteString(suggestionText(res, q))
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("printing the reason: %w", err)
	}
	return errUnsolvable
}

var errUnsolvable = errors.New("there is no such environment")

// painter colours text for a terminal.
type painter struct{ on bool }

func (p painter) bold(s string) string { return p.paint("1", s) }

// paint makes text printable and colours it.
func (p painter) paint(code, s string) string {
	if s = output.Printable(s); !p.on || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// deepest is the maximum indentation of a step.
const deepest = 20

// reason writes a step and, below it, the steps that cause it.
func (p painter) reason(out *strings.Builder, r *condav1.Reason, depth int) {
	text := output.Printable(r.GetText())
	if len(r.GetBecause()) == 0 {
		text = p.paint("31", r.GetText()) // the last step
	}
	out.WriteString(strings.Repeat("  ", min(depth, deepest)) + text + "\n")
	for _, b := range r.GetBecause() {
		p.reason(out, b, depth+1)
	}
}

func (p painter) missing(out *strings.Builder, m *condav1.MissingPackage) {
	line := "no channel has " + m.GetName()
	if len(m.GetNearest()) > 0 {
		line += "; did you mean " + strings.Join(m.GetNearest(), ", ") + "?"
	}
	if len(m.GetPlatforms()) > 0 {
		line += "; it is only available for " + strings.Join(m.GetPlatforms(), " and ")
	}
	if len(m.GetElsewhere()) > 0 {
		line += "; it is in " + strings.Join(m.GetElsewhere(), ", ")
	}
	out.WriteString("  " + p.paint("31", line) + "\n")
}

// withSuggestions appends to an error the commands that would work, since the server's
// message only describes the changes.
func withSuggestions(err error, q *condav1.LockQuery) error {
	no, ok := errors.AsType[*session.Refused](err)
	if !ok || no.Status != http.StatusUnprocessableEntity || len(q.GetPackages().GetEntries()) == 0 {
		return err
	}
	res, jsonErr := no.Response.Conflict()
	if jsonErr != nil {
		return err
	}
	more := ""
	for _, s := range res.GetSuggestions() {
		more += "\n  slipway lock " + output.Printable(arguments(s, q))
	}
	if more == "" {
		return err
	}
	return fmt.Errorf("%w\nTry:%s", err, more)
}

// suggestionText lists the changes that would work and, for packages from the command line,
// the command for each.
func suggestionText(res *condav1.LockPackagesResponse, q *condav1.LockQuery) string {
	var out strings.Builder
	for i, s := range res.GetSuggestions() {
		if i == 0 {
			out.WriteString("What would work:\n")
		}
		out.WriteString("  " + output.Printable(s.GetChange()) + "\n")
		if len(q.GetPackages().GetEntries()) > 0 {
			out.WriteString("    slipway lock " + output.Printable(arguments(s, q)) + "\n")
		}
	}
	return out.String()
}

// arguments returns a suggestion's arguments in shell syntax.
func arguments(s *condav1.Suggestion, q *condav1.LockQuery) string {
	channels := s.GetChannels()
	if len(channels) == 0 {
		channels = q.GetPackages().GetChannels()
	}
	var words []string
	for _, p := range s.GetPackages() {
		words = append(words, shellWord(p))
	}
	for _, c := range channels {
		words = append(words, "-c "+shellWord(c))
	}
	for _, p := range q.GetPlatforms() {
		words = append(words, "--platform "+shellWord(p))
	}
	return strings.Join(words, " ")
}

// shellWord quotes a word if the shell would interpret it.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-=:/+,@") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// lockTable lists the packages of each platform and their sizes.
func lockTable(res *condav1.LockPackagesResponse) output.Table {
	var t output.Table
	for i, l := range res.GetLocks() {
		if i > 0 {
			t = append(t, nil)
		}
		t = append(t, []string{"PACKAGE", "VERSION", "BUILD", "CHANNEL", "DOWNLOAD"})
		for _, p := range l.GetPackages() {
			t = append(t, []string{p.GetName(), p.GetVersion(), p.GetBuild(), p.GetChannel(), fmt.Sprintf("%8s", output.BytesText(p.GetSize()))})
		}
		all := len(l.GetPackages())
		t = append(t, []string{output.Count(all, "package"), "", "", l.GetPlatform(), fmt.Sprintf("%8s", output.BytesText(l.GetSize()))})
		if there := int(l.GetKnownLayers()); there > 0 { // an image gets these layers from the registry
			t = append(t, []string{fmt.Sprintf("%d to fetch", all-there), "", "", "", fmt.Sprintf("%8s", output.BytesText(l.GetMissingBytes()))})
		}
	}
	for _, note := range res.GetNotes() {
		t = append(t, nil, []string{note})
	}
	return t
}
