package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/paging"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/orgs"
)

// ListWorkflows returns a page of a workspace's runs, newest first.
func (s *Service) ListWorkflows(ctx context.Context, req *platformv1.ListWorkflowsRequest) (*platformv1.ListWorkflowsResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	limit, offset, err := paging.Read(req, 25, 100)
	if err != nil {
		return nil, err
	}
	now := s.deps.Now()
	where, err := searchWorkflows(p.Space, req.GetSearch(), now)
	if err != nil {
		return nil, err
	}
	count := req.IncludeTotalSize == nil || req.GetIncludeTotalSize()
	// The additional run shows whether there are more.
	list, total, err := s.store.workflows(ctx, where, sqldb.Page{Limit: limit + 1, Offset: offset}, count)
	if err != nil {
		return nil, fmt.Errorf("reading the runs of workspace %d: %w", p.Space.ID(), err)
	}
	resp := &platformv1.ListWorkflowsResponse{HasMore: len(list) > limit}
	if count {
		n := int32(total)
		resp.TotalSize = &n
	}
	list = list[:min(limit, len(list))]
	for _, w := range list {
		resp.Workflows = append(resp.Workflows, &platformv1.WorkflowItem{
			Document: w.toProto(now), OrgId: api.IDValue(p.Space.Workspace.OrgID), OrgName: api.StringValue(p.Space.Workspace.OrgName),
			WorkspaceId: api.IDValue(p.Space.ID()), WorkspaceName: api.StringValue(p.Space.Workspace.Name),
		})
	}
	if !strings.Contains(req.GetAttributes(), "progress") {
		return resp, nil
	}
	progress, err := s.progress(ctx, list...)
	if err != nil {
		return nil, err
	}
	for i, item := range resp.GetWorkflows() {
		item.Progress = progress[i]
	}
	return resp, nil
}

// progress returns the progress of each run, in the order of runs.
func (s *Service) progress(ctx context.Context, runs ...workflow) ([]*platformv1.Progress, error) {
	ids := make([]any, len(runs))
	for i, w := range runs {
		ids[i] = w.id
	}
	stored, err := s.store.counts(ctx, ids...)
	if err != nil {
		return nil, fmt.Errorf("reading the counts of %d runs: %w", len(ids), err)
	}
	out := make([]*platformv1.Progress, len(runs))
	for i, w := range runs {
		c, err := readCounts(stored[w.id])
		if err != nil {
			return nil, fmt.Errorf("reading the counts of run %s: %w", w.id, err)
		}
		out[i] = c.toProto()
	}
	return out, nil
}

// find returns the caller and a run of the caller's workspace, or fault.NotFound.
func (s *Service) find(ctx context.Context, id string) (orgs.Principal, workflow, error) {
	p := orgs.PrincipalFrom(ctx)
	w, err := s.store.workflow(ctx, p.Space, id)
	if err != nil {
		return p, w, fmt.Errorf("reading the run %s: %w", id, err)
	}
	return p, w, nil
}

// DescribeWorkflow returns a run.
func (s *Service) DescribeWorkflow(ctx context.Context, req *platformv1.DescribeWorkflowRequest) (*platformv1.DescribeWorkflowResponse, error) {
	p, w, err := s.find(ctx, req.GetWorkflowId())
	if err != nil {
		return nil, err
	}
	progress, err := s.progress(ctx, w)
	if err != nil {
		return nil, err
	}
	return &platformv1.DescribeWorkflowResponse{
		Document: w.toProto(s.deps.Now()), Progress: progress[0], Platform: &platformv1.WorkflowPlatform{Id: "nextflow", Name: "Nextflow"},
		OrgId: api.IDValue(p.Space.Workspace.OrgID), OrgName: api.StringValue(p.Space.Workspace.OrgName),
		WorkspaceId: api.IDValue(p.Space.ID()), WorkspaceName: api.StringValue(p.Space.Workspace.Name),
	}, nil
}

// GetWorkflowProgress returns the counts of a run.
func (s *Service) GetWorkflowProgress(ctx context.Context, req *platformv1.GetWorkflowProgressRequest) (*platformv1.GetWorkflowProgressResponse, error) {
	_, w, err := s.find(ctx, req.GetWorkflowId())
	if err != nil {
		return nil, err
	}
	progress, err := s.progress(ctx, w)
	if err != nil {
		return nil, err
	}
	return &platformv1.GetWorkflowProgressResponse{Progress: progress[0]}, nil
}

// GetWorkflowMetrics returns the metrics that were reported at the end of a run.
func (s *Service) GetWorkflowMetrics(ctx context.Context, req *platformv1.GetWorkflowMetricsRequest) (*platformv1.GetWorkflowMetricsResponse, error) {
	_, w, err := s.find(ctx, req.GetWorkflowId())
	if err != nil {
		return nil, err
	}
	doc, err := readObject(w.metrics)
	if err != nil {
		return nil, err
	}
	resp := &platformv1.GetWorkflowMetricsResponse{}
	for _, v := range doc.list("metrics") {
		if metric, is := v.(map[string]any); is {
			resp.Documents = append(resp.Documents, object(metric).toProto())
		}
	}
	return resp, nil
}

// GetWorkflowLaunch returns the launch configuration of a run; an empty response if the run
// reported none.
func (s *Service) GetWorkflowLaunch(ctx context.Context, req *platformv1.GetWorkflowLaunchRequest) (*platformv1.GetWorkflowLaunchResponse, error) {
	_, w, err := s.find(ctx, req.GetWorkflowId())
	if err != nil || w.launch == "" {
		return &platformv1.GetWorkflowLaunchResponse{}, err
	}
	return &platformv1.GetWorkflowLaunchResponse{Document: &platformv1.Document{Json: []byte(w.launch)}}, nil
}

// ValidateWorkflowName returns fault.Conflict if a run name is taken in a session.
func (s *Service) ValidateWorkflowName(ctx context.Context, req *platformv1.ValidateWorkflowNameRequest) (*platformv1.ValidateWorkflowNameResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	if err := errors.Join(api.CheckLength("runName", req.GetRunName(), maxColumnString), api.CheckLength("sessionId", req.GetSessionId(), maxColumnString)); err != nil {
		return nil, err
	}
	has, err := s.store.hasRunNamed(ctx, p.Space, req.GetSessionId(), req.GetRunName())
	if err != nil {
		return nil, fmt.Errorf("looking for the run %s: %w", req.GetRunName(), err)
	}
	if has {
		return nil, api.NameTaken("a run", req.GetRunName())
	}
	return &platformv1.ValidateWorkflowNameResponse{}, nil
}
