package platform_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/metadata"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform"
	"slipway.dev/services/platform/identity"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		me := w.as("view")
		made := must(w.client.CreateToken(me, &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{Name: "ci", Expires: "2026-01-31T13:00:00Z"}}))(t)
		_, err := w.client.CreateToken(me, &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{Name: "ci"}})
		wantError(t, "the name again", err, fault.Conflict)
		_, err = w.client.CreateToken(me, &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{Name: "old", Expires: "2026-01-31T11:00:00Z"}})
		wantError(t, "an end in the past", err, fault.Invalid)
		use := func() error {
			_, err := w.client.GetUserInfo(bearer(t.Context(), made.GetAccessKey()), &platformv1.GetUserInfoRequest{})
			return err
		}
		wantError(t, "a new token", use(), nil)
		list := must(w.client.ListTokens(me, &platformv1.ListTokensRequest{}))(t).GetTokens()
		if len(list) != 2 || list[0].GetName() != "ci" || list[0].GetLastUsed().AsTime() != w.clock.now || list[0].GetExpires() == nil || list[1].GetExpires() != nil {
			t.Errorf("the tokens are %v", list)
		}
		w.clock.now = w.clock.now.Add(time.Hour)
		wantError(t, "an expired token", use(), fault.Unauthenticated)
		w.clock.now = w.clock.now.Add(-time.Minute)
		wantError(t, "a token that is not expired", use(), nil)
		id := int64(made.GetToken().GetId())
		_, err = w.client.DeleteToken(w.as("launch"), &platformv1.DeleteTokenRequest{TokenId: id})
		wantError(t, "another's token", err, fault.NotFound)
		must(w.client.DeleteToken(me, &platformv1.DeleteTokenRequest{TokenId: id}))(t)
		wantError(t, "a revoked token", use(), fault.Unauthenticated)
		must(w.client.DeleteAllTokens(me, &platformv1.DeleteAllTokensRequest{}))(t)
		_, err = w.client.GetUserInfo(me, &platformv1.GetUserInfoRequest{})
		wantError(t, "after all were revoked", err, fault.Unauthenticated)
	})
}

// TestDisableAndDeleteUser checks that only the disabled or deleted user loses access, with
// immediate effect.
func TestDisableAndDeleteUser(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		use := func(who string) error {
			_, err := w.client.GetUserInfo(w.as(who), &platformv1.GetUserInfoRequest{})
			return err
		}
		// Image names resolve the user's logins without a token.
		reads := func(who string) error {
			_, err := w.client.GetCredentials(t.Context(), &platformv1.GetCredentialsRequest{Identity: w.identity(who), Registry: "quay.io/team"})
			return err
		}
		name := must(w.client.GetUserInfo(w.as("view"), &platformv1.GetUserInfoRequest{}))(t).GetUser().GetUserName()
		wantError(t, "before", use("view"), nil)
		wantError(t, "disabling", w.service.DisableUser(t.Context(), name), nil)
		wantError(t, "a disabled user", use("view"), fault.Unauthenticated)
		wantError(t, "a disabled user's logins", reads("view"), fault.Denied)
		wantError(t, "somebody else", use("launch"), nil)
		_, err := w.service.CreateTokenFor(t.Context(), name, identity.NewToken{Name: "more"})
		wantError(t, "a token for a disabled user", err, fault.Invalid)
		wantError(t, "enabling", w.service.EnableUser(t.Context(), name), nil)
		wantError(t, "an enabled user", use("view"), nil)
		wantError(t, "an enabled user's logins", reads("view"), nil)
		personal := must(w.client.CreateTrace(w.as("view"), &platformv1.CreateTraceRequest{Body: []byte(`{"runName":"r"}`)}))(t).GetWorkflowId()
		must(w.client.BeginTrace(w.as("view"), &platformv1.BeginTraceRequest{WorkflowId: personal, Body: []byte(`{"workflow":{"runName":"r"}}`)}))(t)
		shared := must(w.client.CreateTrace(w.as("launch"), &platformv1.CreateTraceRequest{WorkspaceId: &w.ws, Body: []byte(`{"runName":"r"}`)}))(t).GetWorkflowId()
		wantError(t, "deleting", w.service.DeleteUser(t.Context(), name), nil)
		wantError(t, "a deleted user", use("view"), fault.Unauthenticated)
		wantError(t, "deleting again", w.service.DeleteUser(t.Context(), name), fault.Invalid)
		var left string
		if err := db.QueryRowContext(t.Context(), `SELECT coalesce(min(id), '') FROM platform_workflows WHERE id IN ($1, $2)`, personal, shared).Scan(&left); err != nil || left != shared {
			t.Errorf("of the runs %s is left, want %s: %v", left, shared, err)
		}
	})
}

func TestBasic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	for header, kind := range map[string]error{
		"Basic " + b64("@token:"+w.tokens["view"]): nil,
		"Bearer  " + w.tokens["view"]:              nil,
		"Basic " + b64("ada:"+w.tokens["view"]):    fault.Unauthenticated,
		"Basic x":                                  fault.Unauthenticated,
		"Digest " + w.tokens["view"]:               fault.Unauthenticated,
		w.tokens["view"]:                           fault.Unauthenticated,
	} {
		_, err := w.client.GetUserInfo(metadata.AppendToOutgoingContext(t.Context(), "authorization", header), &platformv1.GetUserInfoRequest{})
		wantError(t, header[:6], err, kind)
	}
}

// limitCalls lets each client make some calls in a window.
func limitCalls(d platform.Deps, calls int, window time.Duration) {
	limit := ratelimit.Limit{{Count: calls, Window: window}}
	d.Limiter.SetLimits(ratelimit.Limits{ratelimit.Calls: {User: limit, Anonymous: limit}})
}

func TestCallLimit(t *testing.T) {
	t.Parallel()
	d := deps(t, testkit.SQLite(t))
	d.Limiter = ratelimit.New(testkit.Redis(t), prometheus.NewRegistry(), testkit.Log(t))
	limitCalls(d, 3, time.Hour)
	s, client := serveWith(t, d)
	token, err := s.EnsureAdmin(t.Context(), adminOf("a@b.c"))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 4 {
		_, err = client.GetUserInfo(bearer(t.Context(), token), &platformv1.GetUserInfoRequest{})
		if n < 3 {
			wantError(t, "within the limit", err, nil)
		}
	}
	if e, ok := fault.As(err); !ok || e.Kind != fault.Exhausted || e.RetryAfter == 0 || e.Meta[ratelimit.MetaLimit] != "3" {
		t.Errorf("above the limit: %v", err)
	}
	if _, err := client.Authorize(t.Context(), &platformv1.AuthorizeRequest{AccessToken: token}); err != nil {
		t.Errorf("a call of another service is limited: %v", err)
	}
}

// TestCallLimitIsOfTheOrganisation checks that more robots do not allow more calls.
func TestCallLimitIsOfTheOrganisation(t *testing.T) {
	t.Parallel()
	c, d := january(), deps(t, testkit.SQLite(t))
	d.Limiter = ratelimit.New(testkit.Redis(t), prometheus.NewRegistry(), testkit.Log(t))
	limitCalls(d, 60, time.Hour)
	d.Now = c.Now
	w := newWorldWith(t, d, c)
	var tokens []string
	for n := range 3 {
		tokens = append(tokens, w.robot("admin", &w.ws, fmt.Sprint("ci", n), "launch").token("t"))
	}
	served := 0
	for n := range 120 {
		if err := w.use(tokens[n%len(tokens)]); err == nil {
			served++
		}
	}
	if served == 0 || served > 60 {
		t.Errorf("%d calls of three robots were served, want at most 60", served)
	}
}

// TestCallLimitIsOfTheUser checks that more tokens and sessions do not allow more calls.
func TestCallLimitIsOfTheUser(t *testing.T) {
	t.Parallel()
	c, d := january(), deps(t, testkit.SQLite(t))
	d.Limiter = ratelimit.New(testkit.Redis(t), prometheus.NewRegistry(), testkit.Log(t))
	limitCalls(d, 100, time.Hour)
	d.Now = c.Now
	w := newWorldWith(t, d, c)
	tokens := []string{w.tokens["view"], w.signIn(w.client, w.tokens["view"]).GetAccessToken()}
	for n := range 3 {
		tokens = append(tokens, must(w.service.CreateTokenFor(t.Context(), "view", identity.NewToken{Name: fmt.Sprint("token ", n)}))(t))
	}
	served := 0
	for n := range 200 {
		if err := w.use(tokens[n%len(tokens)]); err == nil {
			served++
		}
	}
	if served >= 100 {
		t.Errorf("%d calls of one user were served, and the limit is 100", served)
	}
	wantError(t, "one more token", w.use(must(w.service.CreateTokenFor(t.Context(), "view", identity.NewToken{Name: "one more"}))(t)), fault.Exhausted)
	wantError(t, "another user", w.use(w.tokens["launch"]), nil)
}

// TestConcurrentNames checks that one of several concurrent calls on two replicas gets a name.
func TestConcurrentNames(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		_, second := serveWith(t, deps(t, db))
		for name, take := range map[string]func(platformClient) error{
			"organisation": func(at platformClient) error {
				_, err := at.CreateOrganization(w.as("view"), &platformv1.CreateOrganizationRequest{Body: &platformv1.CreateOrganizationBody{Organization: &platformv1.OrganizationSpec{Name: new("Once")}}})
				return err
			},
			"workspace": func(at platformClient) error {
				_, err := at.CreateWorkspace(w.as("boss"), &platformv1.CreateWorkspaceRequest{OrgId: w.org, Body: &platformv1.CreateWorkspaceBody{Workspace: &platformv1.WorkspaceSpec{Name: new("once")}}})
				return err
			},
			"token": func(at platformClient) error {
				_, err := at.CreateToken(w.as("view"), &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{Name: "once"}})
				return err
			},
			"credentials": func(at platformClient) error {
				_, err := at.CreateCredentials(w.as("boss"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: login("once", "quay.io", "x")})
				return err
			},
		} {
			var won, lost atomic.Int32
			var wg sync.WaitGroup
			for n := range 8 {
				wg.Go(func() {
					switch err := take([]platformClient{w.client, second}[n%2]); {
					case err == nil:
						won.Add(1)
					case errors.Is(err, fault.Conflict):
						lost.Add(1)
					default:
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 || lost.Load() != 7 {
				t.Errorf("%s: %d won, %d lost", name, won.Load(), lost.Load())
			}
		}
	})
}

func TestListMembers(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		boss := w.as("boss")
		list := must(w.client.ListMembers(boss, &platformv1.ListMembersRequest{OrgId: w.org, Search: "MAINT*@example", Max: new(int32(5))}))(t)
		if list.GetTotalSize() != 1 || list.GetMembers()[0].GetUserName() != "maintain" {
			t.Errorf("found %v", list)
		}
		if none := must(w.client.ListMembers(boss, &platformv1.ListMembersRequest{OrgId: w.org, Search: "%"}))(t); none.GetTotalSize() != 0 {
			t.Errorf("a percent sign finds %v", none)
		}
		pageTwo := must(w.client.ListMembers(boss, &platformv1.ListMembersRequest{OrgId: w.org, Page: new(int32(2)), PageSize: new(int32(5))}))(t)
		if pageTwo.GetTotalSize() != 8 || len(pageTwo.GetMembers()) != 3 {
			t.Errorf("the second page is %v", pageTwo)
		}
		_, err := w.client.LeaveOrganization(boss, &platformv1.LeaveOrganizationRequest{OrgId: w.org})
		wantError(t, "the last owner", err, fault.Conflict)
		_, err = w.client.UpdateParticipantRole(w.as("admin"), &platformv1.UpdateParticipantRoleRequest{OrgId: w.org, Id: w.ws, ParticipantId: w.partOf["admin"], Role: &platformv1.ParticipantRole{Role: "owner"}})
		wantError(t, "an admin who would be an owner", err, fault.Denied)
		_, err = w.client.DeleteParticipant(w.as("admin"), &platformv1.DeleteParticipantRequest{OrgId: w.org, Id: w.ws, ParticipantId: w.partOf["owner"]})
		wantError(t, "an admin against an owner", err, fault.Denied)
		must(w.client.UpdateParticipantRole(boss, &platformv1.UpdateParticipantRoleRequest{OrgId: w.org, Id: w.ws, ParticipantId: w.partOf["view"], Role: &platformv1.ParticipantRole{Role: "MAINTAIN"}}))(t)
		for _, p := range must(w.client.ListParticipants(boss, &platformv1.ListParticipantsRequest{OrgId: w.org, Id: w.ws}))(t).GetParticipants() {
			if int64(p.GetParticipantId()) == w.partOf["view"] && p.GetWspRole() != "maintain" {
				t.Errorf("a participant with the role MAINTAIN is %v", p)
			}
		}
		p := must(w.client.AddParticipant(w.as("admin"), &platformv1.AddParticipantRequest{OrgId: w.org, Id: w.ws, Participant: &platformv1.ParticipantSpec{UserNameOrEmail: "stranger@example.org"}}))(t)
		if p.GetParticipant().GetType() != "COLLABORATOR" || p.GetParticipant().GetMemberId() != nil {
			t.Errorf("a stranger is %v", p)
		}
		orgs := must(w.client.ListOrganizations(w.as("boss"), &platformv1.ListOrganizationsRequest{}))(t).GetOrganizations()
		if len(orgs) != 1 || orgs[0].GetType() != "internal" {
			t.Errorf("organisations are %v, typed clients know no type of that kind", orgs)
		}
		spaces := must(w.client.ListUserWorkspaces(w.as("stranger"), &platformv1.ListUserWorkspacesRequest{UserId: w.ids["stranger"]}))(t).GetOrgsAndWorkspaces()
		if len(spaces) != 2 || spaces[0].GetWorkspaceId() != nil || spaces[1].GetWorkspaceName().GetValue() != "bench" {
			t.Errorf("a collaborator sees %v", spaces)
		}
		leave := &platformv1.LeaveWorkspaceRequest{OrgId: w.org, Id: w.ws}
		must(w.client.LeaveWorkspace(w.as("connect"), leave))(t)
		_, err = w.client.Authorize(t.Context(), &platformv1.AuthorizeRequest{AccessToken: w.tokens["connect"], WorkspaceId: w.ws})
		wantError(t, "a participant who left", err, fault.Denied)
		_, err = w.client.LeaveWorkspace(w.as("connect"), leave)
		wantError(t, "a user without a role who leaves", err, fault.Denied)
		_, err = w.client.LeaveWorkspace(boss, leave)
		wantError(t, "an owner of the organisation, who is no participant", err, fault.NotFound)
		must(w.client.DeleteMember(boss, &platformv1.DeleteMemberRequest{OrgId: w.org, MemberId: w.memberOf["launch"]}))(t)
		_, err = w.client.Authorize(t.Context(), &platformv1.AuthorizeRequest{AccessToken: w.tokens["launch"], WorkspaceId: w.ws})
		wantError(t, "who was taken out", err, fault.Denied)
		_, err = w.client.DeleteOrganization(boss, &platformv1.DeleteOrganizationRequest{OrgId: w.org})
		wantError(t, "an organisation in use", err, fault.Conflict)
		must(w.client.DeleteWorkspace(boss, &platformv1.DeleteWorkspaceRequest{OrgId: w.org, Id: w.ws}))(t)
		must(w.client.DeleteOrganization(boss, &platformv1.DeleteOrganizationRequest{OrgId: w.org}))(t)
	})
}
