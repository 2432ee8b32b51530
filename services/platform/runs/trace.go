package runs

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"strings"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/orgs"
)

// traceOK is the status of a successful report, which Nextflow's plugin nf-tower checks.
const traceOK = "OK"

// CreateTrace registers a run. A client that retries after a lost response gets the same run,
// since the id is derived from the user, workspace, session and run name.
func (s *Service) CreateTrace(ctx context.Context, req *platformv1.CreateTraceRequest) (*platformv1.CreateTraceResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	body, err := parseObject(req.GetBody())
	if err != nil {
		return nil, err
	}
	id, err := s.register(ctx, p, body)
	if err != nil {
		return nil, err
	}
	w := p.Space.Workspace
	full := ""
	if w.ID != 0 {
		full = "[" + w.OrgName + "/" + w.Name + "]"
	}
	return &platformv1.CreateTraceResponse{WorkflowId: id, WatchUrl: s.watchURL(p, id), Metadata: &platformv1.TraceMetadata{
		UserId: float64(p.User.ID), UserName: p.User.Name, UserOrganization: p.User.Organization,
		WorkspaceId: api.IDValue(w.ID), WorkspaceName: api.StringValue(w.Name), WorkspaceFullName: api.StringValue(full), OrgName: api.StringValue(w.OrgName),
	}}, nil
}

// register stores a run and returns its id. If the run exists already, register returns that
// run's id.
func (s *Service) register(ctx context.Context, p orgs.Principal, body object) (string, error) {
	doc := object{}
	for _, name := range []string{"sessionId", "runName", "projectName", "repository"} {
		if v := body.column(name); v != "" {
			doc[name] = v
		}
	}
	now := s.deps.Now()
	w := workflow{userID: p.User.ID, space: p.Space, status: statusSubmitted, created: now}
	w.setDocument(doc)
	id := body.text("workflowId")
	if id != "" && (len(id) > 16 || !api.IsTextID(id)) {
		return "", fault.Invalid.Newf("workflowId must have 1 to 16 letters and digits")
	}
	if err := api.Runs.CheckRows(ctx, s.deps.DB, `platform_workflows WHERE workspace_id = $1 AND space_user = $2`, p.Space.ID(), p.Space.Personal); err != nil {
		return "", err
	}
	if id == "" {
		return s.registerDerived(ctx, w)
	}
	w.id = id
	_, isSame, err := s.insertOrFind(ctx, w)
	if err == nil && !isSame {
		err = fault.Conflict.Newf("The id %s belongs to another run", id)
	}
	return id, err
}

// registerDerived stores a run under the first derived id that is free, or that belongs to the
// same run and that run has not begun.
func (s *Service) registerDerived(ctx context.Context, w workflow) (string, error) {
	for n := range 1000 {
		w.id = derivedID(w, n)
		status, isSame, err := s.insertOrFind(ctx, w)
		if err != nil || isSame && status == statusSubmitted {
			return w.id, err
		}
	}
	return "", fault.Conflict.Newf("Too many runs in the session have this name; use another run name")
}

// insertOrFind stores a run unless its id is taken, and returns the status of the run with that
// id. isSame reports whether that run has the same user, session and name as w.
func (s *Service) insertOrFind(ctx context.Context, w workflow) (status string, isSame bool, err error) {
	created, err := s.store.insertWorkflow(ctx, w)
	if err != nil {
		return "", false, fmt.Errorf("writing the run %s: %w", w.id, err)
	}
	if created {
		return w.status, true, nil
	}
	existing, err := s.store.workflow(ctx, w.space, w.id)
	if err != nil {
		return "", false, fmt.Errorf("reading the run %s: %w", w.id, err)
	}
	return existing.status, existing.userID == w.userID && existing.sessionID == w.sessionID && existing.runName == w.runName, nil
}

// derivedID returns the id of the n-th run with a name in a session of a user.
func derivedID(w workflow, n int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%d\x00%d\x00%s\x00%s\x00%d", w.userID, w.space.ID(), w.sessionID, w.runName, n))
	return api.TextID(h[:14])
}

// watchURL returns the address of the web page of a run (gateway/web.go).
func (s *Service) watchURL(p orgs.Principal, id string) string {
	if w := p.Space.Workspace; w.ID != 0 {
		return s.deps.Pages + "/orgs/" + w.OrgName + "/workspaces/" + w.Name + "/watch/" + id
	}
	return s.deps.Pages + "/user/" + p.User.Name + "/watch/" + id
}

// updateRun calls f, which may change a run, and updates the run's heartbeat. It returns
// fault.Denied unless the caller reports the run.
func (s *Service) updateRun(ctx context.Context, p orgs.Principal, id string, f func(*sql.Tx, *workflow) error) error {
	now := s.deps.Now()
	err := s.store.changeWorkflow(ctx, p.Space, id, now, func(t *sql.Tx, w *workflow) error {
		if w.userID != p.User.ID {
			return fault.Denied.Newf("No such run, or the run is not yours")
		}
		w.heartbeat = now
		return f(t, w)
	})
	if err != nil {
		return fmt.Errorf("changing run %s: %w", id, err)
	}
	return nil
}

// parseReport decodes a report. run is its member workflow, with truncated strings.
func parseReport(raw []byte) (body, run object, err error) {
	if body, err = parseObject(raw); err != nil {
		return nil, nil, err
	}
	run = body.object("workflow")
	truncateStrings(map[string]any(run), maxRunString)
	return body, run, nil
}

// BeginTrace records the start of a run. If the run has ended, the report only adds missing
// members.
func (s *Service) BeginTrace(ctx context.Context, req *platformv1.BeginTraceRequest) (*platformv1.BeginTraceResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	body, run, err := parseReport(req.GetBody())
	if err != nil {
		return nil, err
	}
	err = s.updateRun(ctx, p, req.GetWorkflowId(), func(t *sql.Tx, w *workflow) error {
		doc, err := w.reported()
		if err != nil {
			return err
		}
		doc.merge(run, w.hasEnded())
		w.setDocument(doc)
		if w.status == statusSubmitted {
			w.status = statusRunning
		}
		if launch := body.object("launch"); launch != nil {
			launch.truncate(limits.RunDocument)
			w.launch = launch.String()
		}
		return s.addProcesses(ctx, t, w.id, body.list("processNames"))
	})
	if err != nil {
		return nil, err
	}
	return &platformv1.BeginTraceResponse{Status: traceOK, WorkflowId: req.GetWorkflowId(), WatchUrl: s.watchURL(p, req.GetWorkflowId())}, nil
}

// addProcesses adds the processes that are known at the start of a run to the counts.
func (s *Service) addProcesses(ctx context.Context, t *sql.Tx, id string, names []any) error {
	c, err := readCountsOf(ctx, t, id)
	if err != nil {
		return err
	}
	for _, v := range names {
		if name, isText := v.(string); isText {
			c.process(truncate(strings.ReplaceAll(name, "\x00", ""), maxColumnString))
		}
	}
	return putCounts(ctx, t, id, c.String())
}

// CompleteTrace records the end of a run. Repeated reports change nothing.
func (s *Service) CompleteTrace(ctx context.Context, req *platformv1.CompleteTraceRequest) (*platformv1.CompleteTraceResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	body, run, err := parseReport(req.GetBody())
	if err != nil {
		return nil, err
	}
	now := s.deps.Now()
	err = s.updateRun(ctx, p, req.GetWorkflowId(), func(_ *sql.Tx, w *workflow) error {
		if !w.completed.IsZero() {
			return nil
		}
		doc, err := w.reported()
		if err != nil {
			return err
		}
		doc.merge(run, false)
		w.setDocument(doc)
		w.completed = now
		if w.status != statusCancelled {
			w.status = statusFailed
			if success, _ := run["success"].(bool); success {
				w.status = statusSucceeded
			}
		}
		if metrics := body.list("metrics"); metrics != nil {
			doc := object{"metrics": truncateStrings(metrics, maxRunString)}
			doc.truncate(limits.RunDocument)
			w.metrics = doc.String()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &platformv1.CompleteTraceResponse{Status: traceOK, WorkflowId: req.GetWorkflowId()}, nil
}

// RecordHeartbeat records that a run is still running.
func (s *Service) RecordHeartbeat(ctx context.Context, req *platformv1.RecordHeartbeatRequest) (*platformv1.RecordHeartbeatResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	if _, err := parseObject(req.GetBody()); err != nil {
		return nil, err
	}
	if err := s.store.recordHeartbeat(ctx, p.Space, req.GetWorkflowId(), p.User.ID, s.deps.Now()); err != nil {
		return nil, fmt.Errorf("recording the heartbeat of run %s: %w", req.GetWorkflowId(), err)
	}
	return &platformv1.RecordHeartbeatResponse{Message: traceOK}, nil
}
