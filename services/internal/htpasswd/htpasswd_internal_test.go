package htpasswd

import (
	"encoding/base64"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

// unmatchedHash is a hash that matches no password.
const unmatchedHash = "$2a$10$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"

// FuzzParse verifies that all parsed accounts are valid and present in the text.
func FuzzParse(f *testing.F) {
	f.Add("# accounts\n\nada:" + unmatchedHash + "\r\n eve:" + unmatchedHash)
	f.Add("ada:x\n")
	f.Add(":" + unmatchedHash)
	f.Fuzz(func(t *testing.T, text string) {
		hashes, err := parse(text)
		if err != nil && hashes != nil {
			t.Error("parse returned accounts together with an error")
		}
		for name, hash := range hashes {
			_, err := bcrypt.Cost(hash)
			if err != nil || name == "" || strings.HasPrefix(name, "#") || !strings.Contains(text, name+":"+string(hash)) {
				t.Errorf("%q with the hash %q: %v", name, hash, err)
			}
		}
	})
}

// FuzzBasicLogin verifies that a parsed login can be encoded and parsed again.
func FuzzBasicLogin(f *testing.F) {
	f.Add("Basic b3BzOnBhc3M6d29yZA==")
	f.Add("basic  b3BzOng=")
	f.Add("Basic !")
	f.Fuzz(func(t *testing.T, header string) {
		name, password, ok := basicLogin(header)
		if !ok {
			return
		}
		again, same, ok := basicLogin("Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password)))
		if !ok || again != name || same != password {
			t.Errorf("%q reads as %q and %q, then as %q and %q", header, name, password, again, same)
		}
	})
}

func TestVerifiedLoginIsCached(t *testing.T) {
	t.Parallel()
	hash, err := bcrypt.GenerateFromPassword([]byte("x"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	a := newAccounts(File{Path: "accounts"}, map[string][]byte{"ada": hash})
	right, wrong := "Basic "+base64.StdEncoding.EncodeToString([]byte("ada:x")), "Basic "+base64.StdEncoding.EncodeToString([]byte("ada:y"))
	if _, err := a.Check(t.Context(), "ip:192.0.2.1", right); err != nil {
		t.Fatal(err)
	}
	a.hashes["ada"] = []byte(unmatchedHash) // a comparison would fail
	if _, err := a.Check(t.Context(), "ip:192.0.2.1", right); err != nil {
		t.Errorf("a verified login was compared again: %v", err)
	}
	if _, err := a.Check(t.Context(), "ip:192.0.2.1", wrong); err == nil {
		t.Error("a wrong password was accepted")
	}
}
