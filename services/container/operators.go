package container

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/rpc"
)

// operators are the accounts of an htpasswd file: name to bcrypt hash. nil means
// that operator calls are switched off.
type operators map[string][]byte

func readOperators(path string) (operators, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading operator accounts: %w", err)
	}
	defer f.Close()
	ops := operators{}
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
		ops[name] = []byte(hash)
	}
	return ops, lines.Err()
}

// nobody is a hash that no password has, compared with when the name is unknown
// so that names cannot be told by the time it takes.
var nobody = []byte("$2a$10$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW")

// check lets operators pass, by the HTTP basic login of the call.
func (o operators) check(ctx context.Context) error {
	if o == nil {
		return fault.NotFound.Newf("Operator calls are switched off")
	}
	name, password, ok := basicLogin(rpc.CallFrom(ctx).Authorization)
	if !ok {
		return fault.Unauthenticated.Newf("This call needs an operator's name and password (HTTP basic)")
	}
	hash, known := o[name]
	if !known {
		hash = nobody
	}
	if err := bcrypt.CompareHashAndPassword(hash, []byte(password)); err != nil || !known {
		return fault.Unauthenticated.New("The operator's name or password is wrong", errors.Join(err))
	}
	return nil
}

func basicLogin(header string) (name, password string, ok bool) {
	scheme, value, _ := strings.Cut(header, " ")
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value))
	if !strings.EqualFold(scheme, "Basic") || err != nil {
		return "", "", false
	}
	return strings.Cut(string(raw), ":")
}
