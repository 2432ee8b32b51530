package rpc

import "context"

// A Scope is a permission that a call requires of an access token. Tokens without scopes have
// all rights of their user.
type Scope string

// The scopes that tokens can have (gateway/contract/platform.md#scopes).
const (
	// ScopePull reads images that the user has requested or may pull: fresh names, downloads,
	// descriptions and inspections.
	ScopePull Scope = "pull"
	// ScopeRequest requests containers that need no build, solves and searches Conda packages,
	// and revokes names.
	ScopeRequest Scope = "request"
	// ScopeBuild requests containers that are built, and lists builds.
	ScopeBuild Scope = "build"
	// ScopeFreeze pushes images to repositories with the user's logins.
	ScopeFreeze Scope = "freeze"
	// ScopeRuns reads and reports workflow runs.
	ScopeRuns Scope = "runs"
	// ScopeCredentials reads credentials.
	ScopeCredentials Scope = "credentials:read"
	// ScopeAdmin makes all other calls of the user: tokens, organisations, workspaces, changes of
	// credentials and, for administrators, users, the audit trail and counts.
	ScopeAdmin Scope = "admin"
)

// ScopeAny marks calls that need no scope. Tokens cannot have it.
const ScopeAny Scope = "any"

// Scopes returns the scopes that tokens can have.
func Scopes() []Scope {
	return []Scope{ScopePull, ScopeRequest, ScopeBuild, ScopeFreeze, ScopeRuns, ScopeCredentials, ScopeAdmin}
}

type scopeKey struct{}

// WithScope returns a context for a call that needs a scope. Servers call it with the scope of
// the call's rule.
func WithScope(ctx context.Context, s Scope) context.Context {
	return context.WithValue(ctx, scopeKey{}, s)
}

// ScopeFrom returns the scope that the call of ctx needs. It returns "" if the call's rule has
// none; such a call rejects tokens with scopes.
func ScopeFrom(ctx context.Context) Scope {
	s, _ := ctx.Value(scopeKey{}).(Scope)
	return s
}
