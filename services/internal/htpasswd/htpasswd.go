// Package htpasswd knows the accounts that may make some calls: names and bcrypt
// hashes, from a file that `htpasswd -B` writes. The file is read once.
package htpasswd

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/crypto/bcrypt"

	"slipway.dev/services/internal/fault"
)

// File is where accounts are, and how messages call them.
type File struct {
	// Path is the file; "" switches the calls off.
	Path string
	// Calls are what the accounts are for, e.g. "Operator calls".
	Calls string
	// Account is what one of them is, e.g. "an operator".
	Account string
}

// Accounts are those who may make the calls. Safe for concurrent use.
type Accounts struct {
	file   File
	hashes map[string][]byte // by name

	mu sync.Mutex
	// passed holds what let each name in last, so that bcrypt, which is slow on
	// purpose, is asked once and not for every call.
	passed map[string][sha256.Size]byte
	salt   string
}

// Read reads the file, whole or not at all.
func Read(f File) (*Accounts, error) {
	a := &Accounts{file: f, passed: map[string][sha256.Size]byte{}, salt: rand.Text()}
	if f.Path == "" {
		return a, nil
	}
	text, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, fmt.Errorf("reading accounts: %w", err)
	}
	if a.hashes, err = parse(string(text)); err != nil {
		return nil, fmt.Errorf("reading accounts: %s, %w", f.Path, err)
	}
	return a, nil
}

// parse reads lines of name:hash. Empty ones and those that begin with # are
// nothing.
func parse(text string) (map[string][]byte, error) {
	hashes, n := map[string][]byte{}, 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, hash, _ := strings.Cut(line, ":")
		if _, err := bcrypt.Cost([]byte(hash)); err != nil || name == "" {
			return nil, fmt.Errorf("line %d: must be name:hash with a bcrypt hash (htpasswd -B)", n)
		}
		hashes[name] = []byte(hash)
	}
	return hashes, nil
}

// nobody is a hash that no password has, compared with when the name is unknown
// so that names cannot be told by the time it takes.
const nobody = "$2a$10$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"

// Check answers whose login an Authorization header holds (HTTP basic).
// fault.NotFound where the calls are switched off, fault.Unauthenticated where the
// login is none of an account.
func (a *Accounts) Check(authorization string) (name string, err error) {
	if a.file.Path == "" {
		return "", fault.NotFound.Newf("%s are switched off", a.file.Calls)
	}
	name, password, ok := basicLogin(authorization)
	if !ok {
		return "", fault.Unauthenticated.Newf("This call needs the name and password of %s (HTTP basic)", a.file.Account)
	}
	sum := sha256.Sum256([]byte(a.salt + password))
	if a.hasPassed(name, sum) {
		return name, nil
	}
	hash, known := a.hashes[name]
	if !known {
		hash = []byte(nobody)
	}
	if err := bcrypt.CompareHashAndPassword(hash, []byte(password)); err != nil || !known {
		return "", fault.Unauthenticated.New("The name or password of "+a.file.Account+" is wrong", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.passed[name] = sum
	return name, nil
}

func (a *Accounts) hasPassed(name string, sum [sha256.Size]byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, ok := a.passed[name]
	return ok && subtle.ConstantTimeCompare(last[:], sum[:]) == 1
}

func basicLogin(header string) (name, password string, ok bool) {
	scheme, value, _ := strings.Cut(header, " ")
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value))
	if !strings.EqualFold(scheme, "Basic") || err != nil {
		return "", "", false
	}
	return strings.Cut(string(raw), ":")
}
