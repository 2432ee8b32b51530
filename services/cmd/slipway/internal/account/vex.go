package account

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/vex"
)

// VEX returns `slipway vex`.
func VEX(s *session.Settings) *cobra.Command {
	cmd := usage.Group("vex", "Manage OpenVEX documents: which known vulnerabilities do not affect your images")
	cmd.Long = `Manage OpenVEX documents (https://github.com/openvex/spec): which known
vulnerabilities do not affect your images.

Findings with the status not_affected or fixed do not count in scans. Your own
documents apply to the scans that you request, those of an organisation (--org)
to the scans in its workspaces, and those of the operator to all. Of statements
about the same finding, the newest applies. A document applies immediately, also
to images that were scanned before; pulls follow within a minute.`
	cmd.AddCommand(vexListCommand(s), vexAddCommand(s), vexShowCommand(s), vexDeleteCommand(s))
	return cmd
}

// vexOwner is the flag --org.
type vexOwner struct{ org string }

func (o *vexOwner) add(cmd *cobra.Command, s *session.Settings) {
	cmd.Flags().StringVar(&o.org, "org", "", "The organisation, by name or id (default: your own documents).")
	usage.CompleteFlagFrom(cmd, "org", s.Completions(func(ctx context.Context, c *session.Client) (out []cobra.Completion, err error) {
		_, list, err := orgs(ctx, c)
		for _, l := range list {
			out = append(out, session.CompleteFlag(l.GetName(), output.Tallied(l.GetOrgId())))
		}
		return out, err
	}))
}

// call returns a call for the documents of the owner, or for one of them.
func (o *vexOwner) call(ctx context.Context, c *session.Client, method, name string) (session.Call, error) {
	out := session.Call{Method: method, Path: "/api/vex", Query: url.Values{}, Signed: true}
	if name != "" {
		out.Path += "/" + url.PathEscape(name)
	}
	if o.org == "" {
		return out, nil
	}
	id := o.org
	if !isID(id) {
		var err error
		if id, err = orgID(ctx, c, o.org); err != nil {
			return out, err
		}
	}
	out.Query.Set("orgId", id)
	return out, nil
}

// list lists the documents of the owner.
func (o *vexOwner) list(ctx context.Context, c *session.Client) ([]byte, []*platformv1.VexDocument, error) {
	call, err := o.call(ctx, c, http.MethodGet, "")
	if err != nil {
		return nil, nil, err
	}
	var res platformv1.ListVexDocumentsResponse
	raw, err := c.Do(ctx, call, &res)
	if err != nil {
		return nil, nil, fmt.Errorf("listing the VEX documents: %w", err)
	}
	return raw, res.GetDocuments(), nil
}

// complete completes the name of a document of the owner.
func (o *vexOwner) complete(s *session.Settings) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return s.Completions(func(ctx context.Context, c *session.Client) (out []cobra.Completion, err error) {
			if len(args) > 0 {
				return nil, nil
			}
			_, list, err := o.list(ctx, c)
			for _, d := range list {
				out = append(out, session.CompleteFlag(d.GetName(), strconv.Itoa(int(d.GetStatements()))+" statements"))
			}
			return out, err
		})(cmd, args, prefix)
	}
}

func vexTable(list ...*platformv1.VexDocument) output.Table {
	t := output.Table{{"NAME", "STATEMENTS", "SIZE", "SET", "BY"}}
	for _, d := range list {
		t = append(t, []string{d.GetName(), strconv.Itoa(int(d.GetStatements())), output.BytesText(float64(d.GetSize())), output.FormatTime(d.GetLastUpdated()), d.GetUpdatedBy()})
	}
	return t
}

func vexListCommand(s *session.Settings) *cobra.Command {
	var owner vexOwner
	cmd := &cobra.Command{
		Use: "list", Short: "List your OpenVEX documents, or those of an organisation", Args: usage.Exactly(0), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  slipway vex list\n  slipway vex list --org lab",
	}
	owner.add(cmd, s)
	format := output.Flag(cmd, &platformv1.ListVexDocumentsResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, _ []string) error {
		raw, list, err := owner.list(cmd.Context(), c)
		if err != nil {
			return err
		}
		return format.List(cmd, raw, vexTable(list...), "No VEX documents yet. `slipway vex add FILE` adds one.")
	})
	return cmd
}

func vexAddCommand(s *session.Settings) *cobra.Command {
	var owner vexOwner
	var name string
	cmd := &cobra.Command{
		Use: "add FILE", Short: "Add an OpenVEX document, or replace the one with its name", Args: usage.Exactly(1),
		Long: `Add an OpenVEX document, or replace the one with its name.

FILE is a document in JSON, as vexctl creates it; - reads standard input. Its
products are packages by their package URLs, as ` + "`slipway scan -o json`" + ` shows them,
or images by their digests.`,
		Example: "  slipway vex add site.json\n  vexctl create --product pkg:deb/debian/zlib1g --vuln CVE-2023-45853 --status not_affected \\\n    --justification vulnerable_code_not_present | slipway vex add - --name zlib --org lab",
	}
	owner.add(cmd, s)
	cmd.Flags().StringVar(&name, "name", "", "The name of the document (default: that of FILE without its extension).")
	usage.CompleteFlag(cmd, "name")
	format := output.Flag(cmd, &platformv1.SetVexDocumentResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		if name == "" && args[0] == "-" {
			return usage.Errorf("a document of standard input needs --name")
		}
		if name == "" {
			name = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(args[0]), ".json"), ".openvex")
		}
		content, err := readVEX(cmd, args[0])
		if err != nil {
			return err
		}
		call, err := owner.call(cmd.Context(), c, http.MethodPut, name)
		if err != nil {
			return err
		}
		call.Body = &platformv1.VexSpec{Content: string(content)}
		var res platformv1.SetVexDocumentResponse
		raw, err := c.Do(cmd.Context(), call, &res)
		if err != nil {
			return fmt.Errorf("adding the VEX document %s: %w", name, err)
		}
		return format.Print(cmd.OutOrStdout(), raw, vexTable(res.GetDocument()))
	})
	return cmd
}

// readVEX returns the content of a file, or of standard input for "-".
func readVEX(cmd *cobra.Command, path string) ([]byte, error) {
	if path == "-" {
		return vex.Read(cmd.InOrStdin(), limits.VEXOwned)
	}
	return vex.ReadFile(path, limits.VEXOwned)
}

func vexShowCommand(s *session.Settings) *cobra.Command {
	var owner vexOwner
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Print an OpenVEX document", Args: usage.Exactly(1), ValidArgsFunction: owner.complete(s),
		Example: "  slipway vex show site\n  slipway vex show base --org lab",
	}
	owner.add(cmd, s)
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		call, err := owner.call(cmd.Context(), c, http.MethodGet, args[0])
		if err != nil {
			return err
		}
		var res platformv1.DescribeVexDocumentResponse
		if _, err := c.Do(cmd.Context(), call, &res); err != nil {
			return fmt.Errorf("reading the VEX document %s: %w", args[0], err)
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.TrimSuffix(res.GetContent(), "\n"))
		return err
	})
	return cmd
}

func vexDeleteCommand(s *session.Settings) *cobra.Command {
	var owner vexOwner
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "Delete an OpenVEX document", Args: usage.Exactly(1), ValidArgsFunction: owner.complete(s),
		Example: "  slipway vex delete site\n  slipway vex delete base --org lab",
	}
	owner.add(cmd, s)
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		call, err := owner.call(cmd.Context(), c, http.MethodDelete, args[0])
		if err != nil {
			return err
		}
		return c.Remove(cmd, call, args[0])
	})
	return cmd
}
