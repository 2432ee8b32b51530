package platform_test

import (
	"encoding/base64"
	"errors"
	"testing"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform/identity"
)

const endpoint = "https://platform.example.org"

func TestFirstToken(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		s, client := serve(t, db)
		admin := identity.Admin{Email: "ada@example.org"}
		token, err := s.EnsureAdmin(t.Context(), admin)
		if err != nil || token == "" {
			t.Fatalf("the first start returned %q, %v", token, err)
		}
		if again, err := s.EnsureAdmin(t.Context(), admin); err != nil || again != "" {
			t.Errorf("the second start returned %q, %v", again, err)
		}
		resp, err := client.Authorize(t.Context(), &platformv1.AuthorizeRequest{AccessToken: token})
		if id := resp.GetIdentity(); err != nil || id.GetUserId() != 1 || id.GetEmail() != "ada@example.org" || id.GetEndpoint() != endpoint || !resp.GetAdministrator() {
			t.Errorf("got identity %v, %v", resp, err)
		}
		var leaked int
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM platform_tokens WHERE secret_hash = $1`, []byte(token)).Scan(&leaked); err != nil || leaked != 0 {
			t.Errorf("the token itself is stored: %v", err)
		}
	})
}

func TestConfiguredToken(t *testing.T) {
	t.Parallel()
	s, client := serve(t, testkit.SQLite(t))
	make := func(secret string) string {
		return base64.StdEncoding.EncodeToString([]byte(`{"tid":1}.` + secret))
	}
	old, replaced := make("0123456789abcdef0123456789abcdef01234567"), make("76543210fedcba9876543210fedcba9876543210")
	for _, token := range []string{old, replaced} {
		if made, err := s.EnsureAdmin(t.Context(), identity.Admin{Email: "a@b.c", Token: token}); err != nil || made != "" {
			t.Fatalf("EnsureAdmin returned %q, %v", made, err)
		}
	}
	for name, token := range map[string]string{
		"replaced": old, "wrong secret": make("0000000000000000000000000000000000000000"), "short secret": make("00"),
		"no base64": "%%%", "empty": "", "unknown id": base64.StdEncoding.EncodeToString([]byte(`{"tid":7}.0123456789abcdef0123456789abcdef01234567`)),
	} {
		if _, err := client.Authorize(t.Context(), &platformv1.AuthorizeRequest{AccessToken: token}); !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := client.Authorize(t.Context(), &platformv1.AuthorizeRequest{AccessToken: replaced}); err != nil {
		t.Errorf("the configured token: %v", err)
	}
	if _, err := client.Authorize(t.Context(), &platformv1.AuthorizeRequest{AccessToken: replaced, WorkspaceId: 5}); !errors.Is(err, fault.Denied) {
		t.Errorf("a workspace that does not exist: %v", err)
	}
	if _, err := s.EnsureAdmin(t.Context(), identity.Admin{Email: "a@b.c", Token: "nonsense"}); err == nil {
		t.Error("a malformed token was accepted")
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	s, client := serve(t, testkit.SQLite(t))
	must(s.EnsureAdmin(t.Context(), identity.Admin{Email: "ada@example.org"}))(t)
	for _, c := range []struct {
		name     string
		id       *platformv1.Identity
		registry string
		want     string
		kind     error
	}{
		{"own", &platformv1.Identity{Endpoint: endpoint, UserId: 1}, "quay.io", "secret", nil},
		{"no credentials", &platformv1.Identity{Endpoint: endpoint, UserId: 1}, "ghcr.io", "", nil},
		{"another user", &platformv1.Identity{Endpoint: endpoint, UserId: 2}, "quay.io", "", fault.Denied},
		{"another platform", &platformv1.Identity{Endpoint: "https://elsewhere", UserId: 1}, "quay.io", "", fault.Denied},
		{"another workspace", &platformv1.Identity{Endpoint: endpoint, UserId: 1, WorkspaceId: 3}, "quay.io", "", fault.Denied},
		{"no identity", nil, "quay.io", "", fault.Denied},
	} {
		resp, err := client.GetCredentials(t.Context(), &platformv1.GetCredentialsRequest{Identity: c.id, Registry: c.registry})
		if !errors.Is(err, c.kind) || resp.GetCredentials().GetPassword() != c.want {
			t.Errorf("%s: %v, %v", c.name, resp, err)
		}
	}
}
