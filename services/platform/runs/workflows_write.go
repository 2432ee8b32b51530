package runs

import (
	"context"
	"database/sql"
	"fmt"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/orgs"
)

// UpdateWorkflow takes a change and leaves the run as it is: clients send one and
// look at the answer.
func (s *Service) UpdateWorkflow(ctx context.Context, req *platformv1.UpdateWorkflowRequest) (*platformv1.UpdateWorkflowResponse, error) {
	_, w, err := s.find(ctx, req.GetWorkflowId())
	if err != nil {
		return nil, err
	}
	return &platformv1.UpdateWorkflowResponse{Document: w.shown(s.deps.Now())}, nil
}

// mayChange lets the one who reports a run change it, and who maintains the
// workspace.
func mayChange(p orgs.Principal, w workflow) error {
	if w.userID != p.User.ID && p.Role < orgs.RoleMaintain {
		return fault.Denied.Newf("Another's run needs the role %s in the workspace; yours is %s", orgs.RoleMaintain, p.Role)
	}
	return nil
}

// CancelWorkflow marks a run as cancelled. Repeated, or after its end, it changes
// nothing.
func (s *Service) CancelWorkflow(ctx context.Context, req *platformv1.CancelWorkflowRequest) (*platformv1.CancelWorkflowResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	err := s.store.changeWorkflow(ctx, p.Space, req.GetWorkflowId(), s.deps.Now(), func(_ *sql.Tx, w *workflow) error {
		if err := mayChange(p, *w); err != nil {
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

// DeleteWorkflow removes a run that has ended.
func (s *Service) DeleteWorkflow(ctx context.Context, req *platformv1.DeleteWorkflowRequest) (*platformv1.DeleteWorkflowResponse, error) {
	p, w, err := s.find(ctx, req.GetWorkflowId())
	if err != nil {
		return nil, err
	}
	return &platformv1.DeleteWorkflowResponse{}, s.deleteRun(ctx, p, w)
}

func (s *Service) deleteRun(ctx context.Context, p orgs.Principal, w workflow) error {
	if err := mayChange(p, w); err != nil {
		return err
	}
	done, err := s.store.deleteWorkflow(ctx, p.Space, w.id, s.deps.Now().Add(-silence))
	if err != nil {
		return fmt.Errorf("deleting run %s: %w", w.id, err)
	}
	if !done {
		return fault.Conflict.Newf("The run has not ended; cancel it first")
	}
	return nil
}

// DeleteWorkflows removes runs that have ended, and lists those that are still
// there.
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
