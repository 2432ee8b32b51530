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
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/orgs"
)

// MinRole is the minimum role for using a workspace's credentials. A user with a lower role
// gets no login: images built or pulled with the login would reveal content that it can read,
// and pushes would change repositories that it can write.
const MinRole = orgs.RoleLaunch

// LoginTTL is how long other services may cache a login.
const LoginTTL = time.Minute

// Resolve returns a user's login for a registry (host or host/path) to another service. The
// user's role is checked at each call, so that a user who loses the role gets no further
// logins. Each login is recorded in the audit log. It returns fault.Denied for a user or a
// workspace that does not exist.
func (s *Service) Resolve(ctx context.Context, id *platformv1.Identity, registry string) (*platformv1.GetCredentialsResponse, error) {
	has, err := s.deps.Users.HasUser(ctx, id.GetUserId())
	if err != nil {
		return nil, err
	}
	if !has {
		return nil, fault.Denied.Newf("No such user: %d", id.GetUserId())
	}
	in, role, err := s.deps.Workspaces.WorkspaceRole(ctx, id.GetUserId(), id.GetWorkspaceId())
	if err != nil {
		return nil, err
	}
	key, record, err := s.find(ctx, in, registry)
	if err != nil {
		return nil, err
	}
	if role < MinRole {
		return withheld(role, record), nil
	}
	login, err := s.login(audit.WithActor(ctx, audit.Actor{UserID: id.GetUserId(), Name: id.GetUserName()}), record)
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

// changeOf returns the change to publish when the credentials of a space have changed.
func changeOf(in orgs.Space) caller.Change {
	return caller.Change{UserID: in.Personal, WorkspaceID: in.ID()}
}

// Response returns the response for a login that may be cached for ttl. The zero Login means no
// login.
func Response(l upstream.Login, ttl time.Duration) *platformv1.GetCredentialsResponse {
	resp := &platformv1.GetCredentialsResponse{MaxAge: max(1, int32(ttl/time.Second))}
	if (l != upstream.Login{}) {
		resp.Credentials = &platformv1.Credentials{Username: l.Username, Password: l.Password}
	}
	return resp
}

// withheld returns a response without a login. If c is not nil, the response gives the reason.
func withheld(r orgs.Role, c *record) *platformv1.GetCredentialsResponse {
	resp := Response(upstream.Login{}, LoginTTL)
	if c != nil {
		resp.Withheld = fmt.Sprintf("your role %s in the workspace may not use its credentials", r)
	}
	return resp
}

// find returns the record with the longest registry that is a prefix of the repository, and
// that registry. Among records for the same registry it returns the most recently updated one.
// It returns nil if no record matches.
func (s *Service) find(ctx context.Context, in orgs.Space, repository string) (string, *record, error) {
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

// login returns the login of a record, or the zero Login if c is nil.
func (s *Service) login(ctx context.Context, c *record) (upstream.Login, error) {
	if c == nil {
		return upstream.Login{}, nil
	}
	secret, err := s.reveal(ctx, *c)
	return upstream.Login{Username: secret.UserName, Password: secret.Password}, err
}

// RegistryKeys is a login with its registry, as a key packet contains it.
type RegistryKeys struct {
	UserName string `json:"userName"`
	Password string `json:"password"`
	Registry string `json:"registry"`
}

// Reveal returns the secrets of a record of the caller's workspace. It returns fault.NotFound
// if there is no such record and fault.Invalid if its provider is not ContainerReg.
func (s *Service) Reveal(ctx context.Context, p orgs.Principal, id string) (RegistryKeys, error) {
	c, err := s.store.credentials(ctx, p.Space, id)
	if err != nil {
		return RegistryKeys{}, fmt.Errorf("reading credentials %s: %w", id, err)
	}
	if c.provider != ContainerReg {
		return RegistryKeys{}, fault.Invalid.Newf("Only keys of credentials of the provider container-reg can be read")
	}
	return s.reveal(ctx, c)
}

// reveal decrypts the login of a record, and records the read in the audit log and the
// record's time of last use. No other function reveals secrets.
func (s *Service) reveal(ctx context.Context, c record) (RegistryKeys, error) {
	keys := s.deps.Keys
	if err := keys.Check(); err != nil {
		return RegistryKeys{}, err
	}
	raw, err := keys.Open(c.id, c.envelope)
	if err != nil {
		return RegistryKeys{}, err
	}
	out, err := parseLogin(raw)
	if err != nil {
		return RegistryKeys{}, errors.New("the sealed keys of " + c.id + " are not JSON") // the cause may contain the secret
	}
	out.Registry = c.registry
	now := s.deps.Now()
	if now.Sub(c.used) >= api.LastUsedResolution {
		// The login works if the time cannot be stored, for instance on a full disk.
		if err := s.store.touchCredentials(ctx, c.id, now); err != nil {
			s.deps.Log.WarnContext(ctx, "The last use of credentials was not stored", "credentials_id", c.id, "err", err)
		}
	}
	return out, s.deps.Audit.Record(ctx, c.event("credentials.read", nil, nil))
}

// parseLogin returns the login among the keys of a record, by the exact names that parseKeys
// reads. Decoding into a struct would match names in any case, and use the last match.
func parseLogin(secret []byte) (out RegistryKeys, err error) {
	var keys map[string]any
	err = json.Unmarshal(secret, &keys)
	out.UserName, _ = keys["userName"].(string)
	out.Password, _ = keys["password"].(string)
	return out, err
}
