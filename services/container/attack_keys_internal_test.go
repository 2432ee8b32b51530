package container

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container/store"
	"slipway.dev/services/container/tokens"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// A recordingBus records published messages.
type recordingBus struct {
	mu    sync.Mutex
	heard [][]byte
}

func (b *recordingBus) Publish(_ string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heard = append(b.heard, data)
	return nil
}

func newKept(t *testing.T, db *sqldb.DB) (*Service, *recordingBus) {
	t.Helper()
	if err := db.Migrate(t.Context(), "container", Migrations()); err != nil {
		t.Fatal(err)
	}
	bus, client := &recordingBus{}, testkit.Redis(t)
	return &Service{
		deps:  Deps{DB: db, Redis: client, Bus: bus, Log: testkit.Log(t), Now: time.Now, Settings: Settings{TokenTTL: 36 * time.Hour}},
		store: store.New(db), tokens: tokens.NewCache(client, testkit.Log(t), 0),
	}, bus
}

// everything returns the content of the tables and Redis about requests.
func (s *Service) everything(t *testing.T) []byte {
	t.Helper()
	var all bytes.Buffer
	for _, query := range []string{`SELECT id, request, plan FROM container_requests`, `SELECT request_id, NULL, NULL FROM container_digests`} {
		rows, err := s.deps.DB.QueryContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			var request, plan []byte
			if err := rows.Scan(&id, &request, &plan); err != nil {
				t.Fatal(err)
			}
			all.WriteString(id)
			all.Write(request)
			all.Write(plan)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range s.deps.Redis.Keys(t.Context(), "*").Val() {
		all.WriteString(key)
		for field, value := range s.deps.Redis.HGetAll(t.Context(), key).Val() {
			all.WriteString(field + value)
		}
	}
	return all.Bytes()
}

// TestNoTokenIsKept checks that the database, Redis and the bus contain no token, and that
// what they contain cannot be used as one.
func TestNoTokenIsKept(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		s, bus := newKept(t, db)
		plan := &containerv1.Plan{Token: tokens.New(), Expiration: s.expiration(), Name: "lib/tool", Identity: &platformv1.Identity{Endpoint: "https://p", UserId: 7}}
		if err := s.persist(t.Context(), &containerv1.ContainerRequest{WorkflowId: "run"}, plan); err != nil {
			t.Fatal(err)
		}
		token := plan.GetToken()
		if _, err := s.RecordDigest(t.Context(), &containerv1.RecordDigestRequest{Token: token, Digest: "sha256:" + strings.Repeat("0", 64)}); err != nil {
			t.Fatal(err)
		}
		for _, fresh := range []bool{false, true} {
			resp, err := s.ResolveToken(t.Context(), &containerv1.ResolveTokenRequest{Token: token, Fresh: fresh})
			if err != nil || resp.GetPlan().GetToken() != token || len(resp.GetPlan().GetDigests()) != 1 {
				t.Errorf("it resolves to %v, %v", resp, err)
			}
			_, err = s.ResolveToken(t.Context(), &containerv1.ResolveTokenRequest{Token: tokens.IDOf(token), Fresh: fresh})
			if !errors.Is(err, fault.NotFound) {
				t.Errorf("its key resolves: %v", err)
			}
		}
		if bytes.Contains(s.everything(t), []byte(token)) {
			t.Error("the token is stored")
		}
		if err := s.revoke(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		if len(bus.heard) != 1 || string(bus.heard[0]) != tokens.IDOf(token) || bytes.Contains(s.everything(t), []byte(token)) {
			t.Errorf("the bus heard %q", bus.heard)
		}
		if _, err := s.live(t.Context(), token); !errors.Is(err, fault.NotFound) {
			t.Errorf("the revoked token: %v", err)
		}
	})
}
