package credentials

import (
	"context"
	"errors"
	"fmt"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/orgs"
)

// CreateCredentials seals and stores credentials. It returns fault.Conflict if the name is
// taken.
func (s *Service) CreateCredentials(ctx context.Context, req *platformv1.CreateCredentialsRequest) (*platformv1.CreateCredentialsResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	keys := s.deps.Keys
	if err := keys.Check(); err != nil {
		return nil, err
	}
	c := record{id: api.NewTextID(22), space: p.Space, createdBy: p.User.ID, created: s.deps.Now()}
	secret, err := c.apply(req.GetBody().GetCredentials(), []byte("{}"))
	if err != nil {
		return nil, err
	}
	if c.envelope, err = keys.Seal(c.id, secret); err != nil {
		return nil, err
	}
	if err := api.Credentials.CheckRows(ctx, s.deps.DB, `platform_credentials WHERE user_id = $1 AND workspace_id = $2`, c.space.Personal, c.space.ID()); err != nil {
		return nil, err
	}
	created, err := s.store.insertCredentials(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("writing the credentials %s: %w", c.name, err)
	}
	if !created {
		return nil, api.NameTaken("a record", c.name)
	}
	s.deps.Notifier.Notify(ctx, changeOf(p.Space))
	return &platformv1.CreateCredentialsResponse{CredentialsId: c.id}, nil
}

// UpdateCredentials changes the fields and keys that the request sets. It returns
// fault.Conflict if the new name is taken or the record has changed concurrently.
func (s *Service) UpdateCredentials(ctx context.Context, req *platformv1.UpdateCredentialsRequest) (*platformv1.UpdateCredentialsResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	keys := s.deps.Keys
	if err := keys.Check(); err != nil {
		return nil, err
	}
	old, err := s.store.credentials(ctx, p.Space, req.GetCredentialsId())
	if err != nil {
		return nil, fmt.Errorf("reading credentials %s: %w", req.GetCredentialsId(), err)
	}
	secret, err := keys.Open(old.id, old.envelope)
	if err != nil {
		return nil, err
	}
	c := old
	if secret, err = c.apply(req.GetBody().GetCredentials(), secret); err != nil {
		return nil, err
	}
	if c.envelope, err = keys.Seal(c.id, secret); err != nil {
		return nil, err
	}
	// The update is conditional on the old time, so that each update must change it.
	c.updated = s.deps.Now()
	if !c.updated.After(old.updated) {
		c.updated = old.updated.Add(time.Microsecond)
	}
	done, err := s.store.updateCredentials(ctx, c, old)
	if err != nil {
		return nil, fmt.Errorf("writing credentials %s: %w", c.id, err)
	}
	if !done {
		return nil, fault.Conflict.Newf("There is a record named %q already, or another request has just changed this one; try again", c.name)
	}
	s.deps.Notifier.Notify(ctx, changeOf(p.Space))
	return &platformv1.UpdateCredentialsResponse{}, nil
}

// DeleteCredentials deletes a record. With `checked` it returns fault.Conflict for a record
// that was used within inUseWindow.
func (s *Service) DeleteCredentials(ctx context.Context, req *platformv1.DeleteCredentialsRequest) (*platformv1.DeleteCredentialsResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	since := s.deps.Now().Add(time.Hour) // later than any use
	if req.GetChecked() {
		since = s.deps.Now().Add(-inUseWindow)
	}
	done, err := s.store.deleteCredentials(ctx, p.Space, req.GetCredentialsId(), since)
	if err != nil {
		return nil, fmt.Errorf("deleting credentials %s: %w", req.GetCredentialsId(), err)
	}
	if !done {
		_, err := s.store.credentials(ctx, p.Space, req.GetCredentialsId())
		return nil, errors.Join(err, fault.Conflict.Newf("The credentials were used within the last hour; omit `checked` to delete them anyway"))
	}
	s.deps.Notifier.Notify(ctx, changeOf(p.Space))
	return &platformv1.DeleteCredentialsResponse{}, nil
}
