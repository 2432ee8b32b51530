package federation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/retry"
	"slipway.dev/services/platform/api"
	"slipway.dev/services/platform/vault"
)

// claimTTL is how long a process may take to refresh a delegated token before another process
// may claim it.
const claimTTL = 30 * time.Second

// delegatedTTL is how long an unused delegated token is stored.
const delegatedTTL = 30 * 24 * time.Hour

// A delegatedToken holds the tokens of a user of another platform. Its id is derived from the
// token that the client sends with each request: the refresh token, or else the access token.
// A client that sends its original tokens therefore finds the refreshed ones.
type delegatedToken struct {
	id, endpoint string
	userID       int64
	tokenPair
	envelope vault.Envelope
	// renewed identifies the version of the tokens; zero for those that the client sent. used
	// is the time of the last use.
	renewed, used time.Time
}

// A tokenPair is the encrypted part of a delegated token.
type tokenPair struct {
	Access  string `json:"access"`
	Refresh string `json:"refresh"`
}

func newDelegatedToken(endpoint, access, refresh string) delegatedToken {
	idSource := refresh
	if idSource == "" {
		idSource = access
	}
	return delegatedToken{id: keyOf(endpoint, idSource), endpoint: endpoint, tokenPair: tokenPair{access, refresh}}
}

func (f *Service) seal(g *delegatedToken) error {
	plain, err := json.Marshal(g.tokenPair)
	if err != nil {
		return errors.New("encoding tokens") // the cause may contain a token
	}
	g.envelope, err = f.keys.Seal(g.id, plain)
	return err
}

func (f *Service) open(g *delegatedToken) error {
	plain, err := f.keys.Open(g.id, g.envelope)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(plain, &g.tokenPair); err != nil {
		return errors.New("the sealed tokens of " + g.id + " are not JSON")
	}
	return nil
}

// save stores a delegated token that has just been accepted, unless its stored time of last
// use is recent enough.
func (f *Service) save(ctx context.Context, g delegatedToken) error {
	now := f.now()
	if now.Sub(g.used) < api.LastUsedResolution {
		return nil
	}
	if err := f.seal(&g); err != nil {
		return err
	}
	if err := f.store.putDelegated(ctx, g, now); err != nil {
		return fmt.Errorf("writing tokens for %s: %w", g.endpoint, err)
	}
	return nil
}

// withToken calls request with a delegated token's access token. If that has expired, it
// refreshes the token and calls request again. It deletes a token that cannot be refreshed.
func (f *Service) withToken(ctx context.Context, g *delegatedToken, request func(access string) error) error {
	err := request(g.Access)
	// The first renewal may find tokens that another process has refreshed, and the second
	// refreshes them.
	for range 2 {
		if !errors.Is(err, errExpired) {
			break
		}
		if err = f.renew(ctx, g); errors.Is(err, fault.Unauthenticated) {
			return errors.Join(err, f.store.deleteDelegated(ctx, g.id, g.renewed))
		}
		if err == nil {
			err = request(g.Access)
		}
	}
	return err
}

// renew replaces a delegated token's tokens with a newer version: the stored one, or one from a
// refresh. A refresh token works once, so one replica claims and refreshes it while the others
// wait for the result.
func (f *Service) renew(ctx context.Context, g *delegatedToken) error {
	if g.Refresh == "" {
		return fault.Unauthenticated.New("The access token for "+g.endpoint+" has expired, and the request has no refresh token", nil)
	}
	original := *g
	if err := f.seal(&original); err != nil {
		return err
	}
	if err := f.store.addDelegated(ctx, original, f.now()); err != nil {
		return fmt.Errorf("writing tokens for %s: %w", g.endpoint, err)
	}
	for {
		stored, err := f.load(ctx, g)
		if err != nil {
			return err
		}
		if !stored.renewed.Equal(g.renewed) {
			stored.endpoint, stored.userID = g.endpoint, max(g.userID, stored.userID)
			*g = stored
			return nil
		}
		*g = stored
		claimed, err := f.store.claimDelegated(ctx, *g, f.now(), f.now().Add(claimTTL))
		if err != nil {
			return fmt.Errorf("claiming tokens for %s: %w", g.endpoint, err)
		}
		if claimed {
			return f.refreshClaimed(ctx, g)
		}
		if !retry.Sleep(ctx, 50*time.Millisecond) {
			return fault.Timeout.New("The platform "+g.endpoint+" did not refresh the access token in time", ctx.Err())
		}
	}
}

// load reads the stored version of a delegated token.
func (f *Service) load(ctx context.Context, g *delegatedToken) (delegatedToken, error) {
	stored, err := f.store.delegatedToken(ctx, g.id)
	if err != nil {
		return stored, fmt.Errorf("reading tokens for %s: %w", g.endpoint, err)
	}
	return stored, f.open(&stored)
}

// refreshClaimed refreshes a delegated token that this process has claimed, and stores the
// result even if the caller disconnects: the old refresh token no longer works.
func (f *Service) refreshClaimed(ctx context.Context, g *delegatedToken) error {
	previous := g.renewed
	ctx = context.WithoutCancel(ctx)
	refreshCtx, cancel := context.WithTimeout(ctx, claimTTL/2)
	defer cancel()
	if err := f.refresh(refreshCtx, g); err != nil {
		if errors.Is(err, fault.Unauthenticated) {
			return err
		}
		return errors.Join(err, f.store.releaseDelegated(ctx, g.id))
	}
	g.renewed, g.used = f.now(), f.now()
	if !g.renewed.After(previous) {
		g.renewed = previous.Add(time.Microsecond)
	}
	if err := f.seal(g); err != nil {
		return err
	}
	if err := f.store.putDelegated(ctx, *g, f.now()); err != nil {
		return fmt.Errorf("writing refreshed tokens for %s: %w", g.endpoint, err)
	}
	return nil
}
