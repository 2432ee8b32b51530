package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// slipwayd runs the program.
func slipwayd(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := command()
	cmd.SetOut(&out)
	cmd.SetArgs(append(args, "--data-dir", dir))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"
	if err := os.WriteFile(filepath.Join(dir, "master-key"), []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := slipwayd(t, dir, "user", "list"); err == nil || !strings.Contains(err.Error(), "no database at "+filepath.Join(dir, "slipway.db")) {
		t.Errorf("without a database: %v", err)
	}
	if _, err := slipwayd(t, dir, "migrate"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want string // of the output, or of the error after a "!"
	}{
		{"user create --name ada --email ada@example.org", "ada has the id"},
		{"user create --name ada --email other@example.org", "!already"},
		{"user create --name Ada! --email a@b.c", "!lower-case letters"},
		{"user create --name bob --email nonsense", "!e-mail"},
		{"user list", "ada@example.org"},
		{"token create --user ada", "eyJ0aWQi"},
		{"token create --user ada", "!already"},
		{"token create --user ada@example.org --name two --expires-in 1h", "eyJ0aWQi"},
		{"token create --user ada --name three-scopes --scope pull,request --scope build", "eyJ0aWQi"},
		{"token create --user ada --name odd --scope all", "!scopes must be some of pull, request"},
		{"token create --user nobody", "!No such user"},
		{"user disable --name ada", "is disabled"},
		{"user list", "disabled"},
		{"token create --user ada --name three", "!slipwayd user enable --name ada"},
		{"user enable --name ada@example.org", "is enabled"},
		{"token create --user ada --name three", "eyJ0aWQi"},
		{"user unlink --name ada", "ada is unlinked"},
		{"user unlink --name nobody", "!No such user"},
		{"user create --name bob --email bob@example.org", "bob has the id"},
		{"user grant bob owner", "!the only role is admin"},
		{"user grant nobody admin", "!No such user"},
		{"user grant bob admin", "bob is an administrator"},
		{"user list", "admin"},
		{"user revoke bob admin", "!last administrator"},
		{"user disable --name bob", "!last administrator"},
		{"user grant ada admin", "ada is an administrator"},
		{"user revoke bob admin", "bob is not an administrator"},
		{"audit verify", "intact up to the event "},
		{"audit verify --known 1:00", "!event 1 differs from the known event"},
		{"audit verify --known nonsense", "!NUMBER:HASH"},
		{"token create --user bob --name forever --expires-in 0", "eyJ0aWQi"},
		{"token create --user bob --name capped --expires-in 91d --token-max-lifetime 2160h", "!at most 90 days"},
		{"token create --user bob --name capped --expires-in 0 --token-max-lifetime 2160h", "!at most 90 days"},
		{"token create --user bob --name capped --token-max-lifetime 24h", "eyJ0aWQi"},
		{"token create --user bob", "eyJ0aWQi"},
		{"user delete --name bob", "is deleted"},
		{"user delete --name bob", "!No such user"},
		{"user disable", "!required flag"},
		{"token revoke --user ada", ""},
		{"token create --user ada", "eyJ0aWQi"},
		{"workers list", "LAST SEEN"},
		{"workers revoke nobody", "!slipwayd workers list"},
		{"workers revoke", "!accepts 1 arg"},
		{"keys check", "can be decrypted"},
		{"keys rotate", "0 data keys"},
		{"keys rotate --rewrap-only", "0 data keys"},
	} {
		out, err := slipwayd(t, dir, strings.Fields(c.args)...)
		want, fails := strings.CutPrefix(c.want, "!")
		if fails && err != nil {
			out, err = err.Error(), nil
		} else if fails {
			t.Errorf("%s went well", c.args)
		}
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %q, %v; want %q", c.args, out, err, want)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "master-key")); err != nil || strings.Count(string(raw), "\n") != 2 || !strings.HasSuffix(string(raw), key) {
		t.Errorf("the keys are %q, %v", raw, err)
	}
	if err := os.Remove(filepath.Join(dir, "master-key")); err != nil {
		t.Fatal(err)
	}
	if _, err := slipwayd(t, dir, "keys", "check"); err == nil || !strings.Contains(err.Error(), "master_key_file") {
		t.Errorf("without a key: %v", err)
	}
}
