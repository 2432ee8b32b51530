// Package htpasswd knows the accounts that may make some calls: names and bcrypt
// hashes, from a file that `htpasswd -B` writes. The file is read once.
package htpasswd

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// File is where accounts are, and how messages call them.
type File struct {
	// Path is the file; "" switches the calls off.
	Path string
	// Calls are what the accounts are for, e.g. "Operator calls".
	Calls string
	// Account is what one of them is, e.g. "an operator".
	Account string
	// Now is the clock; nil is the real one.
	Now func() time.Time
}

// Accounts are those who may make the calls. Safe for concurrent use.
type Accounts struct {
	file   File
	hashes map[string][]byte // by name
	names  []string          // in order
	key    []byte            // of what is kept of logins

	// comparing is held while bcrypt, which is slow on purpose, is asked.
	comparing chan struct{}
	waiting   atomic.Int32

	mu sync.Mutex
	// passed holds what let each name in last, so that bcrypt is asked once and not
	// for every call.
	passed map[string][]byte
	failed attempts
}

// Read reads the file, whole or not at all.
func Read(f File) (*Accounts, error) {
	a := newAccounts(f, nil)
	if f.Path == "" {
		return a, nil
	}
	text, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, fmt.Errorf("reading accounts: %w", err)
	}
	hashes, err := parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("reading accounts: %s, %w", f.Path, err)
	}
	return newAccounts(f, hashes), nil
}

func newAccounts(f File, hashes map[string][]byte) *Accounts {
	if f.Now == nil {
		f.Now = time.Now
	}
	return &Accounts{
		file: f, hashes: hashes, names: slices.Sorted(maps.Keys(hashes)), key: []byte(rand.Text()),
		comparing: make(chan struct{}, 1), passed: map[string][]byte{}, failed: attempts{},
	}
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

// Check returns whose login an Authorization header holds (HTTP basic); client is
// who is counted when it is wrong. fault.NotFound where the calls are switched
// off, fault.Unauthenticated where the login is none of an account,
// fault.Exhausted after too many of those.
func (a *Accounts) Check(ctx context.Context, client, authorization string) (name string, err error) {
	if a.file.Path == "" {
		return "", fault.NotFound.Newf("%s are switched off", a.file.Calls)
	}
	name, password, ok := basicLogin(authorization)
	if !ok || len(name) > limits.LoginName || len(password) > limits.LoginPassword {
		return "", fault.Unauthenticated.Newf("This call needs the name and password of %s (HTTP basic)", a.file.Account)
	}
	login := a.digest("login", name, password)
	if a.hasPassed(name, login) {
		return name, nil
	}
	if err := a.compare(ctx, client, name, password); err != nil {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.passed[name] = login
	return name, nil
}

// compare asks bcrypt, one login at a time. An unknown name is compared with some
// account's hash, so that names cannot be told by the time it takes.
func (a *Accounts) compare(ctx context.Context, client, name, password string) error {
	if len(a.names) == 0 {
		return a.wrong(nil)
	}
	counters := []counter{{string(a.digest("client", client)), limits.LoginsClient}, {string(a.digest("name", name)), limits.LoginsName}}
	a.mu.Lock()
	wait := a.failed.take(counters, a.file.Now())
	a.mu.Unlock()
	if wait > 0 {
		return fault.Exhausted.Newf("Too many logins have failed; try again in %s", wait.Round(time.Second)).After(wait)
	}
	giveBack := func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.failed.giveBack(counters)
	}
	leave, err := a.enter(ctx)
	if err != nil {
		giveBack()
		return err
	}
	defer leave()
	hash, known := a.hashes[name]
	if !known {
		hash = a.hashes[a.names[int(a.digest("unknown", name)[0])%len(a.names)]]
	}
	if err := bcrypt.CompareHashAndPassword(hash, []byte(password)); err != nil || !known {
		return a.wrong(err)
	}
	giveBack()
	return nil
}

func (a *Accounts) wrong(cause error) error {
	return fault.Unauthenticated.New("The name or password of "+a.file.Account+" is wrong", cause)
}

// enter waits until no other login is compared; few may wait.
func (a *Accounts) enter(ctx context.Context) (leave func(), err error) {
	defer a.waiting.Add(-1)
	if a.waiting.Add(1) > limits.LoginsWaiting {
		return nil, fault.Exhausted.Newf("Too many logins are checked right now; try again in a second").After(time.Second)
	}
	select {
	case a.comparing <- struct{}{}:
		return func() { <-a.comparing }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// digest is what is kept of something a client sent; its length is fixed.
func (a *Accounts) digest(kind string, parts ...string) []byte {
	mac := hmac.New(sha256.New, a.key)
	for _, p := range append([]string{kind}, parts...) {
		_, _ = fmt.Fprintf(mac, "%d:%s", len(p), p)
	}
	return mac.Sum(nil)
}

func (a *Accounts) hasPassed(name string, login []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return hmac.Equal(a.passed[name], login)
}

func basicLogin(header string) (name, password string, ok bool) {
	scheme, value, _ := strings.Cut(header, " ")
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value))
	if !strings.EqualFold(scheme, "Basic") || err != nil {
		return "", "", false
	}
	return strings.Cut(string(raw), ":")
}
