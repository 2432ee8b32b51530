package platform_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	openapiv1 "slipway.dev/proto/gen/slipway/openapi/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestTokenOfRepositories creates tokens of some repositories, for users and robots, and checks what
// other services and lists get of them.
func TestTokenOfRepositories(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		given := []string{"GHCR.io/lab/*", "docker.io/debian", "ghcr.io/lab/*"}
		want := []string{"ghcr.io/lab/*", "docker.io/library/debian"}
		made := must(w.client.CreateToken(w.as("boss"), &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{Name: "lab", Repositories: given}}))(t)
		if got := made.GetToken().GetRepositories(); !slices.Equal(got, want) {
			t.Errorf("the token is for %q", got)
		}
		ci := w.robot("boss", &w.ws, "ci", "launch")
		ofRobot := must(ci.create(ci.as(), &platformv1.RobotTokenSpec{Name: "lab", Scopes: []string{"pull"}, Repositories: given}))(t)
		for name, token := range map[string]string{"user": made.GetAccessKey(), "robot": ofRobot.GetAccessKey()} {
			resp := must(w.client.Authorize(t.Context(), &platformv1.AuthorizeRequest{AccessToken: token, Scopes: []string{"pull"}}))(t)
			if got := resp.GetIdentity().GetRepositories(); !slices.Equal(got, want) {
				t.Errorf("the identity of the %s has %q", name, got)
			}
			info := must(w.client.GetUserInfo(bearer(t.Context(), token), &platformv1.GetUserInfoRequest{}))(t)
			if got := info.GetToken().GetRepositories(); !slices.Equal(got, want) {
				t.Errorf("the %s sees %q", name, got)
			}
		}
		for _, record := range must(w.client.ListTokens(w.as("boss"), &platformv1.ListTokensRequest{}))(t).GetTokens() {
			if record.GetName() == "lab" && !slices.Equal(record.GetRepositories(), want) || record.GetName() == "first" && len(record.GetRepositories()) > 0 {
				t.Errorf("the list has %v", record)
			}
		}
		list := must(w.client.ListRobotTokens(w.as("boss"), &platformv1.ListRobotTokensRequest{OrgId: w.org, WorkspaceId: &w.ws, RobotId: ci.id}))(t).GetTokens()
		if len(list) != 1 || !slices.Equal(list[0].GetRepositories(), want) {
			t.Errorf("the tokens of the robot are %v", list)
		}
		many := make([]string, limits.TokenRepositories+1)
		for i := range many {
			many[i] = fmt.Sprintf("r.example/x%d", i)
		}
		for name, repositories := range map[string][]string{
			"too many": many, "no host": {"lab/*"}, "a tag": {"ghcr.io/lab/x:1"}, "the second": {"ghcr.io/lab", "*"}, "empty": {""}, "a space": {"ghcr.io/a ghcr.io/b"},
		} {
			_, err := w.client.CreateToken(w.as("boss"), &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{Name: name, Repositories: repositories}})
			wantError(t, name, err, fault.Invalid)
		}
		must(w.client.CreateToken(w.as("boss"), &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{Name: "many", Repositories: many[1:]}}))(t)
	})
}

// TestCallsWithTokenOfRepositories makes every call with a token of some repositories, which could
// otherwise read, or give away, the logins for others.
func TestCallsWithTokenOfRepositories(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	if err := w.service.SetAdministrator(t.Context(), "boss", true); err != nil {
		t.Fatal(err)
	}
	by := scopesOfCalls()
	may := slices.Concat(by[rpc.ScopeAny], by[rpc.ScopeRuns])
	for i, scopes := range [][]string{nil, {"pull", "request", "build", "freeze", "runs", "credentials:read", "admin"}} {
		token := w.tokenOf(w.as("boss"), &platformv1.TokenSpec{Name: fmt.Sprint("lab", i), Scopes: scopes, Repositories: []string{"ghcr.io/lab/*"}})
		for _, call := range callsWithToken() {
			name := call[strings.LastIndexByte(call, '/')+1:]
			err := w.client.Invoke(bearer(t.Context(), token), call, &emptypb.Empty{}, &emptypb.Empty{})
			if lacksScope(err) == slices.Contains(may, name) {
				t.Errorf("%s with the scopes %q: %v", name, scopes, err)
			}
		}
		for _, scope := range rpc.Scopes() {
			resp, err := w.client.Authorize(t.Context(), &platformv1.AuthorizeRequest{AccessToken: token, Scopes: []string{string(scope)}})
			if denied := scope == rpc.ScopeAdmin || scope == rpc.ScopeCredentials; lacksScope(err) != denied || !denied && err != nil || resp.GetAdministrator() {
				t.Errorf("authorizing the scope %s: %v, %v", scope, resp, err)
			}
		}
		_, err := w.client.CreateCode(t.Context(), &platformv1.CreateCodeRequest{
			AccessToken: token, ClientId: "nf", RedirectUri: "http://127.0.0.1:1/", CodeChallenge: strings.Repeat("a", 43), CodeChallengeMethod: "S256",
		})
		if !lacksScope(err) {
			t.Errorf("signing in a program: %v", err)
		}
	}
}

// tokenOf creates a token and returns it.
func (w *world) tokenOf(ctx context.Context, spec *platformv1.TokenSpec) string {
	w.t.Helper()
	return must(w.client.CreateToken(ctx, &platformv1.CreateTokenRequest{Token: spec}))(w.t).GetAccessKey()
}

// TestTokenOfRepositoriesGainsNothing creates tokens with a token of some repositories.
func TestTokenOfRepositoriesGainsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	ctx := bearer(t.Context(), w.tokenOf(w.as("boss"), &platformv1.TokenSpec{Name: "lab", Repositories: []string{"ghcr.io/lab/*", "docker.io/debian"}}))
	for name, repositories := range map[string][]string{
		"all": nil, "the registry": {"ghcr.io/*"}, "another path": {"ghcr.io/laboratory/*"}, "the parent": {"ghcr.io/lab"}, "one more": {"ghcr.io/lab/*", "quay.io/x"},
		"below": {"docker.io/debian/*"}, "another image": {"docker.io/ubuntu"},
	} {
		_, err := w.client.CreateToken(ctx, &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{Name: name, Scopes: []string{"pull"}, Repositories: repositories}})
		if !lacksScope(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	child := w.tokenOf(ctx, &platformv1.TokenSpec{Name: "child", Repositories: []string{"ghcr.io/lab/a/*"}})
	if _, err := w.client.CreateToken(bearer(t.Context(), child), &platformv1.CreateTokenRequest{Token: &platformv1.TokenSpec{Name: "grandchild", Repositories: []string{"ghcr.io/lab/*"}}}); !lacksScope(err) {
		t.Errorf("a grandchild with more repositories: %v", err)
	}
	_, err := w.client.CreateRobot(ctx, &platformv1.CreateRobotRequest{OrgId: w.org, WorkspaceId: &w.ws, Robot: &platformv1.RobotSpec{Name: "ci"}})
	if !lacksScope(err) {
		t.Errorf("a robot: %v", err)
	}
}

// TestDeclaredRepositories checks that the OpenAPI document declares the form of repositories that is
// enforced.
func TestDeclaredRepositories(t *testing.T) {
	t.Parallel()
	for _, m := range []proto.Message{&platformv1.TokenSpec{}, &platformv1.RobotTokenSpec{}} {
		options := m.ProtoReflect().Descriptor().Fields().ByName("repositories").Options()
		pattern, _ := proto.GetExtension(options, openapiv1.E_Pattern).(string)
		length, _ := proto.GetExtension(options, openapiv1.E_MaxLength).(int32)
		items, _ := proto.GetExtension(options, openapiv1.E_MaxItems).(int32)
		if pattern != oci.RepositoryPatternForm() || length != limits.TokenRepository || items != limits.TokenRepositories {
			t.Errorf("%T declares %s, %d, %d; enforced is %s", m, pattern, length, items, oci.RepositoryPatternForm())
		}
	}
}
