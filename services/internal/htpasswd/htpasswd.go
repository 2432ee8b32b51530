// Package htpasswd authenticates calls with the accounts in an htpasswd file: names and
// bcrypt hashes, as written by `htpasswd -B`. The file is read once. Failed logins are
// limited per client and per name.
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

// A File is an htpasswd file, with the names that messages use for its accounts.
type File struct {
	// Path is the path of the file. If "", the calls are disabled.
	Path string
	// Calls are the calls that need an account, e.g. "Operator calls".
	Calls string
	// Account describes one account, e.g. "an operator".
	Account string
	// Now is the clock. If nil, time.Now is used.
	Now func() time.Time
}

// Accounts are the accounts of a file. They are safe for concurrent use.
type Accounts struct {
	file   File
	hashes map[string][]byte // by name
	names  []string          // sorted
	key    []byte            // for digest

	// comparing is a semaphore for bcrypt comparisons, which are slow by design.
	comparing chan struct{}
	waiting   atomic.Int32

	mu sync.Mutex
	// verified holds the digest of the last valid login of each name, so that bcrypt is not
	// needed for every call.
	verified map[string][]byte
	failed   attempts
}

// Read reads the accounts of a file. It returns an error if a line is invalid.
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
		comparing: make(chan struct{}, 1), verified: map[string][]byte{}, failed: attempts{},
	}
}

// parse parses lines of the form name:hash. Empty lines and comments (#) are ignored.
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

// Check returns the name of the account in an Authorization header (HTTP basic). client
// identifies the client for the limit of failures. Check returns fault.NotFound if the
// calls are disabled, fault.Unauthenticated if the login is invalid, and fault.Exhausted
// after too many failures.
func (a *Accounts) Check(ctx context.Context, client, authorization string) (name string, err error) {
	if a.file.Path == "" {
		return "", fault.NotFound.Newf("%s are disabled", a.file.Calls)
	}
	name, password, ok := basicLogin(authorization)
	if !ok || len(name) > limits.LoginName || len(password) > limits.LoginPassword {
		return "", fault.Unauthenticated.Newf("This call needs the name and password of %s (HTTP basic)", a.file.Account)
	}
	login := a.digest("login", name, password)
	if a.isVerified(name, login) {
		return name, nil
	}
	if err := a.compare(ctx, client, name, password); err != nil {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.verified[name] = login
	return name, nil
}

// compare compares a password with the account's hash, one at a time. An unknown name is
// compared with the hash of another account, so that response times do not disclose which
// names exist.
func (a *Accounts) compare(ctx context.Context, client, name, password string) error {
	if len(a.names) == 0 {
		return a.errInvalidLogin(nil)
	}
	counters := []counter{{string(a.digest("client", client)), limits.LoginsClient}, {string(a.digest("name", name)), limits.LoginsName}}
	a.mu.Lock()
	wait := a.failed.take(counters, a.file.Now())
	a.mu.Unlock()
	if wait > 0 {
		return fault.Exhausted.Newf("Too many logins have failed; try again in %s", wait.Round(time.Second)).After(wait)
	}
	refund := func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.failed.refund(counters)
	}
	leave, err := a.enter(ctx)
	if err != nil {
		refund()
		return err
	}
	defer leave()
	hash, known := a.hashes[name]
	if !known {
		hash = a.hashes[a.names[int(a.digest("unknown", name)[0])%len(a.names)]]
	}
	if err := bcrypt.CompareHashAndPassword(hash, []byte(password)); err != nil || !known {
		return a.errInvalidLogin(err)
	}
	refund()
	return nil
}

func (a *Accounts) errInvalidLogin(cause error) error {
	return fault.Unauthenticated.New("The name or password of "+a.file.Account+" is wrong", cause)
}

// enter waits until no other comparison is running. It fails if too many callers wait.
func (a *Accounts) enter(ctx context.Context) (leave func(), err error) {
	defer a.waiting.Add(-1)
	if a.waiting.Add(1) > limits.LoginsWaiting {
		return nil, fault.Exhausted.Newf("Too many logins are being checked; try again in a second").After(time.Second)
	}
	select {
	case a.comparing <- struct{}{}:
		return func() { <-a.comparing }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// digest returns a keyed hash of values that a client sent, to store them with a fixed
// length.
func (a *Accounts) digest(kind string, parts ...string) []byte {
	mac := hmac.New(sha256.New, a.key)
	for _, p := range append([]string{kind}, parts...) {
		_, _ = fmt.Fprintf(mac, "%d:%s", len(p), p)
	}
	return mac.Sum(nil)
}

func (a *Accounts) isVerified(name string, login []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return hmac.Equal(a.verified[name], login)
}

func basicLogin(header string) (name, password string, ok bool) {
	scheme, value, _ := strings.Cut(header, " ")
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value))
	if !strings.EqualFold(scheme, "Basic") || err != nil {
		return "", "", false
	}
	return strings.Cut(string(raw), ":")
}
