package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/api"
)

// ListTasks returns a page of a run's tasks.
func (s *Service) ListTasks(ctx context.Context, req *platformv1.ListTasksRequest) (*platformv1.ListTasksResponse, error) {
	_, w, err := s.find(ctx, req.GetWorkflowId())
	if err != nil {
		return nil, err
	}
	column, known := taskOrders()[req.GetSortBy()]
	direction := strings.ToLower(req.GetSortDir())
	if !known || direction != "" && direction != "asc" && direction != "desc" {
		return nil, fault.Invalid.Newf("sortBy must be taskId, name, process, status, submit, start, complete or outcome, and sortDir asc or desc")
	}
	statuses, err := parseStatuses(req.GetStatus())
	if err != nil {
		return nil, err
	}
	if err := api.CheckLength("process", req.GetProcess(), maxColumnString); err != nil {
		return nil, err
	}
	p, err := api.ReadPage(req)
	if err != nil {
		return nil, err
	}
	list, total, err := s.store.tasks(ctx, w.id, taskFilter{statuses, req.GetProcess()}, " ORDER BY "+column+" "+direction+", task_id", p)
	if err != nil {
		return nil, fmt.Errorf("reading the tasks of run %s: %w", w.id, err)
	}
	resp := &platformv1.ListTasksResponse{Total: int32(total)}
	for _, t := range list {
		resp.Tasks = append(resp.Tasks, &platformv1.TaskItem{Document: t.toProto()})
	}
	return resp, nil
}

// parseStatuses parses the statuses of tasks, separated by commas. Each is returned once; there are none in "".
func parseStatuses(text string) ([]string, error) {
	var statuses []string
	if text == "" {
		return nil, nil
	}
	for status := range strings.SplitSeq(text, ",") {
		if rank(status) < 0 {
			return nil, fault.Invalid.Newf("status must be NEW, SUBMITTED, RUNNING, COMPLETED, FAILED, ABORTED or CACHED, or several of them separated by commas")
		}
		if !slices.Contains(statuses, status) {
			statuses = append(statuses, status)
		}
	}
	return statuses, nil
}

// DescribeTask returns a task of a run.
func (s *Service) DescribeTask(ctx context.Context, req *platformv1.DescribeTaskRequest) (*platformv1.DescribeTaskResponse, error) {
	_, w, err := s.find(ctx, req.GetWorkflowId())
	if err != nil {
		return nil, err
	}
	t, err := s.store.task(ctx, w.id, req.GetTaskId())
	if err != nil {
		return nil, fmt.Errorf("reading task %d of run %s: %w", req.GetTaskId(), w.id, err)
	}
	return &platformv1.DescribeTaskResponse{Document: t.toProto()}, nil
}
