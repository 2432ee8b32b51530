package credentials

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/paging"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/orgs"
)

// The providers whose keys are understood. A login of Conda is for a channel: it is kept
// below a first part that no host of a registry has, so that neither is taken for the
// other.
const (
	ContainerReg = "container-reg"
	Conda        = "conda"
)

// usedLately is for how long credentials that were read count as in use.
const usedLately = time.Hour

func (c record) shown() (*platformv1.CredentialsRecord, error) {
	keys := &structpb.Struct{}
	if err := keys.UnmarshalJSON([]byte(c.publicKeys)); err != nil {
		return nil, fmt.Errorf("reading the keys of %s: %w", c.id, err)
	}
	return &platformv1.CredentialsRecord{
		Id: c.id, Name: c.name, Description: c.description, Provider: c.provider, BaseUrl: c.baseURL, Keys: keys,
		LastUsed: api.Instant(c.used), DateCreated: api.Instant(c.created), LastUpdated: api.Instant(c.updated), Status: "AVAILABLE",
	}, nil
}

// change takes over what is given and checks it. secret is the JSON of the keys
// that were sealed before, and what it returns is to be sealed.
func (c *record) change(spec *platformv1.CredentialsSpec, secret []byte) ([]byte, error) {
	if spec == nil {
		return nil, fault.Invalid.Newf("credentials must be given")
	}
	api.Set(&c.name, spec.Name)
	api.Set(&c.description, spec.Description)
	api.Set(&c.provider, spec.Provider)
	api.Set(&c.baseURL, spec.BaseUrl)
	if c.provider == "" {
		c.provider = ContainerReg
	}
	if c.name == "" {
		return nil, fault.Invalid.Newf("credentials.name must not be empty")
	}
	if err := errors.Join(api.Within("name", c.name, 100), api.Within("description", c.description, 1000), api.Within("provider", c.provider, 50), api.Within("baseUrl", c.baseURL, 200)); err != nil {
		return nil, err
	}
	keys := map[string]any{}
	if err := json.Unmarshal(secret, &keys); err != nil {
		return nil, fmt.Errorf("reading sealed keys: %w", err)
	}
	for name, v := range spec.GetKeys().AsMap() {
		if v != nil {
			keys[name] = v
		}
	}
	if err := c.understand(keys); err != nil {
		return nil, err
	}
	out, err := json.Marshal(keys)
	if err == nil && len(out) > 100_000 {
		return nil, fault.Invalid.Newf("keys must be smaller than 100,000 bytes")
	}
	return out, err
}

// understand finds the registry, and what may be shown: of providers that are
// not known, nothing.
func (c *record) understand(keys map[string]any) error {
	c.registry, c.publicKeys = "", "{}"
	if c.provider != ContainerReg && c.provider != Conda {
		return nil
	}
	userName, _ := keys["userName"].(string)
	password, _ := keys["password"].(string)
	registry, _ := keys["registry"].(string)
	if userName == "" || password == "" {
		return fault.Invalid.Newf("keys.userName and keys.password must be given")
	}
	var err error
	if c.registry, err = ParseRegistry(registry); err != nil {
		return err
	}
	public, err := json.Marshal(map[string]string{"userName": userName, "registry": c.registry})
	c.publicKeys = string(public)
	if c.provider == Conda {
		c.registry = Conda + "/" + c.registry
	}
	return err
}

var registryForm = regexp.MustCompile(`^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*$`)

// ParseRegistry reads host or host/path as people write it; empty is docker.io.
func ParseRegistry(s string) (string, error) {
	key := cmp.Or(oci.LoginKey(strings.ToLower(strings.TrimSpace(s))), "docker.io")
	if len(key) > 255 || !registryForm.MatchString(key) {
		return "", fault.Invalid.Newf("keys.registry must be host or host/path, e.g. quay.io/team")
	}
	return key, nil
}

// note writes the audit trail.
func (s *Service) note(ctx context.Context, userID int64, in orgs.Space, action, subject string) error {
	return s.deps.Trail.Note(ctx, audit.Event{UserID: userID, WorkspaceID: in.ID(), Action: action, Subject: subject})
}

// ListCredentials lists a workspace's credentials without their secrets.
func (s *Service) ListCredentials(ctx context.Context, req *platformv1.ListCredentialsRequest) (*platformv1.ListCredentialsResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	list, err := s.store.credentialsIn(ctx, p.Space)
	if err != nil {
		return nil, fmt.Errorf("reading the credentials of workspace %d: %w", p.Space.ID(), err)
	}
	if list, err = paging.Cut(list, req); err != nil {
		return nil, err
	}
	resp := &platformv1.ListCredentialsResponse{}
	for _, c := range list {
		rec, err := c.shown()
		if err != nil {
			return nil, err
		}
		resp.Credentials = append(resp.Credentials, rec)
	}
	return resp, nil
}

// DescribeCredentials returns one record without its secrets.
func (s *Service) DescribeCredentials(ctx context.Context, req *platformv1.DescribeCredentialsRequest) (*platformv1.DescribeCredentialsResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	c, err := s.store.credentials(ctx, p.Space, req.GetCredentialsId())
	if err != nil {
		return nil, fmt.Errorf("reading credentials %s: %w", req.GetCredentialsId(), err)
	}
	rec, err := c.shown()
	return &platformv1.DescribeCredentialsResponse{Credentials: rec}, err
}

// ValidateCredentialsName says whether a name is free.
func (s *Service) ValidateCredentialsName(ctx context.Context, req *platformv1.ValidateCredentialsNameRequest) (*platformv1.ValidateCredentialsNameResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	if err := api.Within("name", req.GetName(), 100); err != nil {
		return nil, err
	}
	has, err := s.store.hasCredentialsNamed(ctx, p.Space, strings.TrimSpace(req.GetName()))
	if err != nil {
		return nil, fmt.Errorf("looking for the credentials %s: %w", req.GetName(), err)
	}
	if has {
		return nil, api.Taken("a record", req.GetName())
	}
	return &platformv1.ValidateCredentialsNameResponse{}, nil
}
