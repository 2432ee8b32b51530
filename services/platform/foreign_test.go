package platform_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/platform"
	"slipway.dev/services/platform/federation"
	"slipway.dev/services/platform/vault"
)

// An otherPlatform is a complete second platform with the parts of the REST API that a container
// service uses.
type otherPlatform struct {
	*world
	url string

	mu sync.Mutex
	// fault may respond instead of the platform; it reports whether it did.
	fault func(http.ResponseWriter, *http.Request) bool
	asked map[string]int // requests by path
}

func newOtherPlatform(t *testing.T, c *clock) *otherPlatform {
	t.Helper()
	d := deps(t, testkit.SQLite(t))
	d.Now, d.OperatorAccounts = c.Now, operatorsFile(t)
	e := &otherPlatform{world: newWorldWith(t, d, c), asked: map[string]int{}}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	e.url = server.URL
	must(e.client.CreateCredentials(e.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &e.ws, Body: login("host", "quay.io", "host")}))(t)
	must(e.client.CreateCredentials(e.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &e.ws, Body: login("team", "quay.io/team", "pässword")}))(t)
	return e
}

func (e *otherPlatform) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.asked[r.URL.Path]++
	fail := e.fault
	e.mu.Unlock()
	if fail != nil && fail(w, r) {
		return
	}
	answer, err := e.handle(r)
	var f *fault.Error
	switch {
	case err == nil:
		raw, _ := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(answer)
		switch a := answer.(type) {
		case *platformv1.IssueTokensResponse:
			raw, _ = json.Marshal(map[string]string{"access_token": a.GetAccessToken(), "refresh_token": a.GetRefreshToken()})
		case *platformv1.DescribeWorkflowResponse:
			raw, _ = json.Marshal(map[string]json.RawMessage{"workflow": a.GetDocument().GetJson()})
		}
		_, _ = w.Write(raw)
	case errors.As(err, &f) && f.Kind == fault.Unauthenticated && f.Meta["refresh"] != "":
		w.WriteHeader(http.StatusUnauthorized)
	default:
		w.WriteHeader(http.StatusForbidden)
	}
}

func (e *otherPlatform) handle(r *http.Request) (proto.Message, error) {
	ctx := metadata.AppendToOutgoingContext(r.Context(), "authorization", r.Header.Get("Authorization"))
	var ws *int64
	if r.URL.Query().Get("workspaceId") != "" {
		ws = &e.ws // the only workspace
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/user-info":
		return e.client.GetUserInfo(ctx, &platformv1.GetUserInfoRequest{})
	case r.URL.Path == "/credentials":
		return e.client.ListCredentials(ctx, &platformv1.ListCredentialsRequest{WorkspaceId: ws})
	case len(parts) == 3 && parts[2] == "keys":
		return e.client.GetCredentialsKeys(ctx, &platformv1.GetCredentialsKeysRequest{
			WorkspaceId: ws, CredentialsId: parts[1], PairingId: r.URL.Query().Get("pairingId"), Version: int32(len(r.URL.Query()["version"])) * 2,
		})
	case r.URL.Path == "/pairing":
		spec := &platformv1.PairingSpec{}
		raw, _ := io.ReadAll(r.Body)
		if err := protojson.Unmarshal(raw, spec); err != nil {
			return nil, err
		}
		return e.client.CreatePairing(ctx, &platformv1.CreatePairingRequest{Pairing: spec})
	case r.URL.Path == "/oauth/access_token":
		return e.client.IssueTokens(ctx, &platformv1.IssueTokensRequest{GrantType: r.FormValue("grant_type"), RefreshToken: r.FormValue("refresh_token")})
	case parts[0] == "workflow" && len(parts) == 2:
		return e.client.DescribeWorkflow(ctx, &platformv1.DescribeWorkflowRequest{WorkspaceId: ws, WorkflowId: parts[1]})
	}
	return nil, fault.NotFound.Newf("no such endpoint")
}

// fail sets the function that may respond instead of the platform.
func (e *otherPlatform) fail(f func(http.ResponseWriter, *http.Request) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fault = f
}

// times returns the number of requests for a path, and resets it.
func (e *otherPlatform) times(path string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.asked[path]
	e.asked[path] = 0
	return n
}

// trusting starts a platform that trusts e. Each call starts one more replica.
func (e *otherPlatform) trusting(t *testing.T, db *sqldb.DB, keys *vault.Keys, allow ...string) platformClient {
	t.Helper()
	egress, err := upstream.NewEgress(allow)
	if err != nil {
		t.Fatal(err)
	}
	d := deps(t, db)
	d.Now, d.Keys, d.Log = e.clock.Now, keys, testkit.Log(t)
	_, host, _ := strings.Cut(e.url, "://")
	d.Foreign = federation.Trusted{
		Endpoints: []string{e.url}, Transport: upstream.NewTransport(egress),
		Operators: map[string]upstream.Login{host: {Username: "ops", Password: "pw"}},
	}
	_, client := serveWith(t, d)
	return client
}

func (e *otherPlatform) authorize(client platformClient, access, refresh string, workspace int64) (*platformv1.Identity, error) {
	resp, err := client.Authorize(e.t.Context(), &platformv1.AuthorizeRequest{AccessToken: access, RefreshToken: refresh, Endpoint: e.url + "/", WorkspaceId: workspace})
	return resp.GetIdentity(), err
}

func newKeys(t *testing.T) *vault.Keys {
	t.Helper()
	return deps(t, nil).Keys
}

const local = "127.0.0.0/8"

func january() *clock { return &clock{now: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)} }

// password returns the password of a login, as other services request it.
func password(client platformClient, id *platformv1.Identity, repository string) (string, error) {
	resp, err := client.GetCredentials(context.Background(), &platformv1.GetCredentialsRequest{Identity: id, Registry: repository})
	return resp.GetCredentials().GetPassword(), err
}

func TestForeignPlatform(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		e := newOtherPlatform(t, january())
		client := e.trusting(t, db, newKeys(t), local)
		unknown := &platformv1.Identity{Endpoint: e.url, UserId: e.ids["launch"], WorkspaceId: e.ws}
		_, err := password(client, unknown, "quay.io/team/app")
		wantError(t, "an unknown user", err, fault.Denied)

		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { must(e.authorize(client, e.tokens["launch"], "", e.ws))(t) })
		}
		wg.Wait()
		if n := e.times("/user-info"); n != 1 {
			t.Errorf("ten concurrent calls sent %d requests, want 1", n)
		}
		id := must(e.authorize(client, e.tokens["launch"], "", e.ws))(t)
		if id.GetEndpoint() != e.url || id.GetUserId() != e.ids["launch"] || id.GetEmail() != "launch@example.org" || id.GetWorkspaceId() != e.ws {
			t.Errorf("identified as %v", id)
		}
		for repository, want := range map[string]string{"quay.io/team/app": "pässword", "quay.io/teams/app": "host", "ghcr.io/x": "", "quay.io": "host"} {
			if got, err := password(client, id, repository); err != nil || got != want {
				t.Errorf("%s: got %q, %v", repository, got, err)
			}
		}
		if n := e.times("/pairing"); n != 1 {
			t.Errorf("paired %d times", n)
		}
		if n := e.times("/credentials"); n != 2 { // one checks access to the workspace
			t.Errorf("listed credentials %d times", n)
		}
		var sealed []byte
		if err := db.QueryRowContext(t.Context(), `SELECT sealed FROM platform_grants`).Scan(&sealed); err != nil || bytes.Contains(sealed, []byte(e.tokens["launch"])) {
			t.Errorf("the token is stored as %q, %v", sealed, err)
		}

		// Cached identities expire.
		must(e.authorize(client, e.tokens["launch"], "", e.ws))(t)
		if n := e.times("/user-info"); n != 0 {
			t.Errorf("a cached identity was requested %d times", n)
		}
		e.clock.now = e.clock.now.Add(5 * time.Minute)
		must(e.authorize(client, e.tokens["launch"], "", e.ws))(t)
		if n := e.times("/user-info"); n != 1 {
			t.Errorf("after five minutes the identity was requested %d times, want 1", n)
		}
		must(e.client.DeleteParticipant(e.as("boss"), &platformv1.DeleteParticipantRequest{OrgId: e.org, Id: e.ws, ParticipantId: e.partOf["launch"]}))(t)
		e.clock.now = e.clock.now.Add(time.Minute)
		_, err = password(client, id, "quay.io/team/app")
		wantError(t, "a removed participant", err, fault.Denied)

		for name, c := range map[string]struct {
			token string
			ws    int64
			kind  error
		}{
			"a stranger to the workspace": {e.tokens["stranger"], e.ws, fault.Denied},
			"a stranger":                  {e.tokens["stranger"], 0, nil},
			"a wrong token":               {"nonsense", 0, fault.Unauthenticated},
			"no workspace":                {e.tokens["launch"], -1, fault.Invalid},
		} {
			_, err := e.authorize(client, c.token, "", c.ws)
			wantError(t, name, err, c.kind)
		}
		_, err = client.Authorize(t.Context(), &platformv1.AuthorizeRequest{AccessToken: e.tokens["launch"], Endpoint: "https://evil.example"})
		wantError(t, "an untrusted platform", err, fault.Invalid)
	})
}

// TestForeignTokensAreRefreshed checks that concurrent calls on two replicas use a refresh token
// only once.
func TestForeignTokensAreRefreshed(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		e := newOtherPlatform(t, january())
		keys := newKeys(t)
		replicas := []platformClient{e.trusting(t, db, keys, local), e.trusting(t, db, keys, local)}
		code := e.code("launch")
		issued := must(e.issue(func(r *platformv1.IssueTokensRequest) { r.Code = code }))(t)
		at := func(client platformClient) (*platformv1.Identity, error) {
			return e.authorize(client, issued.GetAccessToken(), issued.GetRefreshToken(), e.ws)
		}
		id := must(at(replicas[0]))(t)
		for round := range 3 {
			e.clock.now = e.clock.now.Add(time.Hour)
			var wg sync.WaitGroup
			for n := range 8 {
				wg.Go(func() {
					if _, err := at(replicas[n%2]); err != nil {
						t.Errorf("round %d: %v", round, err)
					}
				})
			}
			wg.Wait()
			if n := e.times("/oauth/access_token"); n != 1 {
				t.Errorf("round %d: refreshed %d times", round, n)
			}
		}
		e.clock.now = e.clock.now.Add(time.Hour)
		if got, err := password(replicas[1], id, "quay.io"); err != nil || got != "host" {
			t.Errorf("a read with expired tokens: %q, %v", got, err)
		}
		must(e.client.DeleteAllTokens(e.as("launch"), &platformv1.DeleteAllTokensRequest{}))(t)
		e.clock.now = e.clock.now.Add(time.Hour)
		_, err := at(replicas[0])
		wantError(t, "tokens that the other platform has revoked", err, fault.Unauthenticated)
		_, err = password(replicas[0], id, "quay.io")
		wantError(t, "a read with revoked tokens", err, fault.Denied)
	})
}

func TestForeignPlatformFails(t *testing.T) {
	t.Parallel()
	db := testkit.SQLite(t)
	e := newOtherPlatform(t, january())
	keys := newKeys(t)
	client := e.trusting(t, db, keys, local)
	requests := 0
	e.fail(func(w http.ResponseWriter, _ *http.Request) bool {
		if requests++; requests < 3 {
			w.WriteHeader(http.StatusBadGateway)
		}
		return requests < 3
	})
	id := must(e.authorize(client, e.tokens["launch"], "", 0))(t)

	wantMessage := func(name string, err error, kind error, text string) {
		t.Helper()
		if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e.fail(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	_, err := e.authorize(client, e.tokens["view"], "", 0)
	wantMessage("status 500", err, fault.Unavailable, e.url)
	e.fail(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Redirect(w, &http.Request{}, "http://127.0.0.1:1/", http.StatusFound)
		return true
	})
	_, err = e.authorize(client, e.tokens["view"], "", 0)
	wantMessage("a redirect", err, fault.Unavailable, e.url)
	e.fail(func(w http.ResponseWriter, _ *http.Request) bool { _, _ = w.Write([]byte("<html>")); return true })
	_, err = e.authorize(client, e.tokens["view"], "", 0)
	wantMessage("HTML", err, fault.Unavailable, e.url)
	release := make(chan struct{})
	defer close(release) // the request continues, since other callers may wait for it
	e.fail(func(http.ResponseWriter, *http.Request) bool { <-release; return true })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	_, err = client.Authorize(ctx, &platformv1.AuthorizeRequest{AccessToken: e.tokens["view"], Endpoint: e.url})
	cancel()
	wantError(t, "no response", err, fault.Timeout)
	e.fail(nil)

	restricted := e.trusting(t, testkit.SQLite(t), newKeys(t))
	_, err = e.authorize(restricted, e.tokens["view"], "", 0)
	wantMessage("a private address", err, fault.Invalid, "egress_allow")

	// The other platform deletes the pairing: a new one is created, but only one.
	must(e.client.CreateCredentials(e.as("launch"), &platformv1.CreateCredentialsRequest{Body: login("mine", "ghcr.io", "mine")}))(t)
	if got, err := password(client, id, "ghcr.io/x"); err != nil || got != "mine" {
		t.Errorf("before: %q, %v", got, err)
	}
	e.clock.now = e.clock.now.Add(31 * 24 * time.Hour)
	wantError(t, "sweeping the other platform", e.service.Sweep(t.Context()), nil)
	if got, err := password(client, id, "ghcr.io/x"); err != nil || got != "mine" || e.times("/pairing") != 2 {
		t.Errorf("after the pairing has ended: %q, %v", got, err)
	}
	e.fail(func(w http.ResponseWriter, r *http.Request) bool {
		refuse := strings.HasSuffix(r.URL.Path, "/keys")
		if refuse {
			w.WriteHeader(http.StatusForbidden)
		}
		return refuse
	})
	e.clock.now = e.clock.now.Add(20 * time.Minute)
	for range 5 {
		resp, err := client.GetCredentials(t.Context(), &platformv1.GetCredentialsRequest{Identity: id, Registry: "ghcr.io/x"})
		if err != nil || resp.GetCredentials() != nil || !strings.Contains(resp.GetWithheld(), "does not allow") {
			t.Errorf("keys that are refused: %v, %v", resp, err)
		}
		e.clock.now = e.clock.now.Add(2 * time.Minute)
	}
	if n := e.times("/pairing"); n != 1 {
		t.Errorf("paired %d times", n)
	}

	no, err := platform.New(platform.Deps{DB: db, Endpoint: endpoint, Now: e.clock.Now, Foreign: federation.Trusted{Endpoints: []string{e.url}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = no.Authorize(t.Context(), &platformv1.AuthorizeRequest{AccessToken: "x", Endpoint: e.url})
	wantError(t, "without a master key", err, fault.Unsupported)
}

// TestRunState checks which states keep image names of a run valid.
func TestRunState(t *testing.T) {
	t.Parallel()
	e := newOtherPlatform(t, january())
	client := e.trusting(t, testkit.SQLite(t), newKeys(t), local)
	foreign := must(e.authorize(client, e.tokens["launch"], "", e.ws))(t)
	run := must(e.client.CreateTrace(e.as("launch"), &platformv1.CreateTraceRequest{WorkspaceId: &e.ws, Body: []byte(`{"runName":"r"}`)}))(t).GetWorkflowId()
	for _, step := range []struct {
		name string
		do   func()
		want bool
	}{
		{"SUBMITTED", func() {}, true},
		{"RUNNING", func() {
			must(e.client.BeginTrace(e.as("launch"), &platformv1.BeginTraceRequest{WorkspaceId: &e.ws, WorkflowId: run, Body: []byte(`{"workflow":{}}`)}))(t)
		}, true},
		{"UNKNOWN", func() { e.clock.now = e.clock.now.Add(time.Hour) }, false},
		{"RUNNING again", func() {
			must(e.client.RecordHeartbeat(e.as("launch"), &platformv1.RecordHeartbeatRequest{WorkspaceId: &e.ws, WorkflowId: run, Body: []byte(`{}`)}))(t)
		}, true},
		{"SUCCEEDED", func() {
			must(e.client.CompleteTrace(e.as("launch"), &platformv1.CompleteTraceRequest{WorkspaceId: &e.ws, WorkflowId: run, Body: []byte(`{"workflow":{"success":true}}`)}))(t)
		}, false},
	} {
		step.do()
		for at, ask := range map[platformClient]*platformv1.Identity{client: foreign, e.client: e.identity("launch")} {
			resp, err := at.GetRunState(t.Context(), &platformv1.GetRunStateRequest{Identity: ask, WorkflowId: run})
			if err != nil || resp.GetLive() != step.want {
				t.Errorf("%s: %v, %v", step.name, resp.GetLive(), err)
			}
		}
	}
	other := must(e.client.CreateTrace(e.as("launch"), &platformv1.CreateTraceRequest{Body: []byte(`{"runName":"mine"}`)}))(t).GetWorkflowId()
	for name, q := range map[string]*platformv1.GetRunStateRequest{
		"a run that does not exist": {Identity: e.identity("launch"), WorkflowId: "none"},
		"a malformed id":            {Identity: e.identity("launch"), WorkflowId: "../user-info"},
		"no run":                    {Identity: e.identity("launch")},
		"a stranger":                {Identity: e.identity("stranger"), WorkflowId: run},
		"a run of another space":    {Identity: e.identity("launch"), WorkflowId: other},
		"an untrusted platform":     {Identity: &platformv1.Identity{Endpoint: "https://evil.example", UserId: 1}, WorkflowId: run},
	} {
		if resp, err := e.client.GetRunState(t.Context(), q); err != nil || resp.GetLive() {
			t.Errorf("%s: %v, %v", name, resp.GetLive(), err)
		}
	}
}
