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
		input, err := structpb.NewStruct(keys)
		if err != nil {
			t.Fatal(err)
		}
		if secret, err = c.apply(&platformv1.CredentialsSpec{Name: proto.String("bot"), Keys: input}, secret); err != nil {
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
