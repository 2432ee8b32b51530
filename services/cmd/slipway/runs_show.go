package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

func runsShowCommand(s *settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a run, and how far each of its processes is",
		Long: `Show a run, and how far each of its processes is.

With --watch it is shown until the run has ended, and the exit code tells
whether it succeeded.`,
		Example: "  slipway runs show 4Bi5xBK6E2Nbhj --watch",
		Args:    exactly(1),
	}
	workspace := workspaceFlag(cmd, s, "that it reports to")
	cmd.ValidArgsFunction = s.offersRuns(workspace)
	w := watchFlags(cmd, s.isLive, "Show it again and again, until the run has ended.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, err := runPath(args[0])
		if err != nil {
			return err
		}
		c, query, err := s.within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		return w.show(cmd, func(ctx context.Context) (sighting, error) {
			raw, r, err := c.reported(ctx, call{method: http.MethodGet, path: path, query: query, signed: true})
			if err != nil {
				return sighting{}, fmt.Errorf("reading run %s: %w", args[0], err)
			}
			return sighting{raw: raw, table: runTable(r.Workflow, r.Progress.Progress), end: endOf(r.Workflow)}, nil
		})
	}
	return cmd
}

// endOf returns how a run ended; nil while it goes on.
func endOf(run document) *verdictOf {
	switch status := run.text("status"); status {
	case "SUBMITTED", "RUNNING":
		return nil
	case "SUCCEEDED":
		return &verdictOf{}
	case "UNKNOWN":
		return &verdictOf{errors.New("the run has not reported for a while; its state is unknown")}
	default:
		text := "the run is " + status
		if why := run.text("errorMessage"); why != "" {
			text += ": " + clip(why)
		}
		return &verdictOf{errors.New(printable(text))}
	}
}

func runTable(run document, p *platformv1.Progress) table {
	var t table
	for _, f := range [][2]string{
		{"Run", "runName"}, {"Id", "id"}, {"Status", "status"}, {"Project", "projectName"}, {"Revision", "revision"}, {"User", "userName"},
		{"Submitted", "submit"}, {"Started", "start"}, {"Ended", "complete"},
	} {
		t.fact(f[0], run.text(f[1]))
	}
	t.fact("Duration", run.duration())
	t.fact("Command", run.text("commandLine"))
	t.fact("Work dir", run.text("workDir"))
	t.fact("Session", run.text("sessionId"))
	t.fact("Error", run.text("errorMessage"))
	l := p.GetWorkflowProgress()
	t.fact("Tasks", tasksText(l))
	t.fact("CPU", fmt.Sprintf("%s used of what was asked for", percent(l.GetCpuEfficiency())))
	t.fact("Memory", fmt.Sprintf("%s used of what was asked for", percent(l.GetMemoryEfficiency())))
	if len(p.GetProcessesProgress()) == 0 {
		return t
	}
	t = append(t, nil, []string{"PROCESS", "PENDING", "SUBMITTED", "RUNNING", "CACHED", "SUCCEEDED", "FAILED"})
	for _, l := range p.GetProcessesProgress() {
		t = append(t, []string{
			l.GetProcess(), tallied(l.GetPending()), tallied(l.GetSubmitted()), tallied(l.GetRunning()), tallied(l.GetCached()),
			tallied(l.GetSucceeded()), tallied(l.GetFailed() + l.GetAborted() + l.GetIgnored()),
		})
	}
	return t
}

func percent(n float64) string { return fmt.Sprintf("%.0f%%", n) }

func runsTasksCommand(s *settings) *cobra.Command {
	var f pageFlags
	var sortBy string
	var reverse bool
	orders := []string{"taskId", "name", "process", "status", "submit", "start", "complete"}
	cmd := &cobra.Command{
		Use:   "tasks ID",
		Short: "Show the tasks of a run",
		Example: `  slipway runs tasks 4Bi5xBK6E2Nbhj --search FAILED
  slipway runs tasks 4Bi5xBK6E2Nbhj --sort complete --reverse --max 20`,
		Args: exactly(1),
	}
	f.add(cmd, "A part of a task's name, process, hash or status.", "1 to 1000 (default: the server's, 100)")
	registerFlag(cmd, "search", cobra.FixedCompletions([]cobra.Completion{"NEW", "SUBMITTED", "RUNNING", "COMPLETED", "FAILED", "ABORTED", "CACHED"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().StringVar(&sortBy, "sort", "taskId", "The order: taskId, name, process, status, submit, start or complete.")
	cmd.Flags().BoolVar(&reverse, "reverse", false, "The other way round.")
	complete(cmd, "sort", orders...)
	workspace := workspaceFlag(cmd, s, "that it reports to")
	cmd.ValidArgsFunction = s.offersRuns(workspace)
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, err := runPath(args[0])
		if err != nil {
			return err
		}
		if !slices.Contains(orders, sortBy) {
			return usagef("--sort must be one of %q", orders)
		}
		c, query, err := s.within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		f.fill(query)
		query.Set("sortBy", sortBy)
		if reverse {
			query.Set("sortDir", "desc")
		}
		raw, r, err := c.reported(cmd.Context(), call{method: http.MethodGet, path: path + "/tasks", query: query, signed: true})
		if err != nil {
			return fmt.Errorf("listing the tasks of run %s: %w", args[0], err)
		}
		t := table{{"TASK", "HASH", "PROCESS", "NAME", "STATUS", "EXIT", "SUBMITTED", "ENDED"}}
		for _, item := range r.Tasks {
			task := item.Task
			t = append(t, []string{
				task.text("taskId"), task.text("hash"), task.text("process"), task.text("name"), task.text("status"), task.text("exit"),
				task.text("submit"), task.text("complete"),
			})
		}
		return output.print(cmd.OutOrStdout(), raw, t)
	}
	return cmd
}
