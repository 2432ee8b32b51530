package runs

import (
	"context"
	"database/sql"
	"fmt"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/orgs"
)

// UpdateWorkflow returns a run and changes nothing. Clients send an update and only check the
// response.
func (s *Service) UpdateWorkflow(ctx context.Context, req *platformv1.UpdateWorkflowRequest) (*platformv1.UpdateWorkflowResponse, error) {
	_, w, err := s.find(ctx, req.GetWorkflowId())
	if err != nil {
		return nil, err
	}
	return &platformv1.UpdateWorkflowResponse{Document: w.toProto(s.deps.Now())}, nil
}

// checkChange returns fault.Denied unless the caller reports the run or maintains its
// workspace.
func checkChange(p orgs.Principal, w workflow) error {
	if w.userID != p.User.ID && p.Role < orgs.RoleMaintain {
		return fault.Denied.Newf("Changing the run of another user needs the role %s in the workspace; yours is %s", orgs.RoleMaintain, p.Role)
	}
	return nil
}

// CancelWorkflow marks a run as cancelled. It changes nothing if the run has ended.
func (s *Service) CancelWorkflow(ctx context.Context, req *platformv1.CancelWorkflowRequest) (*platformv1.CancelWorkflowResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	err := s.store.changeWorkflow(ctx, p.Space, req.GetWorkflowId(), s.deps.Now(), func(_ *sql.Tx, w *workflow) error {
		if err := checkChange(p, *w); err != nil {
			return err
		}
		if !w.hasEnded() {
			w.status = statusCancelled
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cancelling run %s: %w", req.GetWorkflowId(), err)
	}
	return &platformv1.CancelWorkflowResponse{}, nil
}

// DeleteWorkflow deletes a run. It returns fault.Conflict if the run has not ended.
func (s *Service) DeleteWorkflow(ctx context.Context, req *platformv1.DeleteWorkflowRequest) (*platformv1.DeleteWorkflowResponse, error) {
	p, w, err := s.find(ctx, req.GetWorkflowId())
	if err != nil {
		return nil, err
	}
	return &platformv1.DeleteWorkflowResponse{}, s.deleteRun(ctx, p, w)
}

func (s *Service) deleteRun(ctx context.Context, p orgs.Principal, w workflow) error {
	if err := checkChange(p, w); err != nil {
		return err
	}
	done, err := s.store.deleteWorkflow(ctx, p.Space, w.id, s.deps.Now().Add(-heartbeatTimeout))
	if err != nil {
		return fmt.Errorf("deleting run %s: %w", w.id, err)
	}
	if !done {
		return fault.Conflict.Newf("The run has not ended; cancel it first")
	}
	return nil
}

// DeleteWorkflows deletes several runs and returns the ids of those that could not be deleted,
// because they do not exist, have not ended, or may not be changed by the caller.
func (s *Service) DeleteWorkflows(ctx context.Context, req *platformv1.DeleteWorkflowsRequest) (*platformv1.DeleteWorkflowsResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	ids := req.GetBody().GetWorkflowIds()
	if len(ids) > 1000 {
		return nil, fault.Invalid.Newf("workflowIds must name at most 1000 runs")
	}
	resp := &platformv1.DeleteWorkflowsResponse{}
	for _, id := range ids {
		w, err := s.store.workflow(ctx, p.Space, id)
		if err == nil {
			err = s.deleteRun(ctx, p, w)
		}
		if _, expected := fault.As(err); err != nil && !expected {
			return nil, fmt.Errorf("deleting run %s: %w", id, err)
		}
		if err != nil {
			resp.FailedWorkflowIds = append(resp.FailedWorkflowIds, id)
		}
	}
	return resp, nil
}
