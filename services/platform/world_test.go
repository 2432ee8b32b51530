package platform_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/platform"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/vault"
)

// A clock is a settable clock.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func deps(t *testing.T, db *sqldb.DB) platform.Deps {
	t.Helper()
	keys, err := vault.Open(filepath.Join(t.TempDir(), "master-key"), true)
	if err != nil {
		t.Fatal(err)
	}
	return platform.Deps{
		DB: db, Endpoint: endpoint, Pages: "https://page.example", Now: time.Now, Keys: keys,
		AdminLogins: map[string]upstream.Login{"quay.io": {Username: "ada", Password: "secret"}},
	}
}

// A platformClient is a client of all services of a platform.
type platformClient interface {
	grpc.ClientConnInterface
	platformv1.AccessServiceClient
	platformv1.IdentityServiceClient
	platformv1.OrganizationServiceClient
	platformv1.CredentialServiceClient
	platformv1.RunServiceClient
	platformv1.AuditServiceClient
	platformv1.WebhookServiceClient
	platformv1.LimitServiceClient
	platformv1.VexServiceClient
}

func newClient(conn grpc.ClientConnInterface) platformClient {
	return struct {
		grpc.ClientConnInterface
		platformv1.AccessServiceClient
		platformv1.IdentityServiceClient
		platformv1.OrganizationServiceClient
		platformv1.CredentialServiceClient
		platformv1.RunServiceClient
		platformv1.AuditServiceClient
		platformv1.WebhookServiceClient
		platformv1.LimitServiceClient
		platformv1.VexServiceClient
	}{
		conn, platformv1.NewAccessServiceClient(conn), platformv1.NewIdentityServiceClient(conn), platformv1.NewOrganizationServiceClient(conn),
		platformv1.NewCredentialServiceClient(conn), platformv1.NewRunServiceClient(conn), platformv1.NewAuditServiceClient(conn),
		platformv1.NewWebhookServiceClient(conn),
		platformv1.NewLimitServiceClient(conn), platformv1.NewVexServiceClient(conn),
	}
}

// serve starts a platform and returns it with a gRPC client.
func serve(t *testing.T, db *sqldb.DB) (*platform.Service, platformClient) {
	t.Helper()
	return serveWith(t, deps(t, db))
}

func serveWith(t *testing.T, d platform.Deps) (*platform.Service, platformClient) {
	t.Helper()
	if err := d.DB.Migrate(t.Context(), "platform", platform.Migrations()); err != nil {
		t.Fatal(err)
	}
	s, err := platform.New(d)
	if err != nil {
		t.Fatal(err)
	}
	server := rpc.NewServer(rpc.ServerOptions{Log: testkit.Log(t), Metrics: rpc.NewMetrics(prometheus.NewRegistry())})
	s.Register(server)
	memory := rpc.NewMemory()
	go func() { _ = server.Serve(memory) }()
	conn, err := memory.Dial("container", "gateway")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop(context.Background())
	})
	return s, newClient(conn)
}

// A world is a platform with an organisation, a workspace, and a user of each role.
type world struct {
	t        *testing.T
	service  *platform.Service
	client   platformClient
	clock    *clock
	org, ws  int64
	tokens   map[string]string
	ids      map[string]int64
	partOf   map[string]int64 // participant ids
	memberOf map[string]int64 // member ids
}

// userNames returns the names of the users in descending order of their roles: an owner of the
// organisation, a participant of each role, a member who is no participant, and a user outside
// the organisation.
func userNames() []string {
	return []string{"boss", "owner", "admin", "maintain", "launch", "connect", "view", "member", "stranger"}
}

func newWorld(t *testing.T, db *sqldb.DB) *world {
	t.Helper()
	c := &clock{time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}
	d := deps(t, db)
	d.Now = c.Now
	return newWorldWith(t, d, c)
}

func newWorldWith(t *testing.T, d platform.Deps, c *clock) *world {
	t.Helper()
	w := &world{t: t, clock: c, tokens: map[string]string{}, ids: map[string]int64{}, partOf: map[string]int64{}, memberOf: map[string]int64{}}
	w.service, w.client = serveWith(t, d)
	w.settle("")
	return w
}

// settle creates the users, with a prefix before their names, an organisation and a workspace.
func (w *world) settle(prefix string) {
	w.t.Helper()
	t := w.t
	for _, name := range userNames() {
		a, err := w.service.CreateUser(t.Context(), identity.Account{Name: prefix + name, Email: prefix + name + "@example.org"})
		if err != nil {
			t.Fatal(err)
		}
		w.ids[name] = a.ID
		if w.tokens[name], err = w.service.CreateTokenFor(t.Context(), prefix+name, identity.NewToken{Name: "first"}); err != nil {
			t.Fatal(err)
		}
	}
	boss := w.as("boss")
	o := must(w.client.CreateOrganization(boss, &platformv1.CreateOrganizationRequest{
		Body: &platformv1.CreateOrganizationBody{Organization: &platformv1.OrganizationSpec{Name: new(prefix + "lab")}},
	}))(t)
	w.org = int64(o.GetOrganization().GetOrgId())
	ws := must(w.client.CreateWorkspace(boss, &platformv1.CreateWorkspaceRequest{
		OrgId: w.org, Body: &platformv1.CreateWorkspaceBody{Workspace: &platformv1.WorkspaceSpec{Name: new("bench")}},
	}))(t)
	w.ws = int64(ws.GetWorkspace().GetId())
	for _, name := range userNames()[1:8] {
		m := must(w.client.AddMember(boss, &platformv1.AddMemberRequest{OrgId: w.org, Member: &platformv1.MemberSpec{User: prefix + name}}))(t)
		w.memberOf[name] = int64(m.GetMember().GetMemberId())
		if name == "member" {
			continue
		}
		p := must(w.client.AddParticipant(boss, &platformv1.AddParticipantRequest{
			OrgId: w.org, Id: w.ws, Participant: &platformv1.ParticipantSpec{UserNameOrEmail: prefix + name},
		}))(t)
		w.partOf[name] = int64(p.GetParticipant().GetParticipantId())
		must(w.client.UpdateParticipantRole(boss, &platformv1.UpdateParticipantRoleRequest{
			OrgId: w.org, Id: w.ws, ParticipantId: w.partOf[name], Role: &platformv1.ParticipantRole{Role: name},
		}))(t)
	}
}

// as returns a context with a user's access token.
func (w *world) as(name string) context.Context { return bearer(w.t.Context(), w.tokens[name]) }

func bearer(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// must returns v and fails the test on an error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// members decodes the document of a run or a task.
func members(t *testing.T, d *platformv1.Document) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal(d.GetJson(), &o); err != nil {
		t.Fatalf("%s: %v", d.GetJson(), err)
	}
	return o
}

// wantError fails the test unless err is of a kind; a nil kind means no error.
func wantError(t *testing.T, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: %v, want %v", what, err, kind)
	}
}
