package metrics

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"golang.org/x/crypto/bcrypt"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
)

// accounts are those who may read counts. nil: nobody, reading is switched off.
type accounts struct {
	hashes map[string][]byte // bcrypt, by name

	mu sync.Mutex
	// passed holds what let each name in last, so that bcrypt, which is slow on
	// purpose, is asked once and not for every call.
	passed map[string][sha256.Size]byte
	salt   string
}

// readAccounts reads an htpasswd file; "" answers nil.
func readAccounts(path string) (*accounts, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading metrics accounts: %w", err)
	}
	defer f.Close()
	a := &accounts{hashes: map[string][]byte{}, passed: map[string][sha256.Size]byte{}, salt: rand.Text()}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, hash, ok := strings.Cut(line, ":")
		if _, err := bcrypt.Cost([]byte(hash)); !ok || name == "" || err != nil {
			return nil, fmt.Errorf("%s, line %d: must be name:hash with a bcrypt hash (htpasswd -B)", path, n)
		}
		a.hashes[name] = []byte(hash)
	}
	return a, lines.Err()
}

// nobody is a hash that no password has, compared with when the name is unknown
// so that names cannot be told by the time it takes.
const nobody = "$2a$10$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"

// check lets accounts pass, by the HTTP basic login of the call.
func (a *accounts) check(ctx context.Context) error {
	if a == nil {
		return fault.NotFound.Newf("Metrics are switched off")
	}
	name, password, ok := basicLogin(rpc.CallFrom(ctx).Authorization)
	if !ok {
		return fault.Unauthenticated.Newf("This call needs the name and password of a metrics account (HTTP basic)")
	}
	sum := sha256.Sum256([]byte(a.salt + password))
	if a.knows(name, sum) {
		return nil
	}
	hash, known := a.hashes[name]
	if !known {
		hash = []byte(nobody)
	}
	if err := bcrypt.CompareHashAndPassword(hash, []byte(password)); err != nil || !known {
		return fault.Unauthenticated.New("The name or password of the metrics account is wrong", errors.Join(err))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.passed[name] = sum
	return nil
}

func (a *accounts) knows(name string, sum [sha256.Size]byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, ok := a.passed[name]
	return ok && last == sum
}

func basicLogin(header string) (name, password string, ok bool) {
	scheme, value, _ := strings.Cut(header, " ")
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value))
	if !strings.EqualFold(scheme, "Basic") || err != nil {
		return "", "", false
	}
	return strings.Cut(string(raw), ":")
}
