package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/orgs"
)

// UsedBy is the least role whose images are pulled and pushed with a
// workspace's credentials. Who only views gets none, as if there were none:
// whatever a login opens could be read, and written, by its holder.
const UsedBy = orgs.RoleLaunch

// LoginTTL is how long a login holds that somebody was told.
const LoginTTL = time.Minute

// Resolve returns a user's login at one registry, for rooms. Whoever is taken out of
// a workspace, or may not launch there any more, gets nothing from then on: the role
// is looked at each time, and each read is in the audit trail.
func (s *Service) Resolve(ctx context.Context, id *platformv1.Identity, registry string) (*platformv1.GetCredentialsResponse, error) {
	has, err := s.deps.Users.HasUser(ctx, id.GetUserId())
	if err != nil {
		return nil, err
	}
	if !has {
		return nil, fault.Denied.Newf("No such user: %d", id.GetUserId())
	}
	in, role, err := s.deps.Workspaces.EnterWorkspace(ctx, id.GetUserId(), id.GetWorkspaceId())
	if err != nil {
		return nil, err
	}
	key, record, err := s.kept(ctx, in, registry)
	if err != nil {
		return nil, err
	}
	if role < UsedBy {
		return withheld(role, record), nil
	}
	login, err := s.login(ctx, id.GetUserId(), record)
	if err != nil {
		return nil, err
	}
	if id.GetUserId() == identity.AdminID && id.GetWorkspaceId() == 0 {
		if k, l, ok := oci.LongestPrefix(registry, s.deps.AdminLogins); ok && len(k) > len(key) {
			login = l
		}
	}
	return Response(login, LoginTTL), nil
}

// change is one of the credentials that are kept in a space.
func change(in orgs.Space) caller.Change {
	return caller.Change{UserID: in.Personal, WorkspaceID: in.ID()}
}

// Response is a login, the zero Login for none, and for how long it holds.
func Response(l upstream.Login, holds time.Duration) *platformv1.GetCredentialsResponse {
	resp := &platformv1.GetCredentialsResponse{MaxAge: max(1, int32(holds/time.Second))}
	if (l != upstream.Login{}) {
		resp.Credentials = &platformv1.Credentials{Username: l.Username, Password: l.Password}
	}
	return resp
}

// withheld returns no login, and why if there is one.
func withheld(r orgs.Role, c *record) *platformv1.GetCredentialsResponse {
	resp := Response(upstream.Login{}, LoginTTL)
	if c != nil {
		resp.Withheld = fmt.Sprintf("your role %s in the workspace may not use its credentials", r)
	}
	return resp
}

// kept finds the record that is stored for a repository, and the key that it is
// for; nil when there is none.
func (s *Service) kept(ctx context.Context, in orgs.Space, repository string) (string, *record, error) {
	list, err := s.store.registryCredentials(ctx, in)
	if err != nil {
		return "", nil, fmt.Errorf("reading the credentials of workspace %d: %w", in.ID(), err)
	}
	byKey := map[string]record{}
	for _, c := range list {
		if _, newer := byKey[c.registry]; !newer {
			byKey[c.registry] = c
		}
	}
	key, c, ok := oci.LongestPrefix(repository, byKey)
	if !ok {
		return "", nil, nil
	}
	return key, &c, nil
}

// login opens a record; nil is the zero login.
func (s *Service) login(ctx context.Context, userID int64, c *record) (upstream.Login, error) {
	if c == nil {
		return upstream.Login{}, nil
	}
	secret, err := s.reveal(ctx, userID, *c)
	return upstream.Login{Username: secret.UserName, Password: secret.Password}, err
}

// RegistryKeys is what is sealed for a registry, and what a key packet carries.
type RegistryKeys struct {
	UserName string `json:"userName"`
	Password string `json:"password"`
	Registry string `json:"registry"`
}

// Reveal returns the secrets of a record of the workspace that a caller was let into.
// fault.NotFound, and fault.Invalid for one that is not a registry's.
func (s *Service) Reveal(ctx context.Context, p orgs.Principal, id string) (RegistryKeys, error) {
	c, err := s.store.credentials(ctx, p.Space, id)
	if err != nil {
		return RegistryKeys{}, fmt.Errorf("reading credentials %s: %w", id, err)
	}
	if c.provider != ContainerReg {
		return RegistryKeys{}, fault.Invalid.Newf("Only credentials of the provider container-reg are given out")
	}
	return s.reveal(ctx, p.User.ID, c)
}

// reveal opens a record. Nothing else does.
func (s *Service) reveal(ctx context.Context, userID int64, c record) (RegistryKeys, error) {
	keys := s.deps.Keys
	if err := keys.Check(); err != nil {
		return RegistryKeys{}, err
	}
	raw, err := keys.Open(c.id, c.envelope)
	if err != nil {
		return RegistryKeys{}, err
	}
	out, err := loginIn(raw)
	if err != nil {
		return RegistryKeys{}, errors.New("the sealed keys of " + c.id + " are not JSON") // their text stays here
	}
	out.Registry = c.registry
	now := s.deps.Now()
	if now.Sub(c.used) >= api.UsedEvery {
		if err := s.store.touchCredentials(ctx, c.id, now); err != nil {
			return RegistryKeys{}, fmt.Errorf("writing the last use of %s: %w", c.id, err)
		}
	}
	return out, s.note(ctx, userID, c.space, "credentials.read", c.id)
}

// loginIn is the login among the keys of a record, by the names that understand knows
// them by. A struct would take them in any case, and the last of them.
func loginIn(secret []byte) (out RegistryKeys, err error) {
	var keys map[string]any
	err = json.Unmarshal(secret, &keys)
	out.UserName, _ = keys["userName"].(string)
	out.Password, _ = keys["password"].(string)
	return out, err
}
