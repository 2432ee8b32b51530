package credentials

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// TestAttackShadowedKeys: keys whose names differ in case from those of the login are not the login,
// neither at first nor when somebody else changes the password.
func TestAttackShadowedKeys(t *testing.T) {
	t.Parallel()
	c, secret := record{}, []byte("{}")
	for _, keys := range []map[string]any{
		{"userName": "team-bot", "password": "p1", "registry": "quay.io/team", "username": "mallory", "pa\u017fsword": "hers", "USERNAME": "mallory", "Password": "hers"},
		{"userName": "team-bot", "password": "p2", "registry": "quay.io/team"},
	} {
		given, err := structpb.NewStruct(keys)
		if err != nil {
			t.Fatal(err)
		}
		if secret, err = c.change(&platformv1.CredentialsSpec{Name: proto.String("bot"), Keys: given}, secret); err != nil {
			t.Fatal(err)
		}
		got, err := loginIn(secret)
		if err != nil || got.UserName != keys["userName"] || got.Password != keys["password"] {
			t.Errorf("the login is %q's with %q (%v)", got.UserName, got.Password, err)
		}
		if !strings.Contains(c.publicKeys, `"team-bot"`) {
			t.Errorf("shown is %s", c.publicKeys)
		}
	}
}
