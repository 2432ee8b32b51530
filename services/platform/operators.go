package platform

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"slipway.dev/services/internal/fault"
)

// operators are the accounts of an htpasswd file, name to bcrypt hash. nil means
// that operator calls are switched off.
type operators map[string]string

func readOperators(path string) (operators, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("operator_accounts_file: %w", err)
	}
	ops := operators{}
	for line := range strings.Lines(string(raw)) {
		name, hash, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		if _, err := bcrypt.Cost([]byte(hash)); err != nil {
			return nil, fmt.Errorf("operator_accounts_file %s: the hash of %s is not bcrypt (htpasswd -B)", path, name)
		}
		ops[name] = hash
	}
	return ops, nil
}

// check answers the operator of an HTTP basic login.
func (o operators) check(authorization string) (string, error) {
	if o == nil {
		return "", fault.NotFound.Newf("Operator calls are switched off")
	}
	value, isBasic := strings.CutPrefix(authorization, "Basic ")
	raw, err := base64.StdEncoding.DecodeString(value)
	name, password, ok := strings.Cut(string(raw), ":")
	if !isBasic || err != nil || !ok {
		return "", fault.Unauthenticated.New("This call needs an operator's name and password (HTTP basic)", err)
	}
	hash, known := o[name]
	if !known {
		hash = "$2a$10$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW" // nobody's: as slow as somebody's
	}
	if err := bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)); err != nil || !known {
		return "", fault.Unauthenticated.New("The operator's name or password is wrong", err)
	}
	return name, nil
}
