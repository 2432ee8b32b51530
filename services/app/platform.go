package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"slipway.dev/gateway"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/platform"
	"slipway.dev/services/platform/federation"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/vault"
)

// platformDeps is what the platform works with. The program that plays all roles
// makes its master key itself; without one a part keeps no credentials.
func (a *App) platformDeps() (platform.Deps, error) {
	logins, err := caller.ReadAuthFile(a.cfg.AdminRegistryAuth)
	if err != nil {
		return platform.Deps{}, err
	}
	foreign, err := a.foreign()
	if err != nil {
		return platform.Deps{}, err
	}
	provider, err := a.provider()
	if err != nil {
		return platform.Deps{}, err
	}
	d := platform.Deps{
		DB: a.db, Endpoint: bare(a.cfg.PlatformURL), Aliases: []string{bare(a.cfg.PublicURL) + "/api"}, Pages: bare(a.cfg.PublicURL), AdminLogins: logins, Foreign: foreign, OIDC: provider, OperatorAccounts: a.cfg.OperatorAccounts,
		CallLimit: a.cfg.LimitPlatform, AuditRetention: a.cfg.AuditRetention,
		Version: a.from.Version, Commit: a.from.Commit, Log: a.log.With("room", "platform"), Now: time.Now,
	}
	if a.isWhole() || a.cfg.MasterKeyFile != "" {
		if d.Keys, err = vault.Open(masterKeyFile(a.cfg), a.cfg.MasterKeyFile == ""); err != nil {
			return platform.Deps{}, err
		}
	}
	if provider.Issuer != "" && d.Keys == nil {
		return platform.Deps{}, errors.New("oidc_issuer needs master_key_file: its keys sign in whoever comes from there")
	}
	if a.redis != nil {
		d.Limiter = a.limiter()
	}
	if a.nats != nil {
		d.Bus = a.nats
	}
	return d, nil
}

// bare is a base address without a slash at the end.
func bare(url string) string { return strings.TrimRight(url, "/") }

// foreign is the other platforms that are believed.
func (a *App) foreign() (federation.Trusted, error) {
	operators, err := caller.ReadAuthFile(a.cfg.PlatformAuthFile)
	if err != nil {
		return federation.Trusted{}, fmt.Errorf("platform_auth_file: %w", err)
	}
	f := federation.Trusted{Operators: operators, Transport: upstream.NewTransport(a.net.egress)}
	for _, e := range a.cfg.PlatformEndpoints {
		f.Endpoints = append(f.Endpoints, bare(e))
	}
	return f, nil
}

// provider is where people may sign in.
func (a *App) provider() (identity.OIDC, error) {
	p := identity.OIDC{Issuer: a.cfg.OIDCIssuer, ClientID: a.cfg.OIDCClientID}
	if a.cfg.OIDCClientSecretFile == "" {
		return p, nil
	}
	raw, err := os.ReadFile(a.cfg.OIDCClientSecretFile)
	if err != nil {
		return p, fmt.Errorf("oidc_client_secret_file: %w", err)
	}
	p.ClientSecret = strings.TrimSpace(string(raw))
	return p, nil
}

// withPlatform puts the platform's API under its legacy address, /api, and keeps
// it for its own.
func (a *App) withPlatform(ctx context.Context, rest http.Handler) (http.Handler, error) {
	conn := a.conns["platform"]
	if conn == nil {
		return rest, nil
	}
	h, err := gateway.NewPlatform(ctx, conn)
	if err != nil {
		return nil, err
	}
	a.platformAPI = h
	below := http.StripPrefix("/api", h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			below.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	}), nil
}
