// Package runs implements the commands for runs of pipelines, as Nextflow reports them.
package runs

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Command returns `slipway runs`.
func Command(s *session.Settings) *cobra.Command {
	cmd := usage.Group("runs", "Show and manage pipeline runs")
	cmd.Long = `Show and manage pipeline runs, as Nextflow reports them.

The default is the runs of your personal workspace.`
	cmd.AddCommand(runsListCommand(s), runsShowCommand(s), runsTasksCommand(s), runsCancelCommand(s), runsDeleteCommand(s))
	return cmd
}

// pageFlags select a part of a list.
type pageFlags struct {
	search       string
	most, offset int
}

func (f *pageFlags) add(cmd *cobra.Command, search, most string) {
	cmd.Flags().StringVar(&f.search, "search", "", search)
	cmd.Flags().IntVar(&f.most, "max", 0, "How many to show, "+most+".")
	cmd.Flags().IntVar(&f.offset, "offset", 0, "How many of the first to skip.")
	usage.CompleteFlag(cmd, "max")
	usage.CompleteFlag(cmd, "offset")
}

func (f *pageFlags) fill(query url.Values) {
	if f.search != "" {
		query.Set("search", f.search)
	}
	if f.most != 0 {
		query.Set("max", strconv.Itoa(f.most))
	}
	if f.offset != 0 {
		query.Set("offset", strconv.Itoa(f.offset))
	}
}

func list(ctx context.Context, c *session.Client, query url.Values) ([]byte, reported, error) {
	raw, r, err := readReported(ctx, c, session.Call{Method: http.MethodGet, Path: "/api/workflow", Query: query, Signed: true})
	if err != nil {
		return nil, r, fmt.Errorf("listing the runs: %w", err)
	}
	return raw, r, nil
}

// completeRuns completes ids of the newest runs.
func completeRuns(s *session.Settings, workspace *string) cobra.CompletionFunc {
	return s.Completions(func(ctx context.Context, c *session.Client) ([]cobra.Completion, error) {
		query, err := c.InWorkspace(ctx, *workspace)
		if err != nil {
			return nil, err
		}
		_, r, err := list(ctx, c, query)
		var out []cobra.Completion
		for _, item := range r.Workflows {
			run := item.Workflow
			out = append(out, session.CompleteFlag(run.text("id"), run.text("runName")+", "+run.text("status")))
		}
		return out, err
	})
}

func runsListCommand(s *session.Settings) *cobra.Command {
	var f pageFlags
	var progress bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the runs, newest first",
		Long: `Show the runs, newest first.

--search looks for words in project, run name and session; * matches any
text. Keywords restrict the search: status:, runName:, workflowId:,
sessionId:, projectName:, userName:, after: and before:, with a date. All of it
has to hold.`,
		Example: `  slipway runs list --search 'rnaseq status:FAILED after:2026-01-31'
  slipway runs list --workspace lab/rnaseq --progress --watch`,
		Args:              usage.Exactly(0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f.add(cmd, "What to look for.", "1 to 100 (default: the server's, 25)")
	usage.CompleteFlagFrom(cmd, "search", cobra.FixedCompletions([]cobra.Completion{
		"status:SUBMITTED", "status:RUNNING", "status:SUCCEEDED", "status:FAILED", "status:CANCELLED", "status:UNKNOWN",
		"runName:", "workflowId:", "sessionId:", "projectName:", "userName:", "after:", "before:",
	}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	cmd.Flags().BoolVar(&progress, "progress", false, "Show how many tasks of each run have ended.")
	workspace := session.WorkspaceFlag(cmd, s, "to look in")
	w := output.WatchFlags(cmd, s.IsLive, "Repeat until interrupted.", &platformv1.ListWorkflowsResponse{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, query, err := s.Within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		f.fill(query)
		if progress {
			query.Set("attributes", "progress")
		}
		return w.Show(cmd, func(ctx context.Context) (output.Sighting, error) {
			raw, r, err := list(ctx, c, query)
			return output.Sighting{Raw: raw, Table: runsTable(r, progress)}, err
		})
	}
	return cmd
}

func runsTable(r reported, progress bool) output.Table {
	head := []string{"ID", "RUN", "PROJECT", "STATUS", "SUBMITTED", "DURATION", "USER"}
	if progress {
		head = append(head, "TASKS")
	}
	t := output.Table{head}
	for _, item := range r.Workflows {
		run := item.Workflow
		row := []string{run.text("id"), run.text("runName"), run.text("projectName"), run.text("status"), run.text("submit"), run.duration(), run.text("userName")}
		if progress {
			row = append(row, tasksText(item.Progress.GetWorkflowProgress()))
		}
		t = append(t, row)
	}
	return t
}

// tasksText returns the numbers of ended, all and failed tasks, for example "5/11, 1 failed".
func tasksText(l *platformv1.Load) string {
	bad := l.GetFailed() + l.GetAborted()
	ended := l.GetSucceeded() + l.GetCached() + l.GetIgnored() + bad
	text := output.Tallied(ended) + "/" + output.Tallied(ended+l.GetPending()+l.GetSubmitted()+l.GetRunning())
	if bad > 0 {
		text += ", " + output.Tallied(bad) + " failed"
	}
	return text
}

func runsCancelCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel ID...",
		Short: "Mark runs as cancelled",
		Long: `Mark runs as cancelled. One that has ended stays as it is.

This does not stop the run: stop it where Nextflow was started.`,
		Example: "  slipway runs cancel 4Bi5xBK6E2Nbhj",
		Args:    usage.AtLeast(1),
	}
	eachRun(cmd, s, "that they report to", func(c *session.Client, id string, run session.Call) error {
		run.Method, run.Path, run.Signed, run.Body = http.MethodPost, run.Path+"/cancel", true, &structpb.Struct{}
		if _, err := c.Do(cmd.Context(), run, nil); err != nil {
			return fmt.Errorf("cancelling run %s: %w", id, err)
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "Cancelled run %s.\n", id)
		return err
	})
	return cmd
}

func runsDeleteCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "delete ID...",
		Short:   "Delete runs that have ended, with their tasks",
		Example: "  slipway runs delete 4Bi5xBK6E2Nbhj",
		Args:    usage.AtLeast(1),
	}
	eachRun(cmd, s, "that they reported to", func(c *session.Client, id string, run session.Call) error {
		return c.Remove(cmd, run, "run "+id)
	})
	return cmd
}

// eachRun runs do for every run ID of a command; the call has the run's path and workspace.
// It does nothing if one of the IDs is invalid.
func eachRun(cmd *cobra.Command, s *session.Settings, workspaceHelp string, do func(c *session.Client, id string, run session.Call) error) {
	workspace := session.WorkspaceFlag(cmd, s, workspaceHelp)
	cmd.ValidArgsFunction = completeRuns(s, workspace)
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		paths := make([]string, len(ids))
		for i, id := range ids {
			var err error
			if paths[i], err = runPath(id); err != nil {
				return err
			}
		}
		c, query, err := s.Within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		for i, id := range ids {
			if err := do(c, id, session.Call{Path: paths[i], Query: query}); err != nil {
				return err
			}
		}
		return nil
	}
}

// runPath returns the path of a run.
func runPath(id string) (string, error) {
	if id == "" || len(id) > 16 || strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
		return "", usage.Errorf("%q is not a run id; `slipway runs list` shows them", id)
	}
	return "/api/workflow/" + id, nil
}
