package credentials

import (
	"context"
	"errors"
	"fmt"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/orgs"
)

// CreateCredentials seals and keeps credentials.
func (s *Service) CreateCredentials(ctx context.Context, req *platformv1.CreateCredentialsRequest) (*platformv1.CreateCredentialsResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	keys := s.deps.Keys
	if err := keys.Check(); err != nil {
		return nil, err
	}
	c := record{id: api.NewTextID(22), space: p.Space, createdBy: p.User.ID, created: s.deps.Now()}
	secret, err := c.change(req.GetBody().GetCredentials(), []byte("{}"))
	if err != nil {
		return nil, err
	}
	if c.envelope, err = keys.Seal(c.id, secret); err != nil {
		return nil, err
	}
	if err := api.CheckRows(ctx, s.deps.DB, "records of a workspace", limits.CredentialsPerWorkspace, `platform_credentials WHERE user_id = $1 AND workspace_id = $2`, c.space.Personal, c.space.ID()); err != nil {
		return nil, err
	}
	made, err := s.store.insertCredentials(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("writing the credentials %s: %w", c.name, err)
	}
	if !made {
		return nil, api.Taken("a record", c.name)
	}
	s.deps.Rights.Notify(ctx, change(p.Space))
	return &platformv1.CreateCredentialsResponse{CredentialsId: c.id}, s.note(ctx, p.User.ID, p.Space, "credentials.create", c.id)
}

// UpdateCredentials changes what is given. A secret that is left out stays.
func (s *Service) UpdateCredentials(ctx context.Context, req *platformv1.UpdateCredentialsRequest) (*platformv1.UpdateCredentialsResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	keys := s.deps.Keys
	if err := keys.Check(); err != nil {
		return nil, err
	}
	was, err := s.store.credentials(ctx, p.Space, req.GetCredentialsId())
	if err != nil {
		return nil, fmt.Errorf("reading credentials %s: %w", req.GetCredentialsId(), err)
	}
	secret, err := keys.Open(was.id, was.envelope)
	if err != nil {
		return nil, err
	}
	c := was
	if secret, err = c.change(req.GetBody().GetCredentials(), secret); err != nil {
		return nil, err
	}
	if c.envelope, err = keys.Seal(c.id, secret); err != nil {
		return nil, err
	}
	// Every change moves the instant, which tells two apart.
	c.updated = s.deps.Now()
	if !c.updated.After(was.updated) {
		c.updated = was.updated.Add(time.Microsecond)
	}
	done, err := s.store.updateCredentials(ctx, c, was)
	if err != nil {
		return nil, fmt.Errorf("writing credentials %s: %w", c.id, err)
	}
	if !done {
		return nil, fault.Conflict.Newf("There is a record named %q already, or somebody else changed this one", c.name)
	}
	s.deps.Rights.Notify(ctx, change(p.Space))
	return &platformv1.UpdateCredentialsResponse{}, s.note(ctx, p.User.ID, p.Space, "credentials.update", c.id)
}

// DeleteCredentials removes a record; with `checked` not one that is in use.
func (s *Service) DeleteCredentials(ctx context.Context, req *platformv1.DeleteCredentialsRequest) (*platformv1.DeleteCredentialsResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	since := s.deps.Now().Add(time.Hour) // whenever it was used
	if req.GetChecked() {
		since = s.deps.Now().Add(-usedLately)
	}
	done, err := s.store.deleteCredentials(ctx, p.Space, req.GetCredentialsId(), since)
	if err != nil {
		return nil, fmt.Errorf("deleting credentials %s: %w", req.GetCredentialsId(), err)
	}
	if !done {
		_, err := s.store.credentials(ctx, p.Space, req.GetCredentialsId())
		return nil, errors.Join(err, fault.Conflict.Newf("The credentials were used within the last hour; leave `checked` out to delete them all the same"))
	}
	s.deps.Rights.Notify(ctx, change(p.Space))
	return &platformv1.DeleteCredentialsResponse{}, s.note(ctx, p.User.ID, p.Space, "credentials.delete", req.GetCredentialsId())
}
