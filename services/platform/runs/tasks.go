package runs

import (
	"context"
	"fmt"
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
		return nil, fault.Invalid.Newf("sortBy must be taskId, name, process, status, submit, start or complete, and sortDir asc or desc")
	}
	p, err := api.ReadPage(req)
	if err != nil {
		return nil, err
	}
	list, total, err := s.store.tasks(ctx, w.id, " ORDER BY "+column+" "+direction+", task_id", p)
	if err != nil {
		return nil, fmt.Errorf("reading the tasks of run %s: %w", w.id, err)
	}
	resp := &platformv1.ListTasksResponse{Total: int32(total)}
	for _, t := range list {
		resp.Tasks = append(resp.Tasks, &platformv1.TaskItem{Document: t.toProto()})
	}
	return resp, nil
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
