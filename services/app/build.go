package app

import (
	"context"
	"net"
	"net/url"
	"slices"
	"time"

	"slipway.dev/services/build"
	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/limits"
)

// startBuild starts the role build.
func startBuild(_ context.Context, e *env) (parts, error) {
	keys, err := e.keychain()
	if err != nil {
		return parts{}, err
	}
	signer, err := e.sifSigner()
	if err != nil {
		return parts{}, err
	}
	rules, err := e.imageRules()
	if err != nil {
		return parts{}, err
	}
	s, err := build.New(build.Deps{
		DB: e.db, Bus: e.nats, Platform: e.platform(),
		Upstream: e.net.client, Control: e.net.control, Keychain: keys, Limiter: e.limiter(), Signer: signer, Metrics: e.reg,
		Log: e.log.With("service", "build"), Now: time.Now,
		Settings: build.Settings{
			LayerStore:     int64(e.cfg.LayerStore),
			OwnMachineFree: e.ownMachineFree,
			RunningUser:    e.cfg.BuildRunningUser, RunningAnonymous: e.cfg.BuildRunningAnonymous, ReserveForUsers: !e.ownMachine(),
			LimitsWait: limits.LimitsWait,
			TimeUser:   e.cfg.BuildTimeoutUser, TimeAnonymous: e.cfg.BuildTimeoutAnonymous,
			Retention: e.cfg.RequestRetention, Own: e.own().String(), PlatformURL: bare(e.cfg.PlatformURL), LayerMemory: e.cfg.CondaLayerMemory, BuildersOnDemand: e.cfg.BuildersOnDemand, VerifyRebuild: float64(e.cfg.VerifyRebuild), ImageRules: rules,
		},
	})
	if err != nil {
		return parts{}, err
	}
	return parts{register: s.Register, run: []func(context.Context) error{s.Run}}, nil
}

// sifSigner returns what signs Singularity images; nil if sign_sif is off.
func (e *env) sifSigner() (*attest.Signer, error) {
	if !e.cfg.SignSIF {
		return nil, nil //nolint:nilnil // signing is optional
	}
	keys, err := e.signing()
	return keys.Signer, err
}

// ownMachine reports whether only programs on this machine can be clients. Behind a proxy on
// this machine, every client would seem to be one of them, so public_url must be on loopback,
// too.
func (e *env) ownMachine() bool {
	public, err := url.Parse(e.cfg.PublicURL)
	return err == nil && e.isWhole() && config.IsLoopback(e.cfg.HTTPAddr) && config.IsLoopback(net.JoinHostPort(public.Hostname(), "0"))
}

// ownMachineFree reports whether builds are unlimited for clients on this machine: there are
// no other clients, and limit_builds_anonymous is not set.
func (e *env) ownMachineFree() bool {
	return e.ownMachine() && !slices.Contains(e.live.settings().Given, "limit_builds_anonymous")
}
