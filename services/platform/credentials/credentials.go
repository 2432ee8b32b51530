package credentials

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/paging"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/orgs"
)

// Providers whose keys are parsed. Conda logins are for channels. Their registry column starts
// with the path segment "conda", which no registry host has, so that a login for a channel
// never matches a registry, and vice versa.
const (
	ContainerReg = "container-reg"
	Conda        = "conda"
)

// inUseWindow is the time after a read during which credentials count as in use.
const inUseWindow = time.Hour

func (c record) toProto() (*platformv1.CredentialsRecord, error) {
	keys := &structpb.Struct{}
	if err := keys.UnmarshalJSON([]byte(c.publicKeys)); err != nil {
		return nil, fmt.Errorf("reading the keys of %s: %w", c.id, err)
	}
	if len(keys.GetFields()) == 0 {
		keys = nil
	} else { // typed clients select the type of the keys by this field, and fail without it
		keys.Fields["discriminator"] = structpb.NewStringValue(c.provider)
	}
	return &platformv1.CredentialsRecord{
		Id: c.id, Name: c.name, Description: c.description, Provider: c.provider, BaseUrl: c.baseURL, Keys: keys,
		LastUsed: api.Timestamp(c.used), DateCreated: api.Timestamp(c.created), LastUpdated: api.Timestamp(c.updated), Status: "AVAILABLE",
	}, nil
}

// apply copies the fields that are set in spec to c and validates the result. secret is the
// JSON of the keys before the change; apply returns the JSON of the keys to seal. Keys that
// spec does not set keep their values.
func (c *record) apply(spec *platformv1.CredentialsSpec, secret []byte) ([]byte, error) {
	if spec == nil {
		return nil, fault.Invalid.Newf("credentials must be set")
	}
	api.SetTrimmed(&c.name, spec.Name)
	api.SetTrimmed(&c.description, spec.Description)
	api.SetTrimmed(&c.provider, spec.Provider)
	api.SetTrimmed(&c.baseURL, spec.BaseUrl)
	if c.provider == "" {
		c.provider = ContainerReg
	}
	if c.name == "" {
		return nil, fault.Invalid.Newf("credentials.name must not be empty")
	}
	if u, err := url.Parse(c.baseURL); err == nil && u.User != nil {
		return nil, fault.Invalid.Newf("credentials.baseUrl must not contain a login")
	}
	if err := errors.Join(api.CheckLength("name", c.name, 100), api.CheckLength("description", c.description, 1000), api.CheckLength("provider", c.provider, 50), api.CheckLength("baseUrl", c.baseURL, 200)); err != nil {
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
	// A user who can change a login does not necessarily know its password, and must not be able
	// to send the password to another registry.
	given, stored := spec.GetKeys().AsMap()["password"], c.registry
	if err := c.parseKeys(keys); err != nil {
		return nil, err
	}
	if given == nil && c.registry != stored {
		return nil, fault.Invalid.Newf("keys.password must be given again to change the registry of a login")
	}
	out, err := json.Marshal(keys)
	if err == nil && len(out) > limits.CredentialKeys {
		return nil, fault.Invalid.Newf("keys may have %d bytes, not %d", limits.CredentialKeys, len(out))
	}
	return out, err
}

// parseKeys sets the registry and the public keys from the keys of a known provider. For
// other providers both are empty.
func (c *record) parseKeys(keys map[string]any) error {
	c.registry, c.publicKeys = "", "{}"
	if c.provider != ContainerReg && c.provider != Conda {
		return nil
	}
	userName, _ := keys["userName"].(string)
	password, _ := keys["password"].(string)
	registry, _ := keys["registry"].(string)
	if userName == "" || password == "" {
		return fault.Invalid.Newf("keys.userName and keys.password must be set")
	}
	var err error
	if c.registry, err = ParseRegistry(registry); err != nil {
		return err
	}
	// The registry is public, and recorded in the audit trail.
	if c.provider == Conda && (strings.Contains(c.registry+"/", "/t/") || strings.Contains(c.registry, "@")) {
		return fault.Invalid.Newf("keys.registry must not contain a login or a token; for a token in the path set keys.userName to token and keys.password to the token")
	}
	public, err := json.Marshal(map[string]string{"userName": userName, "registry": c.registry})
	c.publicKeys = string(public)
	if c.provider == Conda {
		c.registry = Conda + "/" + c.registry
	}
	return err
}

var registryForm = regexp.MustCompile(`^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*$`)

// ParseRegistry returns the normalized form of a registry that a user entered as host or
// host/path; "" means docker.io. It returns fault.Invalid for any other form.
func ParseRegistry(s string) (string, error) {
	key := cmp.Or(oci.LoginKey(strings.ToLower(strings.TrimSpace(s))), "docker.io")
	if len(key) > 255 || !registryForm.MatchString(key) {
		return "", fault.Invalid.Newf("keys.registry must be host or host/path, e.g. quay.io/team")
	}
	return key, nil
}

// ListCredentials returns a page of a workspace's credentials without their secrets.
func (s *Service) ListCredentials(ctx context.Context, req *platformv1.ListCredentialsRequest) (*platformv1.ListCredentialsResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	list, err := s.store.credentialsIn(ctx, p.Space)
	if err != nil {
		return nil, fmt.Errorf("reading the credentials of workspace %d: %w", p.Space.ID(), err)
	}
	if list, err = paging.Slice(list, req); err != nil {
		return nil, err
	}
	resp := &platformv1.ListCredentialsResponse{}
	for _, c := range list {
		rec, err := c.toProto()
		if err != nil {
			return nil, err
		}
		resp.Credentials = append(resp.Credentials, rec)
	}
	return resp, nil
}

// DescribeCredentials returns a record without its secrets.
func (s *Service) DescribeCredentials(ctx context.Context, req *platformv1.DescribeCredentialsRequest) (*platformv1.DescribeCredentialsResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	c, err := s.store.credentials(ctx, p.Space, req.GetCredentialsId())
	if err != nil {
		return nil, fmt.Errorf("reading credentials %s: %w", req.GetCredentialsId(), err)
	}
	rec, err := c.toProto()
	return &platformv1.DescribeCredentialsResponse{Credentials: rec}, err
}

// ValidateCredentialsName returns fault.Conflict if a name is taken in the workspace.
func (s *Service) ValidateCredentialsName(ctx context.Context, req *platformv1.ValidateCredentialsNameRequest) (*platformv1.ValidateCredentialsNameResponse, error) {
	p := orgs.PrincipalFrom(ctx)
	if err := api.CheckLength("name", req.GetName(), 100); err != nil {
		return nil, err
	}
	has, err := s.store.hasCredentialsNamed(ctx, p.Space, strings.TrimSpace(req.GetName()))
	if err != nil {
		return nil, fmt.Errorf("looking for the credentials %s: %w", req.GetName(), err)
	}
	if has {
		return nil, api.NameTaken("a record", req.GetName())
	}
	return &platformv1.ValidateCredentialsNameResponse{}, nil
}
