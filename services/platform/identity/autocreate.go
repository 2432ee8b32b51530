package identity

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/audit"
)

// nameAttempts is the number of names that createSignedIn tries for a user.
const nameAttempts = 20

// creates reports whether the first sign-in with a verified address creates a user.
func (p *provider) creates(email string) bool {
	_, domain, ok := cutLast(lowerASCII(email), "@")
	return ok && slices.ContainsFunc(p.AutoCreate, func(allowed string) bool {
		return lowerASCII(allowed) == domain && allowed != byGroup && allowed != byInvitation
	})
}

// cutLast cuts s around the last instance of sep.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// createSignedIn creates a user with the verified address of a token; if invitedOnly is set, only
// with a role of an invitation. It returns fault.NotFound if several users have the address, if the
// invitation has just been revoked, or if all tried names are taken.
func (s *Service) createSignedIn(ctx context.Context, token *oidc.IDToken, email string, invitedOnly bool) (User, error) {
	ctx = withProvider(ctx, token)
	name := nameFor(email)
	for n := range nameAttempts {
		a := Account{Name: name, Email: email}
		if n > 0 {
			a.Name += strconv.Itoa(n + 1)
		}
		if _, err := s.createUser(ctx, a, invitedOnly); err != nil && !isConflict(err) {
			return User{}, fmt.Errorf("creating the user of a sign-in: %w", err)
		}
		// A concurrent sign-in may have created the user.
		if u, err := s.store.userWithEmail(ctx, email); err == nil {
			return u, nil
		}
	}
	return User{}, fault.NotFound.Newf("No user name for the address is free")
}

// withProvider returns a context in which the sign-in provider is the actor of changes.
func withProvider(ctx context.Context, token *oidc.IDToken) context.Context {
	return audit.WithActor(ctx, audit.Actor{Name: "oidc:" + token.Issuer})
}

// isConflict reports whether a name or an address is taken.
func isConflict(err error) bool {
	e, ok := fault.As(err)
	return ok && e.Kind == fault.Conflict
}

// nameFor returns a user name made from the local part of an address.
func nameFor(email string) string {
	local, _, _ := cutLast(lowerASCII(email), "@")
	words := strings.FieldsFunc(local, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	name := strings.Join(words, ".")
	if name == "" {
		return "user"
	}
	return strings.Trim(name[:min(len(name), 36)], ".")
}
