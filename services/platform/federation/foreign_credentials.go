package federation

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/audit"
	"slipway.dev/services/platform/credentials"
	"slipway.dev/services/platform/vault"
)

// foreignRecord is credentials as another platform lists them.
type foreignRecord struct {
	ID       string `json:"id"`
	Provider string `json:"provider"`
	Keys     struct {
		Registry string `json:"registry"`
	} `json:"keys"`
	Updated time.Time `json:"lastUpdated"`
}

// Resolve returns the login that a user of another platform has there for a
// repository, and for how long it holds.
func (f *Service) Resolve(ctx context.Context, id *platformv1.Identity, repository string) (*platformv1.GetCredentialsResponse, error) {
	login, err := f.login(ctx, id, repository)
	if err != nil {
		return nil, err
	}
	resp := credentials.Response(login.value.Login, login.until.Sub(f.now()))
	resp.Withheld = login.value.Withheld
	return resp, nil
}

// login finds what a user of another platform has for a repository, and until when
// that may be remembered. The zero login is none, which may have a reason.
func (f *Service) login(ctx context.Context, id *platformv1.Identity, repository string) (remembered[upstream.Access], error) {
	of := keyOf(id.GetEndpoint(), id.GetUserId(), id.GetWorkspaceId())
	list, err := f.lists.get(ctx, of, func(ctx context.Context) ([]foreignRecord, error) { return f.list(ctx, id) })
	if err != nil {
		return remembered[upstream.Access]{}, err
	}
	best, ok := bestFor(repository, list.value)
	if !ok {
		return remembered[upstream.Access]{until: list.until}, nil
	}
	return f.logins.get(ctx, keyOf(of, best), func(ctx context.Context) (upstream.Access, error) { return f.reveal(ctx, id, best) })
}

// bestFor picks the record with the longest registry that a repository starts
// with; of several the one that was changed last.
func bestFor(repository string, list []foreignRecord) (id string, ok bool) {
	byKey := map[string]foreignRecord{}
	for _, r := range list {
		key, err := credentials.ParseRegistry(r.Keys.Registry)
		if err != nil || r.Provider != credentials.ContainerReg {
			continue
		}
		if was, has := byKey[key]; !has || was.Updated.Before(r.Updated) {
			byKey[key] = r
		}
	}
	_, r, ok := oci.LongestPrefix(repository, byKey)
	return r.ID, ok && api.IsTextID(r.ID)
}

func (f *Service) list(ctx context.Context, id *platformv1.Identity) ([]foreignRecord, error) {
	var answer struct {
		Credentials []foreignRecord `json:"credentials"`
	}
	err := f.forUser(ctx, id, func(access string) error {
		return f.get(ctx, id.GetEndpoint(), "/credentials", access, inWorkspace(id.GetWorkspaceId()), &answer)
	})
	return answer.Credentials, err
}

// pairAgain is how old a pairing must be to be made anew because keys were refused:
// whose role is too low for them must not have us pair over and over.
const pairAgain = 10 * time.Minute

// reveal gets the secrets of a record, which are encrypted for us alone. A pairing
// that the other has forgotten is made anew. Keys that are refused all the same
// are not for this user.
func (f *Service) reveal(ctx context.Context, id *platformv1.Identity, record string) (upstream.Access, error) {
	p, err := f.peer(ctx, id.GetEndpoint())
	if err != nil {
		return upstream.Access{}, err
	}
	keys, err := f.packet(ctx, id, record, p)
	if errors.Is(err, errUnpaired) && f.now().Sub(p.made) > pairAgain {
		if p, err = f.pairAnew(ctx, id.GetEndpoint()); err == nil {
			keys, err = f.packet(ctx, id, record, p)
		}
	}
	if errors.Is(err, errUnpaired) {
		return upstream.Access{Withheld: "the platform " + id.GetEndpoint() + " gives this user no keys of the credentials that it lists"}, nil
	}
	if err != nil {
		return upstream.Access{}, err
	}
	e := audit.Event{UserID: id.GetUserId(), WorkspaceID: id.GetWorkspaceId(), Action: "foreign.read", Subject: record + " at " + id.GetEndpoint()}
	if err := f.trail.Note(ctx, e); err != nil {
		return upstream.Access{}, err
	}
	return upstream.Access{Login: upstream.Login{Username: keys.UserName, Password: keys.Password}}, nil
}

// errUnpaired is a packet that is refused to whom the list was not.
var errUnpaired = errors.New("the key packet is refused")

func (f *Service) packet(ctx context.Context, id *platformv1.Identity, record string, p peer) (credentials.RegistryKeys, error) {
	var out credentials.RegistryKeys
	q := inWorkspace(id.GetWorkspaceId())
	if q == nil {
		q = map[string][]string{}
	}
	q.Set("pairingId", p.pairing)
	q.Set("version", "2")
	var answer struct {
		Keys string `json:"keys"`
	}
	err := f.forUser(ctx, id, func(access string) error {
		err := f.get(ctx, id.GetEndpoint(), "/credentials/"+record+"/keys", access, q, &answer)
		if errors.Is(err, fault.Unauthenticated) && !errors.Is(err, errStale) {
			return fmt.Errorf("%w: %s", errUnpaired, err.Error())
		}
		return err
	})
	if err != nil {
		return out, err
	}
	plain, err := unpack(p.key, answer.Keys)
	if err == nil {
		err = json.Unmarshal(plain, &out)
	}
	if err != nil {
		return out, odd(id.GetEndpoint(), errors.New("the key packet of "+record+" cannot be read")) // its text stays here
	}
	return out, nil
}

// peer is our key at another platform.
type peer struct {
	endpoint, pairing string
	key               *rsa.PrivateKey
	envelope          vault.Envelope
	made, expires     time.Time
}

// peer returns the key that is paired, or pairs one in time.
func (f *Service) peer(ctx context.Context, endpoint string) (peer, error) {
	p, err := f.store.peer(ctx, endpoint)
	if errors.Is(err, fault.NotFound) || err == nil && p.expires.Before(f.now().Add(24*time.Hour)) {
		return f.pairAnew(ctx, endpoint)
	}
	if err != nil {
		return peer{}, fmt.Errorf("reading the pairing with %s: %w", endpoint, err)
	}
	der, err := f.keys.Open(endpoint, p.envelope)
	if err != nil {
		return peer{}, err
	}
	p.key, err = x509.ParsePKCS1PrivateKey(der)
	return p, err
}

func (f *Service) pairAnew(ctx context.Context, endpoint string) (peer, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return peer{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return peer{}, err
	}
	p := peer{endpoint: endpoint, key: key, made: f.now()}
	if p.pairing, p.expires, err = f.pair(ctx, endpoint, public); err != nil {
		return peer{}, err
	}
	if p.envelope, err = f.keys.Seal(endpoint, x509.MarshalPKCS1PrivateKey(key)); err != nil {
		return peer{}, err
	}
	if err := f.store.putPeer(ctx, p); err != nil {
		return peer{}, fmt.Errorf("writing the pairing with %s: %w", endpoint, err)
	}
	return p, nil
}
