package credentials

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// TestAttackShadowedKeys checks that keys whose names differ in case from those of the login do
// not replace the login, neither when the record is created nor when the password is changed.
func TestAttackShadowedKeys(t *testing.T) {
	t.Parallel()
	c, secret := record{}, []byte("{}")
	for _, keys := range []map[string]any{
		{"userName": "team-bot", "password": "p1", "registry": "quay.io/team", "username": "mallory", "pa\u017fsword": "hers", "USERNAME": "mallory", "Password": "hers"},
		{"userName": "team-bot", "password": "p2", "registry": "quay.io/team"},
	} {
		var err error
		if secret, err = c.apply(spec(t, keys), secret); err != nil {
			t.Fatal(err)
		}
		got, err := parseLogin(secret)
		if err != nil || got.UserName != keys["userName"] || got.Password != keys["password"] {
			t.Errorf("got login %q with password %q (%v)", got.UserName, got.Password, err)
		}
		if !strings.Contains(c.publicKeys, `"team-bot"`) {
			t.Errorf("got public keys %s", c.publicKeys)
		}
	}
}

// TestAttackRegistryOfLogin checks that a login is not sent to another registry by a user who
// may change it but does not know its password.
func TestAttackRegistryOfLogin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change map[string]any
		isOK   bool
	}{
		{map[string]any{"registry": "evil.example"}, false},
		{map[string]any{"registry": "evil.example", "userName": "mallory"}, false},
		{map[string]any{"registry": "evil.example", "password": nil}, false},
		{map[string]any{"registry": "registry.example", "password": "hers"}, true},
		{map[string]any{"registry": "quay.io/team"}, true},
		{map[string]any{"userName": "other-bot"}, true},
	} {
		r := record{}
		secret, err := r.apply(spec(t, map[string]any{"userName": "team-bot", "password": "p1", "registry": "quay.io/team"}), []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.apply(spec(t, c.change), secret); (err == nil) != c.isOK {
			t.Errorf("%v: %v", c.change, err)
		}
	}
}

func spec(t *testing.T, keys map[string]any) *platformv1.CredentialsSpec {
	t.Helper()
	input, err := structpb.NewStruct(keys)
	if err != nil {
		t.Fatal(err)
	}
	return &platformv1.CredentialsSpec{Name: proto.String("bot"), Keys: input}
}
