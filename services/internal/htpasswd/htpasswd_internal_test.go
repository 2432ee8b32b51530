package htpasswd

import (
	"encoding/base64"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

// nobody is a hash that no password has.
const nobody = "$2a$10$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"

// FuzzParse holds that what is read as an account is one.
func FuzzParse(f *testing.F) {
	f.Add("# those\n\nada:" + nobody + "\r\n eve:" + nobody)
	f.Add("ada:x\n")
	f.Add(":" + nobody)
	f.Fuzz(func(t *testing.T, text string) {
		hashes, err := parse(text)
		if err != nil && hashes != nil {
			t.Error("a file is read whole or not at all")
		}
		for name, hash := range hashes {
			_, err := bcrypt.Cost(hash)
			if err != nil || name == "" || strings.HasPrefix(name, "#") || !strings.Contains(text, name+":"+string(hash)) {
				t.Errorf("%q with the hash %q: %v", name, hash, err)
			}
		}
	})
}

// FuzzBasicLogin holds that what is read as a login is one that can be sent.
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

func TestBcryptIsAskedOnce(t *testing.T) {
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
	a.hashes["ada"] = []byte(nobody) // bcrypt would refuse everything
	if _, err := a.Check(t.Context(), "ip:192.0.2.1", right); err != nil {
		t.Errorf("what has passed is not remembered: %v", err)
	}
	if _, err := a.Check(t.Context(), "ip:192.0.2.1", wrong); err == nil {
		t.Error("another password passed")
	}
}
