package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Roles grants users the roles of their groups at the provider.
type Roles interface {
	// Maps reports whether any of the groups has a role here.
	Maps(groups []string) bool
	// IsAdministrator reports whether one of the groups grants the role of administrator.
	IsAdministrator(groups []string) bool
	// Apply grants a user the roles of the groups in organisations and workspaces, and revokes
	// roles that other groups have granted. Roles that users have granted stay.
	Apply(ctx context.Context, u User, groups []string) error
}

// FollowGroups enables granting users the roles of their groups at every sign-in with the
// provider. It must be called before the service is used.
func (s *Service) FollowGroups(r Roles) { s.roles = r }

// byGroup is the entry of AutoCreate that creates users who are in a group with a role.
const byGroup = "groups"

// A signedIn is a verified sign-in at the provider.
type signedIn struct {
	*oidc.IDToken
	// groups are the user's groups, if hasGroups is true. Otherwise the provider did not report groups.
	groups    []string
	hasGroups bool
}

// readGroups reads the user's groups from the ID token or, if it has no such claim, from the
// provider's UserInfo endpoint. If neither contains the claim, the user has no groups. ok is
// false if the provider sends only a reference to the groups, because they are too many for a
// token.
func (s *Service) readGroups(ctx context.Context, found *oidc.Provider, tokens *oauth2.Token, token *oidc.IDToken) (groups []string, ok bool, err error) {
	if s.oidc.GroupsClaim == "" {
		return nil, false, nil
	}
	var claims map[string]json.RawMessage
	if err := token.Claims(&claims); err != nil {
		return nil, false, errUnproven(err)
	}
	if _, there := claims[s.oidc.GroupsClaim]; !there && found.UserInfoEndpoint() != "" && !refersTo(claims, s.oidc.GroupsClaim) {
		info, err := found.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
		if err != nil {
			return nil, false, s.oidc.unavailable(errors.New("reading the user's groups"))
		}
		if info.Subject != token.Subject {
			return nil, false, errUnproven(errors.New("the UserInfo endpoint describes another user"))
		}
		if err := info.Claims(&claims); err != nil {
			return nil, false, errUnproven(err)
		}
	}
	if refersTo(claims, s.oidc.GroupsClaim) {
		s.deps.Log.WarnContext(ctx, "The sign-in provider left the groups of a user out, since there are too many; the user's roles stay as they were. "+
			"Have the provider send only the groups of this application", "subject", token.Subject)
		return nil, false, nil
	}
	groups, err = groupNames(claims[s.oidc.GroupsClaim])
	return groups, err == nil, err
}

// refersTo reports whether the claims contain only a reference to a claim (OpenID Connect Core
// 1.0, 5.6.2).
func refersTo(claims map[string]json.RawMessage, claim string) bool {
	var names map[string]json.RawMessage
	return json.Unmarshal(claims["_claim_names"], &names) == nil && names[claim] != nil
}

// groupNames reads a claim: a list of names, one name, or nothing.
func groupNames(raw json.RawMessage) ([]string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fault.Denied.New("The sign-in provider sent groups that are not a list of names; an operator can set another oidc_groups_claim", err)
	}
	if len(list) > limits.SignInGroups {
		return nil, fault.Denied.Newf("The sign-in provider sent more than %d groups; an operator can have it send only those of this application", limits.SignInGroups)
	}
	return list, nil
}

// applyGroups grants a user the roles of the user's groups. The audit trail records the
// provider as the actor.
func (s *Service) applyGroups(ctx context.Context, u User, in signedIn) error {
	if !in.hasGroups || s.roles == nil {
		return nil
	}
	ctx = withProvider(ctx, in.IDToken)
	if err := s.store.administrateByGroup(ctx, u, s.roles.IsAdministrator(in.groups)); err != nil {
		return fmt.Errorf("writing whether user %d is an administrator: %w", u.ID, err)
	}
	return s.roles.Apply(ctx, u, in.groups)
}

// createsByGroup reports whether the first sign-in of a user in some groups creates the user.
func (s *Service) createsByGroup(groups []string) bool {
	return slices.Contains(s.oidc.AutoCreate, byGroup) && s.roles != nil && s.roles.Maps(groups)
}
