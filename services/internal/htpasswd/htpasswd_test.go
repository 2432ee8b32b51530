package htpasswd_test

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/htpasswd"
)

func write(t testing.TB, text string) htpasswd.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "accounts")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return htpasswd.File{Path: path, Calls: "Operator calls", Account: "an operator"}
}

// hash returns the bcrypt hash of a password.
func hash(t testing.TB, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(h)
}

func basic(login string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(login)) }

func TestCheck(t *testing.T) {
	t.Parallel()
	on, err := htpasswd.Read(write(t, "# operators\r\n\r\n  ops:"+hash(t, "pass:word")+"\r\nada:"+hash(t, "x")))
	if err != nil {
		t.Fatal(err)
	}
	off, err := htpasswd.Read(htpasswd.File{Calls: "Operator calls"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, header, want string
		accounts           *htpasswd.Accounts
		err                error
	}{
		{"right", basic("ops:pass:word"), "ops", on, nil},
		{"right again", basic("ops:pass:word"), "ops", on, nil},
		{"wrong after right", basic("ops:pass:wor"), "", on, fault.Unauthenticated},
		{"the password of another account", basic("ada:pass:word"), "", on, fault.Unauthenticated},
		{"the last line", strings.Replace(basic("ada:x"), "Basic ", "basic  ", 1), "ada", on, nil},
		{"an unknown name", basic("eve:x"), "", on, fault.Unauthenticated},
		{"a comment", basic("# operators:x"), "", on, fault.Unauthenticated},
		{"no name", basic(":x"), "", on, fault.Unauthenticated},
		{"no password", basic("ops"), "", on, fault.Unauthenticated},
		{"no base64", "Basic !", "", on, fault.Unauthenticated},
		{"another scheme", "Bearer x", "", on, fault.Unauthenticated},
		{"empty", "", "", on, fault.Unauthenticated},
		{"switched off", basic("ops:pass:word"), "", off, fault.NotFound},
	} {
		if name, err := c.accounts.Check(t.Context(), "ip:192.0.2.1", c.header); name != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v; want %q, %v", c.name, name, err, c.want, c.err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"ada:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n", "ada\n", ":" + hash(t, "x") + "\n", "ada:" + hash(t, "x") + "\neve:x\n", "ada:$2y$05$x\n",
	} {
		if _, err := htpasswd.Read(write(t, text)); err == nil || !strings.Contains(err.Error(), "bcrypt") {
			t.Errorf("%q: %v", text, err)
		}
	}
	_, err := htpasswd.Read(htpasswd.File{Path: "/nonexistent"})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
