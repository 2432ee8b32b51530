package runs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

func runsShowCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a run and the progress of its processes",
		Long: `Show a run and the progress of its processes.

With --watch it is updated until the run has ended, and the exit code reports
whether it succeeded.`,
		Example: "  slipway runs show 4Bi5xBK6E2Nbhj --watch",
		Args:    usage.Exactly(1),
	}
	workspace := session.WorkspaceFlag(cmd, s, "that it reports to")
	cmd.ValidArgsFunction = completeRuns(s, workspace)
	w := output.WatchFlags(cmd, s.IsLive, "Repeat until the run has ended.", &platformv1.DescribeWorkflowResponse{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, err := runPath(args[0])
		if err != nil {
			return err
		}
		c, query, err := s.Within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		return w.Show(cmd, func(ctx context.Context) (output.Sighting, error) {
			raw, r, err := readReported(ctx, c, session.Call{Method: http.MethodGet, Path: path, Query: query, Signed: true})
			if err != nil {
				return output.Sighting{}, fmt.Errorf("reading run %s: %w", args[0], err)
			}
			return output.Sighting{Raw: raw, Table: runTable(r.Workflow, r.Progress.Progress), End: endOf(r.Workflow)}, nil
		})
	}
	return cmd
}

// endOf returns how a run ended; nil while it continues.
func endOf(run document) *output.Ending {
	switch status := run.text("status"); status {
	case "SUBMITTED", "RUNNING":
		return nil
	case "SUCCEEDED":
		return &output.Ending{}
	case "UNKNOWN":
		return &output.Ending{Err: errors.New("the run has not reported for a while; its state is unknown")}
	default:
		text := "the run is " + status
		if why := run.text("errorMessage"); why != "" {
			text += ": " + output.Clip(why)
		}
		return &output.Ending{Err: errors.New(output.Printable(text))}
	}
}

func runTable(run document, p *platformv1.Progress) output.Table {
	var t output.Table
	for _, f := range [][2]string{
		{"Run", "runName"}, {"Id", "id"}, {"Status", "status"}, {"Project", "projectName"}, {"Revision", "revision"}, {"User", "userName"},
		{"Submitted", "submit"}, {"Started", "start"}, {"Ended", "complete"},
	} {
		t.Fact(f[0], run.text(f[1]))
	}
	t.Fact("Duration", run.duration())
	t.Fact("Command", run.text("commandLine"))
	t.Fact("Work dir", run.text("workDir"))
	t.Fact("Session", run.text("sessionId"))
	t.Fact("Error", run.text("errorMessage"))
	l := p.GetWorkflowProgress()
	t.Fact("Tasks", tasksText(l))
	t.Fact("CPU", fmt.Sprintf("%s used of what was requested", percent(l.GetCpuEfficiency())))
	t.Fact("Memory", fmt.Sprintf("%s used of what was requested", percent(l.GetMemoryEfficiency())))
	if len(p.GetProcessesProgress()) == 0 {
		return t
	}
	t = append(t, nil, []string{"PROCESS", "PENDING", "SUBMITTED", "RUNNING", "CACHED", "SUCCEEDED", "FAILED"})
	for _, l := range p.GetProcessesProgress() {
		t = append(t, []string{
			l.GetProcess(), output.Tallied(l.GetPending()), output.Tallied(l.GetSubmitted()), output.Tallied(l.GetRunning()), output.Tallied(l.GetCached()),
			output.Tallied(l.GetSucceeded()), output.Tallied(l.GetFailed() + l.GetAborted() + l.GetIgnored()),
		})
	}
	return t
}

func percent(n float64) string { return fmt.Sprintf("%.0f%%", n) }

// taskStates returns the states of tasks.
func taskStates() []string {
	return []string{"NEW", "SUBMITTED", "RUNNING", "COMPLETED", "FAILED", "ABORTED", "CACHED"}
}

func runsTasksCommand(s *session.Settings) *cobra.Command {
	var f pageFlags
	var sortBy, process string
	var states []string
	var reverse bool
	orders := []string{"taskId", "name", "process", "status", "submit", "start", "complete", "outcome"}
	cmd := &cobra.Command{
		Use:   "tasks ID",
		Short: "Show the tasks of a run",
		Example: `  slipway runs tasks 4Bi5xBK6E2Nbhj --status FAILED,ABORTED
  slipway runs tasks 4Bi5xBK6E2Nbhj --process NFCORE_RNASEQ:FASTQC --sort outcome
  slipway runs tasks 4Bi5xBK6E2Nbhj --sort complete --reverse --max 20`,
		Args: usage.Exactly(1),
	}
	f.add(cmd, "A part of a task's name, process, hash or status.", "1 to 1000 (default: the server's, 100)")
	usage.CompleteFlag(cmd, "search")
	cmd.Flags().StringSliceVar(&states, "status", nil, "Only tasks in these `STATES`, with commas: "+strings.Join(taskStates(), ", ")+".")
	usage.CompleteFlag(cmd, "status", taskStates()...)
	cmd.Flags().StringVar(&process, "process", "", "Only the tasks of the process with this full `NAME`.")
	usage.CompleteFlag(cmd, "process")
	cmd.Flags().StringVar(&sortBy, "sort", "taskId", "The order: taskId, name, process, status, submit, start, complete, or outcome (failed tasks first).")
	cmd.Flags().BoolVar(&reverse, "reverse", false, "Reverse the order.")
	usage.CompleteFlag(cmd, "sort", orders...)
	workspace := session.WorkspaceFlag(cmd, s, "that it reports to")
	cmd.ValidArgsFunction = completeRuns(s, workspace)
	format := output.Flag(cmd, &platformv1.ListTasksResponse{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, err := runPath(args[0])
		if err != nil {
			return err
		}
		if !slices.Contains(orders, sortBy) {
			return usage.Errorf("--sort must be one of %q", orders)
		}
		for i, state := range states {
			if states[i] = strings.ToUpper(state); !slices.Contains(taskStates(), states[i]) {
				return usage.Errorf("--status: %q is not one of %s", state, strings.Join(taskStates(), ", "))
			}
		}
		c, query, err := s.Within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		f.fill(query)
		query.Set("sortBy", sortBy)
		if len(states) > 0 {
			query.Set("status", strings.Join(states, ","))
		}
		if process != "" {
			query.Set("process", process)
		}
		if reverse {
			query.Set("sortDir", "desc")
		}
		raw, r, err := readReported(cmd.Context(), c, session.Call{Method: http.MethodGet, Path: path + "/tasks", Query: query, Signed: true})
		if err != nil {
			return fmt.Errorf("listing the tasks of run %s: %w", args[0], err)
		}
		t := output.Table{{"TASK", "HASH", "PROCESS", "NAME", "STATUS", "EXIT", "SUBMITTED", "ENDED"}}
		for _, item := range r.Tasks {
			task := item.Task
			t = append(t, []string{
				task.text("taskId"), task.text("hash"), task.text("process"), task.text("name"), task.text("status"), task.text("exit"),
				task.text("submit"), task.text("complete"),
			})
		}
		return format.Print(cmd.OutOrStdout(), raw, t)
	}
	return cmd
}
