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

// A foreignRecord is a record of credentials in the list of another platform.
type foreignRecord struct {
	ID       string `json:"id"`
	Provider string `json:"provider"`
	Keys     struct {
		Registry string `json:"registry"`
	} `json:"keys"`
	Updated time.Time `json:"lastUpdated"`
}

// Resolve returns the login for a repository that a user has stored at another platform, and
// how long the login may be cached.
func (f *Service) Resolve(ctx context.Context, id *platformv1.Identity, repository string) (*platformv1.GetCredentialsResponse, error) {
	login, err := f.login(ctx, id, repository)
	if err != nil {
		return nil, err
	}
	resp := credentials.Response(login.value.Login, login.until.Sub(f.now()))
	resp.Withheld = login.value.Withheld
	return resp, nil
}

// login returns the access of a user of another platform to a repository, and when it expires
// from the cache. The zero Access means that the user has no credentials for the repository.
func (f *Service) login(ctx context.Context, id *platformv1.Identity, repository string) (cached[upstream.Access], error) {
	of := keyOf(id.GetEndpoint(), id.GetUserId(), id.GetWorkspaceId())
	list, err := f.lists.get(ctx, of, func(ctx context.Context) ([]foreignRecord, error) { return f.list(ctx, id) })
	if err != nil {
		return cached[upstream.Access]{}, err
	}
	best, ok := bestRecord(repository, list.value)
	if !ok {
		return cached[upstream.Access]{until: list.until}, nil
	}
	return f.logins.get(ctx, keyOf(of, best), func(ctx context.Context) (upstream.Access, error) { return f.fetchLogin(ctx, id, best) })
}

// bestRecord returns the id of the record with the longest registry that is a prefix of the
// repository. Among records for the same registry it selects the most recently updated one.
func bestRecord(repository string, list []foreignRecord) (id string, ok bool) {
	byKey := map[string]foreignRecord{}
	for _, r := range list {
		key, err := credentials.ParseRegistry(r.Keys.Registry)
		if err != nil || r.Provider != credentials.ContainerReg {
			continue
		}
		if old, exists := byKey[key]; !exists || old.Updated.Before(r.Updated) {
			byKey[key] = r
		}
	}
	_, r, ok := oci.LongestPrefix(repository, byKey)
	return r.ID, ok && api.IsTextID(r.ID)
}

func (f *Service) list(ctx context.Context, id *platformv1.Identity) ([]foreignRecord, error) {
	var result struct {
		Credentials []foreignRecord `json:"credentials"`
	}
	err := f.withUserToken(ctx, id, func(access string) error {
		return f.get(ctx, id.GetEndpoint(), "/credentials", access, workspaceQuery(id.GetWorkspaceId()), &result)
	})
	return result.Credentials, err
}

// minPairingAge is the age from which a pairing is replaced when the other platform refuses a
// key packet. Without it, a user whose role does not allow reading keys would cause a new
// pairing with each request.
const minPairingAge = 10 * time.Minute

// fetchLogin fetches the login of a record, encrypted with this platform's key. It pairs again
// if the other platform may have deleted the pairing. If the platform still refuses, the user
// may not read the keys: fetchLogin returns an Access with the reason.
func (f *Service) fetchLogin(ctx context.Context, id *platformv1.Identity, record string) (upstream.Access, error) {
	p, err := f.peer(ctx, id.GetEndpoint())
	if err != nil {
		return upstream.Access{}, err
	}
	keys, err := f.fetchKeys(ctx, id, record, p)
	if errors.Is(err, errUnpaired) && f.now().Sub(p.created) > minPairingAge {
		if p, err = f.newPairing(ctx, id.GetEndpoint()); err == nil {
			keys, err = f.fetchKeys(ctx, id, record, p)
		}
	}
	if errors.Is(err, errUnpaired) {
		return upstream.Access{Withheld: "the platform " + id.GetEndpoint() + " does not allow this user to read the keys of the credentials"}, nil
	}
	if err != nil {
		return upstream.Access{}, err
	}
	e := audit.Event{Actor: audit.Actor{Name: id.GetUserName() + " at " + id.GetEndpoint()}, WorkspaceID: id.GetWorkspaceId(), Action: "foreign.read", Subject: record + " at " + id.GetEndpoint()}
	if err := f.audit.Record(ctx, e); err != nil {
		return upstream.Access{}, err
	}
	return upstream.Access{Login: upstream.Login{Username: keys.UserName, Password: keys.Password}}, nil
}

// errUnpaired is returned when a platform lists a user's credentials but refuses a key packet:
// the pairing is unknown there, or the user may not read the keys.
var errUnpaired = errors.New("the key packet is refused")

// fetchKeys fetches and decrypts the key packet of a record.
func (f *Service) fetchKeys(ctx context.Context, id *platformv1.Identity, record string, p peer) (credentials.RegistryKeys, error) {
	var out credentials.RegistryKeys
	q := workspaceQuery(id.GetWorkspaceId())
	if q == nil {
		q = map[string][]string{}
	}
	q.Set("pairingId", p.pairing)
	q.Set("version", "2")
	var result struct {
		Keys string `json:"keys"`
	}
	err := f.withUserToken(ctx, id, func(access string) error {
		err := f.get(ctx, id.GetEndpoint(), "/credentials/"+record+"/keys", access, q, &result)
		if errors.Is(err, fault.Unauthenticated) && !errors.Is(err, errExpired) {
			return fmt.Errorf("%w: %s", errUnpaired, err.Error())
		}
		return err
	})
	if err != nil {
		return out, err
	}
	plain, err := unpack(p.key, result.Keys)
	if err == nil {
		err = json.Unmarshal(plain, &out)
	}
	if err != nil {
		return out, badResponse(id.GetEndpoint(), errors.New("the key packet of "+record+" cannot be read")) // the cause may contain the secret
	}
	return out, nil
}

// A peer is this platform's pairing with another platform, and the key pair for it.
type peer struct {
	endpoint, pairing string
	key               *rsa.PrivateKey
	envelope          vault.Envelope
	created, expires  time.Time
}

// peer returns the pairing with a platform. It creates a new one if none is stored, or if the
// stored one expires within a day.
func (f *Service) peer(ctx context.Context, endpoint string) (peer, error) {
	p, err := f.store.peer(ctx, endpoint)
	if errors.Is(err, fault.NotFound) || err == nil && p.expires.Before(f.now().Add(24*time.Hour)) {
		return f.newPairing(ctx, endpoint)
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

// newPairing generates a key pair, pairs it with a platform, and stores it.
func (f *Service) newPairing(ctx context.Context, endpoint string) (peer, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return peer{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return peer{}, err
	}
	p := peer{endpoint: endpoint, key: key, created: f.now()}
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
