package identity

import (
	"fmt"
	"slices"
	"strings"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/platform/api"
)

// A Restriction limits what an access token may be used for. The zero value represents a token
// with all rights of its user.
type Restriction struct {
	// Scopes are the scopes of the token; empty means all.
	Scopes []rpc.Scope
	// Workspace is the only workspace in which the token works; 0 means all.
	Workspace int64
	// Repositories are the repositories that calls with the token may name; empty means all.
	// caller.ID.CheckRepository enforces them in the services that receive the names.
	Repositories []oci.RepositoryPattern
}

// IsZero reports whether a token has all rights of its user.
func (r Restriction) IsZero() bool {
	return len(r.Scopes) == 0 && r.Workspace == 0 && len(r.Repositories) == 0
}

// Check returns fault.Denied unless a token has all scopes that a call needs. If needs is empty
// or contains "", every restricted token is denied. A token of some repositories neither reads
// logins nor administers: it could get, or give away, the logins for other repositories.
func (r Restriction) Check(needs ...rpc.Scope) error {
	if r.IsZero() {
		return nil
	}
	if len(needs) == 0 || slices.Contains(needs, "") {
		return errScope("Access tokens with scopes, of one workspace or of some repositories cannot make this call; use a token without restrictions")
	}
	for _, need := range needs {
		if len(r.Repositories) > 0 && (need == rpc.ScopeAdmin || need == rpc.ScopeCredentials) {
			return errScope("Access tokens of some repositories cannot administer or read credentials; use a token without repositories")
		}
		if need != rpc.ScopeAny && len(r.Scopes) > 0 && !slices.Contains(r.Scopes, need) {
			return errScope("The access token lacks the scope " + string(need) + "; use a token that has it: `slipway tokens create NAME --scope " + string(need) + "`")
		}
	}
	return nil
}

// In returns the workspace that a call acts in. workspace is the workspace that the call names,
// or 0; a token of one workspace then acts in that workspace. In returns fault.Denied if the
// call names another workspace than the token's.
func (r Restriction) In(workspace int64) (int64, error) {
	switch {
	case r.Workspace == 0 || workspace == r.Workspace:
		return workspace, nil
	case workspace == 0:
		return r.Workspace, nil
	}
	return 0, r.Elsewhere()
}

// Elsewhere returns the fault for a call that a token of one workspace may not make, because it
// does not act in that workspace.
func (r Restriction) Elsewhere() error {
	return errScope("The access token only works in one workspace, and this call acts elsewhere; use another token")
}

func errScope(public string) error {
	return fault.Denied.New(public, nil).WithCode(fault.TokenScope)
}

// checkChild returns fault.Denied for a new token with more rights than the token of the call that
// creates it.
func (r Restriction) checkChild(child Restriction) error {
	if r.IsZero() {
		return nil
	}
	if len(r.Scopes) > 0 && len(child.Scopes) == 0 {
		return errScope("The access token has scopes, so a token that it creates needs scopes; choose some of " + scopesText(r.Scopes))
	}
	if err := r.Check(child.Scopes...); len(child.Scopes) > 0 && err != nil {
		return err
	}
	if r.Workspace != 0 && child.Workspace != r.Workspace {
		return r.Elsewhere()
	}
	if len(r.Repositories) > 0 && len(child.Repositories) == 0 {
		return errScope("The access token is for some repositories, so a token that it creates needs repositories; choose some of " + repositoriesText(r.Repositories))
	}
	for _, p := range child.Repositories {
		if len(r.Repositories) > 0 && !slices.ContainsFunc(r.Repositories, func(own oci.RepositoryPattern) bool { return own.Covers(p) }) {
			return errScope("The access token is not for " + string(p) + ", so neither is a token that it creates; choose some of " + repositoriesText(r.Repositories))
		}
	}
	return nil
}

// readRestriction returns the restriction of a new token to scopes, repositories and a workspace.
func readRestriction(scopes, repositories []string, workspace int64) (Restriction, error) {
	r := Restriction{Workspace: workspace}
	if r.Workspace < 0 {
		return r, fault.Invalid.Newf("workspaceId must not be negative")
	}
	if len(scopes) > limits.TokenScopes {
		return r, fault.Invalid.Newf("scopes must be at most %d", limits.TokenScopes)
	}
	for _, name := range scopes {
		s := rpc.Scope(name)
		if !slices.Contains(rpc.Scopes(), s) {
			return r, fault.Invalid.Newf("scopes must be some of %s", scopesText(rpc.Scopes()))
		}
		if !slices.Contains(r.Scopes, s) {
			r.Scopes = append(r.Scopes, s)
		}
	}
	var err error
	r.Repositories, err = readRepositories(repositories)
	return r, err
}

// readRepositories returns the patterns of a new token, each once.
func readRepositories(list []string) ([]oci.RepositoryPattern, error) {
	if len(list) > limits.TokenRepositories {
		return nil, fault.Invalid.Newf("repositories must be at most %d", limits.TokenRepositories)
	}
	var out []oci.RepositoryPattern
	for i, text := range list {
		p, err := oci.ParseRepositoryPattern(text)
		if err != nil {
			return nil, fault.In(fmt.Sprintf("repositories[%d]", i), err)
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// scopesText returns scopes for a message.
func scopesText(list []rpc.Scope) string { return strings.Join(names(list), ", ") }

func repositoriesText(list []oci.RepositoryPattern) string { return strings.Join(names(list), ", ") }

// names returns scopes or repositories as strings.
func names[T ~string](list []T) []string {
	var out []string
	for _, s := range list {
		out = append(out, string(s))
	}
	return out
}

// stored returns the stored form of scopes or repositories; parseStored parses it.
func stored[T ~string](list []T) string { return strings.Join(names(list), " ") }

func parseStored[T ~string](text string) []T {
	var out []T
	for _, s := range strings.Fields(text) {
		out = append(out, T(s))
	}
	return out
}

// RepositoryNames returns the repositories of a token as strings; empty means all.
func (r Restriction) RepositoryNames() []string { return names(r.Repositories) }

// toProto returns a restriction for a response.
func (r Restriction) toProto() *platformv1.TokenRestriction {
	return &platformv1.TokenRestriction{Scopes: names(r.Scopes), WorkspaceId: api.IDValue(r.Workspace), Repositories: r.RepositoryNames()}
}
