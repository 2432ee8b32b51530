package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/gateway"
)

// TestParametersThatCannotBeRead checks that malformed parameters are 400 at both APIs,
// with our own messages.
func TestParametersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	called := func(any, grpc.ServerStream) error { t.Error("the service was called"); return nil }
	platform := servePlatform(t, "", called)
	for path, want := range map[string]string{
		"/orgs?max=many":                            `max must be a whole number, not \"many\"`,
		"/orgs?pageSize=99999999999999999999":       `pageSize must be a whole number, not \"99999999999999999999\"`,
		"/credentials?workspaceId=x":                `workspaceId must be a whole number, not \"x\"`,
		"/credentials?workspace_id=x":               `workspaceId must be a whole number, not \"x\"`,
		"/credentials?workspaceId=":                 `workspaceId must be a whole number, not \"\"`,
		"/orgs/x/members":                           `orgId must be a whole number, not \"x\"`,
		"/workflow?includeTotalSize=maybe":          `includeTotalSize must be true or false, not \"maybe\"`,
		"/orgs?max=1&max=2":                         `max occurs more than once`,
		"/credentials?workspaceId=5&workspace_id=6": `workspaceId occurs more than once`,
		"/workflow?page=one":                        `page must be a whole number, not \"one\"`,
		"/workflow/1/tasks?page=one":                `page must be a whole number, not \"one\"`,
	} {
		resp, body := exchange(t, http.MethodGet, platform+path, nil)
		if got, want := string(body), `{"message":"`+want+` - error id: r-1","code":"request.invalid"}`; resp.StatusCode != http.StatusBadRequest || got != want {
			t.Errorf("%s: %d %s, want %s", path, resp.StatusCode, got, want)
		}
	}
	container := serve(t, called)
	resp, body := exchange(t, http.MethodGet, container+"/v1alpha1/builds?max=many", nil, "Authorization", "Bearer x")
	if want := `{"message":"max must be a whole number, not \"many\"","code":"request.invalid"}`; resp.StatusCode != http.StatusBadRequest || string(body) != want {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// TestWorkspaceInTheBody checks that clients may send the workspace in the body instead of the
// query, and that different values are rejected.
func TestWorkspaceInTheBody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, method, path, body, want string }{
		{"in the query", "POST", "/credentials?workspaceId=6", `{}`, "6"},
		{"in the body", "POST", "/credentials", `{"workspaceId":6,"credentials":{"name":"a"}}`, "6"},
		{"as a text", "POST", "/credentials", `{"workspaceId":"6"}`, "6"},
		{"in both", "POST", "/credentials?workspaceId=6", `{"workspaceId":6}`, "6"},
		{"of an update", "PUT", "/credentials/abc", `{"workspaceId":6}`, "6"},
		{"of a deletion", "DELETE", "/credentials/abc", `{"workspaceId":6}`, "6"},
		{"beside other parameters", "DELETE", "/credentials/abc?checked=true", `{"workspaceId":6}`, "6"},
		{"of a run", "POST", "/workflow/abc/cancel", `{"workspaceId":6}`, "6"},
		{"of a report", "PUT", "/trace/abc/progress", `{"workspaceId":6,"tasks":[]}`, "6"},
		{"null", "POST", "/credentials", `{"workspaceId":null}`, "0"},
		{"further inside", "POST", "/credentials", `{"credentials":{"workspaceId":6}}`, "0"},
		{"of a wrong type, in a report", "PUT", "/trace/abc/progress", `{"workspaceId":[6]}`, "0"},
		{"that differs", "POST", "/credentials?workspaceId=6", `{"workspaceId":7}`, "workspaceId is 6 in the query and 7 in the body: leave one of them out"},
		{"that differs from another spelling", "POST", "/credentials?workspace_id=6", `{"workspaceId":7}`, "workspaceId is 6 in the query and 7 in the body: leave one of them out"},
		{"that differs, in a deletion", "DELETE", "/credentials/abc?workspaceId=6", `{"workspaceId":7}`, "workspaceId is 6 in the query and 7 in the body: leave one of them out"},
		{"no number", "POST", "/credentials", `{"workspaceId":"six"}`, "workspaceId must be a whole number"},
		{"no JSON", "POST", "/credentials", `{"workspaceId":6`, "Invalid JSON request body"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got int64 = -1
			url := servePlatform(t, "", func(_ any, stream grpc.ServerStream) error {
				got = askedWorkspace(t, stream)
				return stream.SendMsg(&platformv1.UpdateCredentialsResponse{})
			})
			_, body := exchange(t, c.method, url+c.path, strings.NewReader(c.body))
			if asked := fmt.Sprint(got); asked != c.want && !strings.Contains(string(body), c.want) {
				t.Errorf("asked for workspace %s, answered %s; want %s", asked, body, c.want)
			}
		})
	}
}

// askedWorkspace returns the workspace of any request.
func askedWorkspace(t *testing.T, stream grpc.ServerStream) int64 {
	method, _ := grpc.MethodFromServerStream(stream)
	req := map[string]interface {
		proto.Message
		GetWorkspaceId() int64
	}{
		platformv1.CredentialService_CreateCredentials_FullMethodName: &platformv1.CreateCredentialsRequest{},
		platformv1.CredentialService_UpdateCredentials_FullMethodName: &platformv1.UpdateCredentialsRequest{},
		platformv1.CredentialService_DeleteCredentials_FullMethodName: &platformv1.DeleteCredentialsRequest{},
		platformv1.RunService_CancelWorkflow_FullMethodName:           &platformv1.CancelWorkflowRequest{},
		platformv1.RunService_RecordProgress_FullMethodName:           &platformv1.RecordProgressRequest{},
	}[method]
	if err := stream.RecvMsg(req); err != nil {
		t.Error(err)
	}
	return req.GetWorkspaceId()
}

// TestTokenBeforeParameters checks that a user's own list is 401 without a token, for any
// parameters.
func TestTokenBeforeParameters(t *testing.T) {
	t.Parallel()
	h, err := gateway.New(t.Context(), gateway.Conns{Container: refusing{}, Build: refusing{}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	for _, path := range []string{"/v1alpha1/builds?max=many", "/v1alpha1/containers?max=many"} {
		if resp, raw := exchange(t, http.MethodGet, server.URL+path, nil); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d %s", path, resp.StatusCode, raw)
		}
		if resp, raw := exchange(t, http.MethodGet, server.URL+path, nil, "Authorization", "Bearer x"); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s with a token: %d %s", path, resp.StatusCode, raw)
		}
	}
}
