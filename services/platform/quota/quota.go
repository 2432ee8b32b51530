// Package quota owns the limits that administrators set for single organisations, workspaces and
// users. It writes the table platform_limits, and reads the names of the subjects from
// platform_orgs, platform_workspaces and platform_users, whose deletion deletes their limits. The
// services that count calls apply the limits, with caller.LimitsFollower.
package quota

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/identity"
)

// Deps are the dependencies of a Service.
type Deps struct {
	DB *sqldb.DB
	// Endpoint is the platform's address in identities.
	Endpoint string
	// Limiter reads how much of a limit is left; nil means that this is unknown.
	Limiter *ratelimit.Limiter
	Audit   audit.Log
	// RequestRetention is how long the server stores container requests after their names expired;
	// 0 means forever. Organisations can only have a shorter time.
	RequestRetention time.Duration
	// Changed is called after a change has been stored.
	Changed func(context.Context)
	// Now returns the current time.
	Now func() time.Time
}

// Service implements the calls for limits. Create it with New.
type Service struct {
	store store
	deps  Deps
}

// New returns a Service. The tables must exist.
func New(d Deps) *Service { return &Service{store: store{d.DB, d.Audit}, deps: d} }

// A limit is a row of platform_limits, with the name of its subject.
type limit struct {
	subject ratelimit.Subject
	name    string
	kind    ratelimit.Kind
	value   string
	updated time.Time
}

func (l limit) toProto() *platformv1.Limit {
	return &platformv1.Limit{
		Of: string(l.subject.Of), Id: float64(l.subject.ID), Name: l.name, Kind: string(l.kind), Value: l.value, LastUpdated: api.Timestamp(l.updated),
	}
}

// ListLimits returns a page of all limits.
func (s *Service) ListLimits(ctx context.Context, req *platformv1.ListLimitsRequest) (*platformv1.ListLimitsResponse, error) {
	page, err := api.ReadPage(req)
	if err != nil {
		return nil, err
	}
	of, id := ratelimit.Category(req.GetOf()), req.GetId()
	switch {
	case of != "" && !slices.Contains(ratelimit.Categories(), of):
		return nil, errCategory()
	case id < 0 || id != 0 && of == "":
		return nil, fault.Invalid.Newf("id is 1 or greater, and requires of")
	}
	list, total, err := s.store.limits(ctx, of, id, page)
	if err != nil {
		return nil, fmt.Errorf("reading the limits: %w", err)
	}
	resp := &platformv1.ListLimitsResponse{TotalSize: int32(total)}
	for _, l := range list {
		resp.Limits = append(resp.Limits, l.toProto())
	}
	return resp, nil
}

// SetLimit sets or replaces a limit. It returns fault.NotFound if there is no such organisation,
// workspace or user.
func (s *Service) SetLimit(ctx context.Context, req *platformv1.SetLimitRequest) (*platformv1.SetLimitResponse, error) {
	subject, kind, err := parse(req)
	if err != nil {
		return nil, err
	}
	value, err := s.canonical(kind, req.GetLimit().GetValue())
	if err != nil {
		return nil, err
	}
	changed, err := s.store.set(ctx, limit{subject: subject, kind: kind, value: value, updated: s.deps.Now()})
	if err != nil {
		return nil, fmt.Errorf("writing the limit %s of %s: %w", kind, subject, err)
	}
	if changed {
		s.deps.Changed(ctx)
	}
	l, err := s.store.limit(ctx, subject, kind)
	return &platformv1.SetLimitResponse{Limit: l.toProto()}, err
}

// DeleteLimit deletes a limit, or returns fault.NotFound.
func (s *Service) DeleteLimit(ctx context.Context, req *platformv1.DeleteLimitRequest) (*platformv1.DeleteLimitResponse, error) {
	subject, kind, err := parse(req)
	if err != nil {
		return nil, err
	}
	l, err := s.store.limit(ctx, subject, kind)
	if err != nil {
		return nil, err
	}
	deleted, err := s.store.delete(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("deleting the limit %s of %s: %w", kind, subject, err)
	}
	if !deleted {
		return nil, errChanged()
	}
	s.deps.Changed(ctx)
	return &platformv1.DeleteLimitResponse{}, nil
}

// ListOwnLimits returns the limits of the caller.
func (s *Service) ListOwnLimits(ctx context.Context, _ *platformv1.ListOwnLimitsRequest) (*platformv1.ListOwnLimitsResponse, error) {
	list, err := s.of(ctx, ratelimit.Subject{Of: ratelimit.User, ID: identity.CallerFrom(ctx).User.ID})
	return &platformv1.ListOwnLimitsResponse{Limits: list}, err
}

// ListOrganizationLimits returns the limits of an organisation, or of one of its workspaces.
func (s *Service) ListOrganizationLimits(ctx context.Context, req *platformv1.ListOrganizationLimitsRequest) (*platformv1.ListOrganizationLimitsResponse, error) {
	subject := ratelimit.Subject{Of: ratelimit.Organization, ID: req.GetOrgId()}
	if id := req.GetWorkspaceId(); id != 0 {
		subject = ratelimit.Subject{Of: ratelimit.Workspace, ID: id}
	}
	list, err := s.of(ctx, subject)
	return &platformv1.ListOrganizationLimitsResponse{Limits: list}, err
}

// of returns the limits of a subject, with how much of each is left.
func (s *Service) of(ctx context.Context, subject ratelimit.Subject) ([]*platformv1.Limit, error) {
	list, _, err := s.store.limits(ctx, subject.Of, subject.ID, sqldb.Page{Limit: len(ratelimit.OwnKinds()), Like: "%"})
	if err != nil {
		return nil, fmt.Errorf("reading the limits of %s: %w", subject, err)
	}
	var out []*platformv1.Limit
	for _, l := range list {
		shown := l.toProto()
		rate, _, err := ratelimit.ParseOwn(l.kind, l.value)
		if err != nil {
			return nil, fmt.Errorf("reading the limit %s of %s: %w", l.kind, subject, err)
		}
		if s.deps.Limiter != nil {
			if left, known := s.deps.Limiter.Remaining(ctx, s.deps.Endpoint, subject, l.kind, rate); known {
				shown.Remaining = wrapperspb.Double(float64(left))
			}
		}
		out = append(out, shown)
	}
	return out, nil
}

// GetLimits returns all limits, for the services that apply them.
func (s *Service) GetLimits(ctx context.Context, _ *platformv1.GetLimitsRequest) (*platformv1.GetLimitsResponse, error) {
	list, err := s.store.all(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading all limits: %w", err)
	}
	resp := &platformv1.GetLimitsResponse{Endpoint: s.deps.Endpoint}
	for _, l := range list {
		resp.Limits = append(resp.Limits, &platformv1.AppliedLimit{Of: string(l.subject.Of), Id: l.subject.ID, Kind: string(l.kind), Value: l.value})
	}
	return resp, nil
}

// parse returns the subject and the kind that a request names.
func parse(req interface {
	GetOf() string
	GetSubjectId() int64
	GetKind() string
}) (ratelimit.Subject, ratelimit.Kind, error) {
	s, k := ratelimit.Subject{Of: ratelimit.Category(req.GetOf()), ID: req.GetSubjectId()}, ratelimit.Kind(req.GetKind())
	switch {
	case !slices.Contains(ratelimit.Categories(), s.Of):
		return s, k, errCategory()
	case s.ID < 1:
		return s, k, fault.Invalid.Newf("The id of the %s must be 1 or greater", s.Of)
	case !slices.Contains(ratelimit.OwnKinds(), k):
		return s, k, fault.Invalid.Newf("kind must be one of builds, runningBuilds, buildMinutes, pulls, requests, searches, requestDays")
	case k == ratelimit.RequestDays && s.Of != ratelimit.Organization:
		return s, k, fault.Invalid.Newf("requestDays is a limit of organisations: of must be organization")
	}
	return s, k, nil
}

// canonical returns the value of a limit in the form in which it is stored.
func (s *Service) canonical(k ratelimit.Kind, value string) (string, error) {
	rate, number, err := ratelimit.ParseOwn(k, value)
	if err != nil {
		return "", err
	}
	if k == ratelimit.RequestDays {
		err = s.checkDays(number)
	}
	if k.IsNumber() {
		return strconv.Itoa(number), err
	}
	text, err := rate.MarshalText()
	return string(text), err
}

// checkDays returns fault.Invalid if the server deletes container requests earlier than after a
// number of days.
func (s *Service) checkDays(days int) error {
	most := int(s.deps.RequestRetention / day)
	switch {
	case s.deps.RequestRetention == 0 || days <= most:
		return nil
	case most == 0:
		return fault.Invalid.Newf("requestDays cannot be set, because the server's request_retention is shorter than a day")
	}
	return fault.Invalid.Newf("value of requestDays can only shorten the server's request_retention: it is at most %d days; got %d", most, days)
}

const day = 24 * time.Hour

func errCategory() error {
	return fault.Invalid.Newf("of must be one of organization, workspace, user")
}

func errChanged() error {
	return fault.Conflict.Newf("Another administrator changed the limit at the same time; look at it and try again").WithCode(fault.ObjectChanged)
}
