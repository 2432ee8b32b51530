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

// claimTTL is how long one process has to refresh a delegated token until another may.
const claimTTL = 30 * time.Second

// delegatedTTL is how long one is kept that nobody uses.
const delegatedTTL = 30 * 24 * time.Hour

// delegatedToken is tokens of a user of another platform. Its id follows from what the
// client keeps and sends every time: the refresh token, else the access token. So
// what came out of a refresh is found again when the client comes with the old.
type delegatedToken struct {
	id, endpoint string
	userID       int64
	tokenPair
	envelope vault.Envelope
	// renewed tells versions of the tokens apart; zero: as the client sent them.
	renewed, used time.Time
}

// tokenPair is what is sealed of a delegated token.
type tokenPair struct {
	Access  string `json:"access"`
	Refresh string `json:"refresh"`
}

func newDelegatedToken(endpoint, access, refresh string) delegatedToken {
	kept := refresh
	if kept == "" {
		kept = access
	}
	return delegatedToken{id: keyOf(endpoint, kept), endpoint: endpoint, tokenPair: tokenPair{access, refresh}}
}

func (f *Service) seal(g *delegatedToken) error {
	plain, err := json.Marshal(g.tokenPair)
	if err != nil {
		return errors.New("writing tokens") // none in the log
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

// keep writes a delegated token that was good just now, unless that is known.
func (f *Service) keep(ctx context.Context, g delegatedToken) error {
	now := f.now()
	if now.Sub(g.used) < api.UsedEvery {
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

// as asks with a delegated token's access token, and with what a refresh brings when that
// has expired. A token that cannot be refreshed is forgotten.
func (f *Service) as(ctx context.Context, g *delegatedToken, ask func(access string) error) error {
	err := ask(g.Access)
	// Once to find what another refresh brought, once for one of our own.
	for range 2 {
		if !errors.Is(err, errStale) {
			break
		}
		if err = f.renew(ctx, g); errors.Is(err, fault.Unauthenticated) {
			return errors.Join(err, f.store.deleteDelegated(ctx, g.id, g.renewed))
		}
		if err == nil {
			err = ask(g.Access)
		}
	}
	return err
}

// renew brings a delegated token's tokens to a newer version: the one that is stored, or
// one from a refresh. A refresh token works once, so of all replicas one trades it
// and the others wait for what comes of it.
func (f *Service) renew(ctx context.Context, g *delegatedToken) error {
	if g.Refresh == "" {
		return fault.Unauthenticated.New("The access token for "+g.endpoint+" has expired, and no refresh token came with it", nil)
	}
	first := *g
	if err := f.seal(&first); err != nil {
		return err
	}
	if err := f.store.addDelegated(ctx, first, f.now()); err != nil {
		return fmt.Errorf("writing tokens for %s: %w", g.endpoint, err)
	}
	for {
		stored, err := f.stored(ctx, g)
		if err != nil {
			return err
		}
		if !stored.renewed.Equal(g.renewed) {
			stored.endpoint, stored.userID = g.endpoint, max(g.userID, stored.userID)
			*g = stored
			return nil
		}
		*g = stored
		mine, err := f.store.claimDelegated(ctx, *g, f.now(), f.now().Add(claimTTL))
		if err != nil {
			return fmt.Errorf("claiming tokens for %s: %w", g.endpoint, err)
		}
		if mine {
			return f.trade(ctx, g)
		}
		if !retry.Sleep(ctx, 50*time.Millisecond) {
			return fault.Timeout.New("The platform "+g.endpoint+" did not refresh the access token in time", ctx.Err())
		}
	}
}

// stored is a delegated token as it is stored now.
func (f *Service) stored(ctx context.Context, g *delegatedToken) (delegatedToken, error) {
	stored, err := f.store.delegatedToken(ctx, g.id)
	if err != nil {
		return stored, fmt.Errorf("reading tokens for %s: %w", g.endpoint, err)
	}
	return stored, f.open(&stored)
}

// trade refreshes a delegated token that is claimed. What came of it is written down though
// the caller goes away: the old token is worth nothing any more.
func (f *Service) trade(ctx context.Context, g *delegatedToken) error {
	was := g.renewed
	ctx = context.WithoutCancel(ctx)
	asking, cancel := context.WithTimeout(ctx, claimTTL/2)
	defer cancel()
	if err := f.refresh(asking, g); err != nil {
		if errors.Is(err, fault.Unauthenticated) {
			return err
		}
		return errors.Join(err, f.store.releaseDelegated(ctx, g.id))
	}
	g.renewed, g.used = f.now(), f.now()
	if !g.renewed.After(was) {
		g.renewed = was.Add(time.Microsecond)
	}
	if err := f.seal(g); err != nil {
		return err
	}
	if err := f.store.putDelegated(ctx, *g, f.now()); err != nil {
		return fmt.Errorf("writing refreshed tokens for %s: %w", g.endpoint, err)
	}
	return nil
}
