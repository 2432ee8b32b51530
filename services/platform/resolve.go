package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/orgs"
)

// usesCredentials is the least role whose images are pulled and pushed with a
// workspace's credentials. Who only views gets none, as if there were none:
// whatever a login opens could be read, and written, by its holder.
const usesCredentials = orgs.RoleLaunch

// GetCredentials answers a user's login at one registry, for rooms. Whoever is
// taken out of a workspace, or may not launch there any more, gets nothing from
// then on: the role is looked at each time, and each read is in the audit trail.
func (s *Service) GetCredentials(ctx context.Context, req *platformv1.GetCredentialsRequest) (*platformv1.GetCredentialsResponse, error) {
	id := req.GetIdentity()
	if id.GetEndpoint() != s.deps.Endpoint {
		return s.foreignCredentials(ctx, req)
	}
	has, err := s.HasUser(ctx, id.GetUserId())
	if err != nil {
		return nil, err
	}
	if !has {
		return nil, fault.Denied.Newf("No such user: %d", id.GetUserId())
	}
	in, role, err := s.EnterWorkspace(ctx, id.GetUserId(), id.GetWorkspaceId())
	if err != nil {
		return nil, err
	}
	key, record, err := s.kept(ctx, in, req.GetRegistry())
	if err != nil {
		return nil, err
	}
	if role < usesCredentials {
		return withheld(role, record), nil
	}
	login, err := s.login(ctx, id.GetUserId(), record)
	if err != nil {
		return nil, err
	}
	if id.GetUserId() == identity.AdminID && id.GetWorkspaceId() == 0 {
		if k, l, ok := longest(req.GetRegistry(), s.deps.AdminLogins); ok && len(k) > len(key) {
			login = l
		}
	}
	return credentialsAnswer(login, loginTTL), nil
}

// foreignCredentials is GetCredentials for a user of another platform.
func (s *Service) foreignCredentials(ctx context.Context, req *platformv1.GetCredentialsRequest) (*platformv1.GetCredentialsResponse, error) {
	if err := s.foreign.believe(req.GetIdentity().GetEndpoint(), s.deps.Endpoint); err != nil {
		return nil, fault.Denied.New("The user belongs to another platform", err)
	}
	login, err := s.foreign.login(ctx, req.GetIdentity(), req.GetRegistry())
	if err != nil {
		return nil, err
	}
	resp := credentialsAnswer(login.value.Login, login.until.Sub(s.deps.Now()))
	resp.Withheld = login.value.Withheld
	return resp, nil
}

// change is one of the credentials that are kept in a space.
func change(in orgs.Space) caller.Change {
	return caller.Change{UserID: in.Personal, WorkspaceID: in.ID()}
}

func credentialsAnswer(l upstream.Login, holds time.Duration) *platformv1.GetCredentialsResponse {
	resp := &platformv1.GetCredentialsResponse{MaxAge: max(1, int32(holds/time.Second))}
	if (l != upstream.Login{}) {
		resp.Credentials = &platformv1.Credentials{Username: l.Username, Password: l.Password}
	}
	return resp
}

// GetRunState says whether a run goes on, for whoever keeps something for as long
// as it does.
func (s *Service) GetRunState(ctx context.Context, req *platformv1.GetRunStateRequest) (*platformv1.GetRunStateResponse, error) {
	id := req.GetIdentity()
	if !api.IsTextID(req.GetWorkflowId()) {
		return &platformv1.GetRunStateResponse{}, nil
	}
	if id.GetEndpoint() != s.deps.Endpoint {
		if err := s.foreign.believe(id.GetEndpoint(), s.deps.Endpoint); err != nil {
			return &platformv1.GetRunStateResponse{}, nil //nolint:nilerr // nobody believes it any more
		}
		live, err := s.foreign.isLive(ctx, id, req.GetWorkflowId())
		return &platformv1.GetRunStateResponse{Live: live}, err
	}
	in, _, err := s.EnterWorkspace(ctx, id.GetUserId(), id.GetWorkspaceId())
	if errors.Is(err, fault.Denied) {
		return &platformv1.GetRunStateResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	live, err := s.records.IsLive(ctx, in, req.GetWorkflowId())
	return &platformv1.GetRunStateResponse{Live: live}, err
}

// withheld answers no login, and why if there is one.
func withheld(r orgs.Role, c *credentials) *platformv1.GetCredentialsResponse {
	resp := credentialsAnswer(upstream.Login{}, loginTTL)
	if c != nil {
		resp.Withheld = fmt.Sprintf("your role %s in the workspace may not use its credentials", r)
	}
	return resp
}

// kept finds the record that is stored for a repository, and the key that it is
// for; nil when there is none.
func (s *Service) kept(ctx context.Context, in orgs.Space, repository string) (string, *credentials, error) {
	list, err := s.store.registryCredentials(ctx, in)
	if err != nil {
		return "", nil, fmt.Errorf("reading the credentials of workspace %d: %w", in.ID(), err)
	}
	byKey := map[string]credentials{}
	for _, c := range list {
		if _, newer := byKey[c.registry]; !newer {
			byKey[c.registry] = c
		}
	}
	key, c, ok := longest(repository, byKey)
	if !ok {
		return "", nil, nil
	}
	return key, &c, nil
}

// login opens a record; nil is the zero login.
func (s *Service) login(ctx context.Context, userID int64, c *credentials) (upstream.Login, error) {
	if c == nil {
		return upstream.Login{}, nil
	}
	secret, err := s.reveal(ctx, userID, *c)
	return upstream.Login{Username: secret.UserName, Password: secret.Password}, err
}

// registryKeys is what is sealed for a registry, and what a key packet carries.
type registryKeys struct {
	UserName string `json:"userName"`
	Password string `json:"password"`
	Registry string `json:"registry"`
}

// reveal opens a record. Nothing else does.
func (s *Service) reveal(ctx context.Context, userID int64, c credentials) (registryKeys, error) {
	keys := s.deps.Keys
	if err := keys.Check(); err != nil {
		return registryKeys{}, err
	}
	raw, err := keys.Open(c.id, c.envelope)
	if err != nil {
		return registryKeys{}, err
	}
	var out registryKeys
	if err := json.Unmarshal(raw, &out); err != nil {
		return registryKeys{}, errors.New("the sealed keys of " + c.id + " are no JSON") // their text stays here
	}
	out.Registry = c.registry
	now := s.deps.Now()
	if now.Sub(c.used) >= api.UsedEvery {
		if err := s.store.touchCredentials(ctx, c.id, now); err != nil {
			return registryKeys{}, fmt.Errorf("writing the last use of %s: %w", c.id, err)
		}
	}
	return out, s.note(ctx, userID, c.space, "credentials.read", c.id)
}

// longest finds the longest key that a repository starts with, by path component.
func longest[T any](repository string, of map[string]T) (string, T, bool) {
	for key := repository; ; {
		if v, ok := of[key]; ok {
			return key, v, true
		}
		i := strings.LastIndexByte(key, '/')
		if i < 0 {
			var none T
			return "", none, false
		}
		key = key[:i]
	}
}
