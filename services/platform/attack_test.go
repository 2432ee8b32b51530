package platform_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/vault"
)

// TestGuessing checks that tokens that are almost right are refused, all with the same message.
func TestGuessing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	good := string(must(decode(w.tokens["view"]))(t))
	head, secret, _ := strings.Cut(good, ".")
	refusals := map[string]bool{}
	for name, guess := range map[string]string{
		"another's secret":    head + "." + strings.Split(string(must(decode(w.tokens["launch"]))(t)), ".")[1],
		"the last digit":      head + "." + secret[:39] + map[bool]string{true: "1", false: "0"}[secret[39] == '0'],
		"the id of no token":  `{"tid":1}.` + secret,
		"a long secret":       good + "00",
		"a short secret":      good[:len(good)-2],
		"two ids":             `{"tid":1,"tid":2}.` + secret,
		"an id that is text":  `{"tid":"1"}.` + secret,
		"an id that is SQL":   `{"tid":"1 OR 1=1"}.` + secret,
		"an id out of bounds": `{"tid":99999999999999999999}.` + secret,
		"a negative id":       `{"tid":-1}.` + secret,
	} {
		_, err := w.client.GetUserInfo(bearer(t.Context(), b64(guess)), &platformv1.GetUserInfoRequest{})
		wantError(t, name, err, fault.Unauthenticated)
		if f, ok := fault.As(err); ok {
			refusals[f.Public] = true
		}
	}
	if len(refusals) != 1 {
		t.Errorf("refusals differ: %v", refusals)
	}
}

// TestRevokedImmediately checks that no replica accepts a token after it was deleted on one replica,
// even if every replica has used it before.
func TestRevokedImmediately(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		_, second := serveWith(t, deps(t, db))
		replicas := []platformClient{w.client, second}
		for round := range 5 {
			made := must(w.client.CreateToken(w.as("view"), &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{Name: "in use"}}))(t)
			var revoked atomic.Bool
			var wg sync.WaitGroup
			for n := range 6 {
				wg.Go(func() {
					for {
						was := revoked.Load()
						_, err := replicas[n%2].GetUserInfo(bearer(t.Context(), made.GetAccessKey()), &platformv1.GetUserInfoRequest{})
						if was {
							wantError(t, "after it was revoked", err, fault.Unauthenticated)
							return
						}
						if err != nil && !errors.Is(err, fault.Unauthenticated) {
							t.Errorf("while it is revoked: %v", err)
						}
					}
				})
			}
			must(replicas[round%2].DeleteToken(w.as("view"), &platformv1.DeleteTokenRequest{TokenId: int64(made.GetToken().GetId())}))(t)
			revoked.Store(true)
			wg.Wait()
		}
	})
}

// foreignIDs returns calls in the user's workspace that name records of another organisation.
func foreignIDs(w *world, theirs *world) map[string]func(context.Context) error {
	c, o, ws, body := w.client, w.org, &w.ws, []byte("{}")
	id := must(c.CreateCredentials(theirs.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &theirs.ws, Body: login("theirs", "quay.io", "theirs")}))(w.t).GetCredentialsId()
	run := must(c.CreateTrace(theirs.as("launch"), &platformv1.CreateTraceRequest{WorkspaceId: &theirs.ws, Body: []byte(`{"runName":"theirs"}`)}))(w.t).GetWorkflowId()
	must(c.RecordProgress(theirs.as("launch"), &platformv1.RecordProgressRequest{WorkspaceId: &theirs.ws, WorkflowId: run, Body: []byte(`{"tasks":[{"taskId":1,"status":"RUNNING"}]}`)}))(w.t)
	token := int64(must(c.ListTokens(theirs.as("view"), &platformv1.ListTokensRequest{}))(w.t).GetTokens()[0].GetId())
	member, participant := theirs.memberOf["launch"], theirs.partOf["launch"]
	return map[string]func(context.Context) error{
		"credentials": func(ctx context.Context) error {
			_, err := c.DescribeCredentials(ctx, &platformv1.DescribeCredentialsRequest{WorkspaceId: ws, CredentialsId: id})
			return err
		},
		"update credentials": func(ctx context.Context) error {
			_, err := c.UpdateCredentials(ctx, &platformv1.UpdateCredentialsRequest{WorkspaceId: ws, CredentialsId: id, Body: login("mine", "quay.io", "mine")})
			return err
		},
		"delete credentials": func(ctx context.Context) error {
			_, err := c.DeleteCredentials(ctx, &platformv1.DeleteCredentialsRequest{WorkspaceId: ws, CredentialsId: id})
			return err
		},
		"keys": func(ctx context.Context) error {
			_, err := c.GetCredentialsKeys(ctx, &platformv1.GetCredentialsKeysRequest{WorkspaceId: ws, CredentialsId: id})
			return err
		},
		"run": func(ctx context.Context) error {
			_, err := c.DescribeWorkflow(ctx, &platformv1.DescribeWorkflowRequest{WorkspaceId: ws, WorkflowId: run})
			return err
		},
		"progress": func(ctx context.Context) error {
			_, err := c.GetWorkflowProgress(ctx, &platformv1.GetWorkflowProgressRequest{WorkspaceId: ws, WorkflowId: run})
			return err
		},
		"metrics": func(ctx context.Context) error {
			_, err := c.GetWorkflowMetrics(ctx, &platformv1.GetWorkflowMetricsRequest{WorkspaceId: ws, WorkflowId: run})
			return err
		},
		"launch record": func(ctx context.Context) error {
			_, err := c.GetWorkflowLaunch(ctx, &platformv1.GetWorkflowLaunchRequest{WorkspaceId: ws, WorkflowId: run})
			return err
		},
		"tasks": func(ctx context.Context) error {
			_, err := c.ListTasks(ctx, &platformv1.ListTasksRequest{WorkspaceId: ws, WorkflowId: run})
			return err
		},
		"task": func(ctx context.Context) error {
			_, err := c.DescribeTask(ctx, &platformv1.DescribeTaskRequest{WorkspaceId: ws, WorkflowId: run, TaskId: 1})
			return err
		},
		"update run": func(ctx context.Context) error {
			_, err := c.UpdateWorkflow(ctx, &platformv1.UpdateWorkflowRequest{WorkspaceId: ws, WorkflowId: run})
			return err
		},
		"delete run": func(ctx context.Context) error {
			_, err := c.DeleteWorkflow(ctx, &platformv1.DeleteWorkflowRequest{WorkspaceId: ws, WorkflowId: run})
			return err
		},
		"delete runs": func(ctx context.Context) error {
			resp, err := c.DeleteWorkflows(ctx, &platformv1.DeleteWorkflowsRequest{WorkspaceId: ws, Body: &platformv1.DeleteWorkflowsBody{WorkflowIds: []string{run}}})
			if len(resp.GetFailedWorkflowIds()) == 1 {
				return fault.NotFound.Newf("it was not deleted")
			}
			return err
		},
		"cancel": func(ctx context.Context) error {
			_, err := c.CancelWorkflow(ctx, &platformv1.CancelWorkflowRequest{WorkspaceId: ws, WorkflowId: run})
			return err
		},
		"begin": func(ctx context.Context) error {
			_, err := c.BeginTrace(ctx, &platformv1.BeginTraceRequest{WorkspaceId: ws, WorkflowId: run, Body: body})
			return err
		},
		"report": func(ctx context.Context) error {
			_, err := c.RecordProgress(ctx, &platformv1.RecordProgressRequest{WorkspaceId: ws, WorkflowId: run, Body: body})
			return err
		},
		"heartbeat": func(ctx context.Context) error {
			_, err := c.RecordHeartbeat(ctx, &platformv1.RecordHeartbeatRequest{WorkspaceId: ws, WorkflowId: run, Body: body})
			return err
		},
		"complete": func(ctx context.Context) error {
			_, err := c.CompleteTrace(ctx, &platformv1.CompleteTraceRequest{WorkspaceId: ws, WorkflowId: run, Body: body})
			return err
		},
		"workspace": func(ctx context.Context) error {
			_, err := c.DescribeWorkspace(ctx, &platformv1.DescribeWorkspaceRequest{OrgId: o, Id: theirs.ws})
			return err
		},
		"update workspace": func(ctx context.Context) error {
			_, err := c.UpdateWorkspace(ctx, &platformv1.UpdateWorkspaceRequest{OrgId: o, Id: theirs.ws, Workspace: &platformv1.WorkspaceSpec{Name: new("mine")}})
			return err
		},
		"delete workspace": func(ctx context.Context) error {
			_, err := c.DeleteWorkspace(ctx, &platformv1.DeleteWorkspaceRequest{OrgId: o, Id: theirs.ws})
			return err
		},
		"participants": func(ctx context.Context) error {
			_, err := c.ListParticipants(ctx, &platformv1.ListParticipantsRequest{OrgId: o, Id: theirs.ws})
			return err
		},
		"participant role": func(ctx context.Context) error {
			_, err := c.UpdateParticipantRole(ctx, &platformv1.UpdateParticipantRoleRequest{OrgId: o, Id: *ws, ParticipantId: participant, Role: &platformv1.ParticipantRole{Role: "view"}})
			return err
		},
		"delete participant": func(ctx context.Context) error {
			_, err := c.DeleteParticipant(ctx, &platformv1.DeleteParticipantRequest{OrgId: o, Id: *ws, ParticipantId: participant})
			return err
		},
		"add their member": func(ctx context.Context) error {
			_, err := c.AddParticipant(ctx, &platformv1.AddParticipantRequest{OrgId: o, Id: *ws, Participant: &platformv1.ParticipantSpec{MemberId: member}})
			if errors.Is(err, fault.Invalid) { // the id is in the body
				return fault.NotFound.New("no such member", err)
			}
			return err
		},
		"member role": func(ctx context.Context) error {
			_, err := c.UpdateMemberRole(ctx, &platformv1.UpdateMemberRoleRequest{OrgId: o, MemberId: member, Role: &platformv1.RoleSpec{Role: "owner"}})
			return err
		},
		"delete member": func(ctx context.Context) error {
			_, err := c.DeleteMember(ctx, &platformv1.DeleteMemberRequest{OrgId: o, MemberId: member})
			return err
		},
		"their token": func(ctx context.Context) error {
			_, err := c.DeleteToken(ctx, &platformv1.DeleteTokenRequest{TokenId: token})
			return err
		},
	}
}

// TestAnotherWorkspacesIDs makes each call of foreignIDs with each role, and checks that no call
// reads or changes a record of another organisation.
func TestAnotherWorkspacesIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	theirs := w.neighbours()
	calls := foreignIDs(w, theirs)
	state := func() string {
		out := []string{}
		boss := theirs.as("boss")
		out = append(out, must(w.client.ListCredentials(boss, &platformv1.ListCredentialsRequest{WorkspaceId: &theirs.ws}))(t).String())
		out = append(out, must(w.client.ListWorkflows(boss, &platformv1.ListWorkflowsRequest{WorkspaceId: &theirs.ws, Attributes: "progress"}))(t).String())
		out = append(out, must(w.client.ListParticipants(boss, &platformv1.ListParticipantsRequest{OrgId: theirs.org, Id: theirs.ws}))(t).String())
		out = append(out, must(w.client.ListMembers(boss, &platformv1.ListMembersRequest{OrgId: theirs.org}))(t).String())
		out = append(out, must(w.client.ListWorkspaces(boss, &platformv1.ListWorkspacesRequest{OrgId: theirs.org}))(t).String())
		return strings.Join(out, "\n")
	}
	before := state()
	for name, call := range calls {
		for _, who := range userNames() {
			if err := call(w.as(who)); !errors.Is(err, fault.NotFound) && !errors.Is(err, fault.Denied) {
				t.Errorf("%s as %s: %v", name, who, err)
			}
		}
	}
	if after := state(); after != before {
		t.Errorf("it changed from\n%s\nto\n%s", before, after)
	}
}

// neighbours creates other users with their own organisation on the same platform.
func (w *world) neighbours() *world {
	w.t.Helper()
	n := &world{t: w.t, service: w.service, client: w.client, clock: w.clock, tokens: map[string]string{}, ids: map[string]int64{}, partOf: map[string]int64{}, memberOf: map[string]int64{}}
	n.settle("their-")
	return n
}

// TestSearchInjection checks that search text is never interpreted as SQL or as a pattern.
func TestSearchInjection(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		run := must(w.client.CreateTrace(w.as("launch"), &platformv1.CreateTraceRequest{WorkspaceId: &w.ws, Body: []byte(`{"runName":"r"}`)}))(t).GetWorkflowId()
		for _, s := range []string{`'`, `"`, `') OR 1=1 --`, `%' OR '1'='1`, `\`, `\'; DROP TABLE platform_users; --`, `%`, `_`, "$1", "?1", "\x00", "é\u202e"} {
			found := map[string]int32{}
			// Text that databases cannot store may be refused, but only with fault.Invalid.
			well := func(what string, err error) bool {
				if err != nil && (s != "\x00" || !errors.Is(err, fault.Invalid)) {
					t.Errorf("%s %q: %v", what, s, err)
				}
				return err == nil
			}
			if r, err := w.client.ListMembers(w.as("view"), &platformv1.ListMembersRequest{OrgId: w.org, Search: s}); well("members", err) {
				found["members"] = r.GetTotalSize()
			}
			if r, err := w.client.ListOrganizations(w.as("view"), &platformv1.ListOrganizationsRequest{Search: s}); well("organisations", err) {
				found["organisations"] = r.GetTotalSize()
			}
			if r, err := w.client.ListWorkspaces(w.as("view"), &platformv1.ListWorkspacesRequest{OrgId: w.org, Search: s}); well("workspaces", err) {
				found["workspaces"] = r.GetTotalSize()
			}
			if r, err := w.client.ListParticipants(w.as("view"), &platformv1.ListParticipantsRequest{OrgId: w.org, Id: w.ws, Search: s}); well("participants", err) {
				found["participants"] = r.GetTotalSize()
			}
			if r, err := w.client.ListWorkflows(w.as("view"), &platformv1.ListWorkflowsRequest{WorkspaceId: &w.ws, Search: "runName:" + s}); well("runs", err) {
				found["runs"] = r.GetTotalSize()
			}
			if r, err := w.client.ListTasks(w.as("view"), &platformv1.ListTasksRequest{WorkspaceId: &w.ws, WorkflowId: run, Search: s, SortBy: s, SortDir: s}); err != nil && !errors.Is(err, fault.Invalid) {
				t.Errorf("tasks %q: %v", s, err)
			} else {
				found["tasks"] = int32(len(r.GetTasks()))
			}
			for what, n := range found {
				if n != 0 {
					t.Errorf("%q finds %d %s", s, n, what)
				}
			}
		}
	})
}

// TestOverLongFields checks the maximum length of each field.
func TestOverLongFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	long := strings.Repeat("é", 100_001)
	boss := w.as("boss")
	keys := func(m map[string]any) *structpb.Struct { return must(structpb.NewStruct(m))(t) }
	org := func(o *platformv1.OrganizationSpec) error {
		_, err := w.client.UpdateOrganization(boss, &platformv1.UpdateOrganizationRequest{OrgId: w.org, Organization: o})
		return err
	}
	ws := func(o *platformv1.WorkspaceSpec) error {
		_, err := w.client.UpdateWorkspace(boss, &platformv1.UpdateWorkspaceRequest{OrgId: w.org, Id: w.ws, Workspace: o})
		return err
	}
	creds := func(change func(*platformv1.CredentialsSpec)) error {
		body := login("long", "quay.io", "pw")
		change(body.GetCredentials())
		_, err := w.client.CreateCredentials(boss, &platformv1.CreateCredentialsRequest{Body: body})
		return err
	}
	user := func(a identity.Account) error {
		_, err := w.service.CreateUser(t.Context(), a)
		return err
	}
	for name, err := range map[string]error{
		"organisation name":        org(&platformv1.OrganizationSpec{Name: &long}),
		"organisation full name":   org(&platformv1.OrganizationSpec{FullName: &long}),
		"organisation description": org(&platformv1.OrganizationSpec{Description: &long}),
		"organisation location":    org(&platformv1.OrganizationSpec{Location: &long}),
		"organisation website":     org(&platformv1.OrganizationSpec{Website: &long}),
		"workspace name":           ws(&platformv1.WorkspaceSpec{Name: &long}),
		"workspace full name":      ws(&platformv1.WorkspaceSpec{FullName: &long}),
		"workspace description":    ws(&platformv1.WorkspaceSpec{Description: &long}),
		"workspace visibility":     ws(&platformv1.WorkspaceSpec{Visibility: &long}),
		"credentials name":         creds(func(c *platformv1.CredentialsSpec) { c.Name = &long }),
		"credentials description":  creds(func(c *platformv1.CredentialsSpec) { c.Description = &long }),
		"credentials provider":     creds(func(c *platformv1.CredentialsSpec) { c.Provider = &long }),
		"credentials base URL":     creds(func(c *platformv1.CredentialsSpec) { c.BaseUrl = &long }),
		"password":                 creds(func(c *platformv1.CredentialsSpec) { c.Keys = keys(map[string]any{"userName": "u", "password": long}) }),
		"user name at a registry":  creds(func(c *platformv1.CredentialsSpec) { c.Keys = keys(map[string]any{"userName": long, "password": "p"}) }),
		"registry": creds(func(c *platformv1.CredentialsSpec) {
			c.Keys = keys(map[string]any{"userName": "u", "password": "p", "registry": strings.Repeat("x", 300)})
		}),
		"keys of another provider": creds(func(c *platformv1.CredentialsSpec) { c.Provider, c.Keys = new("aws"), keys(map[string]any{"x": long}) }),
		"user":                     user(identity.Account{Name: strings.Repeat("x", 41), Email: "x@example.org"}),
		"e-mail":                   user(identity.Account{Name: "x", Email: strings.Repeat("x", 300) + "@example.org"}),
		"first name":               user(identity.Account{Name: "x", Email: "x@example.org", FirstName: long}),
	} {
		wantError(t, name, err, fault.Invalid)
	}
	_, err := w.client.CreateToken(boss, &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{Name: long}})
	wantError(t, "token name", err, fault.Invalid)
	_, err = w.client.ListMembers(boss, &platformv1.ListMembersRequest{OrgId: w.org, Search: long})
	wantError(t, "search", err, fault.Invalid)
	// A report must not fail because of its size, since that would abort the run.
	made := must(w.client.CreateTrace(boss, &platformv1.CreateTraceRequest{WorkspaceId: &w.ws, Body: []byte(`{"runName":"` + long + `","projectName":"` + long + `","sessionId":"` + long + `"}`)}))(t)
	resp := must(w.client.DescribeWorkflow(boss, &platformv1.DescribeWorkflowRequest{WorkspaceId: &w.ws, WorkflowId: made.GetWorkflowId()}))(t)
	if n := len(members(t, resp.GetDocument())["runName"].(string)); n == 0 {
		t.Error("an over-long run has no name")
	}
}

// TestWritesUnderRotation checks that secrets that are written during a rotation of the master
// keys can be read afterwards on each replica.
func TestWritesUnderRotation(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		d, keyFile := deps(t, db), filepath.Join(t.TempDir(), "keys")
		d.Keys = must(vault.Open(keyFile, true))(t)
		w := newWorldWith(t, d, &clock{})
		second := deps(t, db)
		second.Keys = must(vault.Open(keyFile, false))(t)
		_, replica := serveWith(t, second)
		var rotated atomic.Bool
		var written sync.Map
		var wg sync.WaitGroup
		for n, client := range []platformClient{w.client, replica} {
			wg.Go(func() {
				id := ""
				for i := 0; !rotated.Load() || i < 5; i++ {
					name := string(rune('a'+n)) + "-" + string(rune('a'+i%20))
					if i < 20 {
						id = must(client.CreateCredentials(w.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: login(name, "quay.io/"+name, name)}))(t).GetCredentialsId()
						written.Store(name, name)
						continue
					}
					_, err := client.UpdateCredentials(w.as("maintain"), &platformv1.UpdateCredentialsRequest{WorkspaceId: &w.ws, CredentialsId: id, Body: login("last-"+string(rune('a'+n)), "quay.io/last"+string(rune('a'+n)), "last")})
					wantError(t, "a change under rotation", err, nil)
				}
			})
		}
		for range 4 {
			if err := d.Keys.Add(); err != nil {
				t.Error(err)
			}
			if _, err := w.service.RotateKeys(t.Context()); err != nil {
				t.Error(err)
			}
		}
		rotated.Store(true)
		wg.Wait()
		wantError(t, "every secret", w.service.CheckKeys(t.Context()), nil)
		list := must(w.client.ListCredentials(w.as("view"), &platformv1.ListCredentialsRequest{WorkspaceId: &w.ws}))(t).GetCredentials()
		for _, c := range list {
			registry := c.GetKeys().AsMap()["registry"].(string)
			for _, client := range []platformClient{w.client, replica} {
				resp, err := client.GetCredentials(t.Context(), &platformv1.GetCredentialsRequest{Identity: w.identity("launch"), Registry: registry})
				if err != nil || resp.GetCredentials().GetPassword() == "" {
					t.Errorf("%s: %v, %v", registry, resp, err)
				}
			}
		}
		if len(list) == 0 {
			t.Error("nothing was written")
		}
	})
}
