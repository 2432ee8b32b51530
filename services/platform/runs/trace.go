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

// ok is what a run is told; nf-tower looks for it.
const ok = "OK"

// CreateTrace announces a run. A client that did not hear the answer asks again
// and gets the same run: the id follows from who runs what.
func (s *Service) CreateTrace(ctx context.Context, req *platformv1.CreateTraceRequest) (*platformv1.CreateTraceResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	body, err := parseObject(req.GetBody())
	if err != nil {
		return nil, err
	}
	id, err := s.announce(ctx, p, body)
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
		WorkspaceId: api.Number(w.ID), WorkspaceName: api.Text(w.Name), WorkspaceFullName: api.Text(full), OrgName: api.Text(w.OrgName),
	}}, nil
}

// announce writes the run, or finds it when it is there already.
func (s *Service) announce(ctx context.Context, p orgs.Principal, body object) (string, error) {
	doc := object{}
	for _, name := range []string{"sessionId", "runName", "projectName", "repository"} {
		if v := body.column(name); v != "" {
			doc[name] = v
		}
	}
	now := s.deps.Now()
	w := workflow{userID: p.User.ID, space: p.Space, status: statusSubmitted, created: now}
	w.describe(doc)
	given := body.text("workflowId")
	if given != "" && (len(given) > 16 || !api.IsTextID(given)) {
		return "", fault.Invalid.Newf("workflowId must have 1 to 16 letters and digits")
	}
	if err := api.CheckRows(ctx, s.deps.DB, "runs of a workspace", limits.RunsPerWorkspace, `platform_workflows WHERE workspace_id = $1 AND space_user = $2`, p.Space.ID(), p.Space.Personal); err != nil {
		return "", err
	}
	if given == "" {
		return s.announceDerived(ctx, w)
	}
	w.id = given
	_, isIt, err := s.insertOrFind(ctx, w)
	if err == nil && !isIt {
		err = fault.Conflict.Newf("The id %s belongs to another run", given)
	}
	return given, err
}

// announceDerived does it under the first id that is free, or this run's already.
func (s *Service) announceDerived(ctx context.Context, w workflow) (string, error) {
	for n := range 1000 {
		w.id = derivedID(w, n)
		status, isIt, err := s.insertOrFind(ctx, w)
		if err != nil || isIt && status == statusSubmitted {
			return w.id, err
		}
	}
	return "", fault.Conflict.Newf("There are too many runs of that name in the session")
}

// insertOrFind writes a run unless its id is taken. status is that of the run which
// has the id now; isIt says whether that is the same user's, of the same session and name.
func (s *Service) insertOrFind(ctx context.Context, w workflow) (status string, isIt bool, err error) {
	made, err := s.store.insertWorkflow(ctx, w)
	if err != nil {
		return "", false, fmt.Errorf("writing the run %s: %w", w.id, err)
	}
	if made {
		return w.status, true, nil
	}
	have, err := s.store.workflow(ctx, w.space, w.id)
	if err != nil {
		return "", false, fmt.Errorf("reading the run %s: %w", w.id, err)
	}
	return have.status, have.userID == w.userID && have.sessionID == w.sessionID && have.runName == w.runName, nil
}

// derivedID is the id of the n-th run of a name in a session of a user.
func derivedID(w workflow, n int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%d\x00%d\x00%s\x00%s\x00%d", w.userID, w.space.ID(), w.sessionID, w.runName, n))
	return api.TextID(h[:14])
}

// watchURL is where a person can watch a run: a view of the page (gateway/web.go).
func (s *Service) watchURL(p orgs.Principal, id string) string {
	if w := p.Space.Workspace; w.ID != 0 {
		return s.deps.Pages + "/orgs/" + w.OrgName + "/workspaces/" + w.Name + "/watch/" + id
	}
	return s.deps.Pages + "/user/" + p.User.Name + "/watch/" + id
}

// report lets a run that the caller reports change.
func (s *Service) report(ctx context.Context, p orgs.Principal, id string, f func(*sql.Tx, *workflow) error) error {
	now := s.deps.Now()
	err := s.store.changeWorkflow(ctx, p.Space, id, now, func(t *sql.Tx, w *workflow) error {
		if w.userID != p.User.ID {
			return fault.Denied.Newf("No such run, or it is not yours")
		}
		w.heartbeat = now
		return f(t, w)
	})
	if err != nil {
		return fmt.Errorf("changing run %s: %w", id, err)
	}
	return nil
}

// parseReport reads what a run says; said is its workflow, cut to what is kept.
func parseReport(raw []byte) (body, said object, err error) {
	if body, err = parseObject(raw); err != nil {
		return nil, nil, err
	}
	said = body.object("workflow")
	shorten(map[string]any(said), longText)
	return body, said, nil
}

// BeginTrace starts a run. One that has ended stays as it is.
func (s *Service) BeginTrace(ctx context.Context, req *platformv1.BeginTraceRequest) (*platformv1.BeginTraceResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	body, said, err := parseReport(req.GetBody())
	if err != nil {
		return nil, err
	}
	err = s.report(ctx, p, req.GetWorkflowId(), func(t *sql.Tx, w *workflow) error {
		doc, err := w.said()
		if err != nil {
			return err
		}
		doc.merge(said, w.hasEnded())
		w.describe(doc)
		if w.status == statusSubmitted {
			w.status = statusRunning
		}
		if launch := body.object("launch"); launch != nil {
			launch.fit(limits.RunDocument)
			w.launch = launch.String()
		}
		return s.begin(ctx, t, w.id, body.list("processNames"))
	})
	if err != nil {
		return nil, err
	}
	return &platformv1.BeginTraceResponse{Status: ok, WorkflowId: req.GetWorkflowId(), WatchUrl: s.watchURL(p, req.GetWorkflowId())}, nil
}

// begin makes counts of the processes that are known so far.
func (s *Service) begin(ctx context.Context, t *sql.Tx, id string, names []any) error {
	c, err := readCountsOf(ctx, t, id)
	if err != nil {
		return err
	}
	for _, v := range names {
		if name, isText := v.(string); isText {
			c.process(cut(strings.ReplaceAll(name, "\x00", ""), indexText))
		}
	}
	return putCounts(ctx, t, id, c.String())
}

// CompleteTrace ends a run, once.
func (s *Service) CompleteTrace(ctx context.Context, req *platformv1.CompleteTraceRequest) (*platformv1.CompleteTraceResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	body, said, err := parseReport(req.GetBody())
	if err != nil {
		return nil, err
	}
	now := s.deps.Now()
	err = s.report(ctx, p, req.GetWorkflowId(), func(_ *sql.Tx, w *workflow) error {
		if !w.completed.IsZero() {
			return nil
		}
		doc, err := w.said()
		if err != nil {
			return err
		}
		doc.merge(said, false)
		w.describe(doc)
		w.completed = now
		if w.status != statusCancelled {
			w.status = statusFailed
			if success, _ := said["success"].(bool); success {
				w.status = statusSucceeded
			}
		}
		if metrics := body.list("metrics"); metrics != nil {
			kept := object{"metrics": shorten(metrics, longText)}
			kept.fit(limits.RunDocument)
			w.metrics = kept.String()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &platformv1.CompleteTraceResponse{Status: ok, WorkflowId: req.GetWorkflowId()}, nil
}

// RecordHeartbeat says that a run goes on.
func (s *Service) RecordHeartbeat(ctx context.Context, req *platformv1.RecordHeartbeatRequest) (*platformv1.RecordHeartbeatResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	if _, err := parseObject(req.GetBody()); err != nil {
		return nil, err
	}
	if err := s.store.beat(ctx, p.Space, req.GetWorkflowId(), p.User.ID, s.deps.Now()); err != nil {
		return nil, fmt.Errorf("noting that run %s goes on: %w", req.GetWorkflowId(), err)
	}
	return &platformv1.RecordHeartbeatResponse{Message: ok}, nil
}
