package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/sink"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/platform"
	"slipway.dev/services/platform/federation"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/orgs"
	"slipway.dev/services/platform/vault"
)

// startPlatform starts the role platform. It creates the first user if no user exists.
func startPlatform(ctx context.Context, e *env) (parts, error) {
	deps, err := e.platformDeps()
	if err != nil {
		return parts{}, err
	}
	s, err := platform.New(deps)
	if err != nil {
		return parts{}, err
	}
	if err := s.CheckKeys(ctx); err != nil {
		return parts{}, err
	}
	token, err := e.ensureAdmin(ctx, s)
	if err != nil {
		return parts{}, err
	}
	p := parts{register: s.Register, run: []func(context.Context) error{s.Run}, firstToken: token}
	if deps.AuditSink != nil {
		p.checks = append(p.checks, newCheck("audit sink", optional, s.CheckAuditSink))
	}
	return p, nil
}

// ensureAdmin creates the first user if no user exists. Unless admin_token_file is set, it
// also creates an access token for that user, stores it in data_dir, and returns it.
func (e *env) ensureAdmin(ctx context.Context, s *platform.Service) (string, error) {
	admin := identity.Admin{Email: e.cfg.AdminEmail}
	if e.cfg.AdminTokenFile != "" {
		raw, err := os.ReadFile(e.cfg.AdminTokenFile)
		if err != nil {
			return "", fmt.Errorf("admin_token_file: %w", err)
		}
		admin.Token = strings.TrimSpace(string(raw))
		if admin.Token == "" {
			return "", errors.New("admin_token_file is empty")
		}
	}
	token, err := s.EnsureAdmin(ctx, admin)
	if err != nil || token == "" {
		return "", err
	}
	path, err := writeNew(e.dir("admin-token"), token+"\n")
	if err != nil {
		return "", fmt.Errorf("writing the first access token: %w", err)
	}
	e.log.InfoContext(ctx, "Created the first user's access token", "file", path)
	return token, nil
}

// writeNew creates a file that only its owner can read, and returns its path. If the file
// exists, it appends a number to the name.
func writeNew(path, content string) (string, error) {
	for n, name := 1, path; ; n, name = n+1, fmt.Sprintf("%s.%d", path, n) {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.WriteString(content)
		return name, errors.Join(err, f.Close())
	}
}

// platformDeps returns the platform's dependencies. A process with all roles creates its
// master key itself; any other process without a master key stores no credentials.
func (e *env) platformDeps() (platform.Deps, error) {
	logins, err := caller.ReadAuthFile(e.cfg.AdminRegistryAuth)
	if err != nil {
		return platform.Deps{}, err
	}
	foreign, err := e.foreign()
	if err != nil {
		return platform.Deps{}, err
	}
	provider, err := e.provider()
	if err != nil {
		return platform.Deps{}, err
	}
	groups, err := orgs.ParseGroupRoles(e.cfg.OIDCGroups)
	if err != nil {
		return platform.Deps{}, fmt.Errorf("oidc_groups: %w", err)
	}
	d := platform.Deps{
		DB: e.db, Endpoint: bare(e.cfg.PlatformURL), Aliases: []string{bare(e.cfg.PublicURL) + "/api"}, Pages: bare(e.cfg.PublicURL), AdminLogins: logins, Foreign: foreign, OIDC: provider, GroupRoles: groups, OperatorAccounts: e.cfg.OperatorAccounts,
		AuditRetention: e.cfg.AuditRetention, RequestRetention: e.cfg.RequestRetention, MaxTokenLife: e.cfg.TokenMaxLifetime,
		Version: e.version.Version, Commit: e.version.Commit, Receivers: upstream.NewTransport(e.net.egress.Except(append(private(e.cfg), e.loopbacks()...))), Metrics: e.reg, Log: e.log.With("service", "platform"), Now: time.Now,
	}
	if e.cfg.AuditSink != "" {
		if d.AuditSink, err = sink.Parse(e.cfg.AuditSink); err != nil {
			return platform.Deps{}, fmt.Errorf("audit_sink %w", err)
		}
	}
	if e.isWhole() || e.cfg.MasterKeyFile != "" {
		if d.Keys, err = vault.Open(MasterKeyFile(e.cfg), e.cfg.MasterKeyFile == ""); err != nil {
			return platform.Deps{}, err
		}
	}
	if provider.Issuer != "" && d.Keys == nil {
		return platform.Deps{}, errors.New("oidc_issuer requires master_key_file, whose keys protect the sign-in")
	}
	if e.redis != nil {
		d.Limiter = e.limiter()
	}
	if e.nats != nil {
		d.Bus, d.Events = e.nats, e.nats
	}
	return d, nil
}

// bare returns a base address without a trailing slash.
func bare(url string) string { return strings.TrimRight(url, "/") }

// foreign returns the other trusted platforms.
func (e *env) foreign() (federation.Trusted, error) {
	operators, err := caller.ReadAuthFile(e.cfg.PlatformAuthFile)
	if err != nil {
		return federation.Trusted{}, fmt.Errorf("platform_auth_file: %w", err)
	}
	f := federation.Trusted{Operators: operators, Transport: upstream.NewTransport(e.net.egress)}
	for _, e := range e.cfg.PlatformEndpoints {
		f.Endpoints = append(f.Endpoints, bare(e))
	}
	return f, nil
}

// provider returns the sign-in provider.
func (e *env) provider() (identity.OIDC, error) {
	p := identity.OIDC{Issuer: e.cfg.OIDCIssuer, ClientID: e.cfg.OIDCClientID, AutoCreate: e.cfg.OIDCAutoCreate, Scopes: e.cfg.OIDCScopes}
	if len(e.cfg.OIDCGroups) > 0 {
		p.GroupsClaim = e.cfg.OIDCGroupsClaim
	}
	if e.cfg.OIDCClientSecretFile == "" {
		return p, nil
	}
	raw, err := os.ReadFile(e.cfg.OIDCClientSecretFile)
	if err != nil {
		return p, fmt.Errorf("oidc_client_secret_file: %w", err)
	}
	p.ClientSecret = strings.TrimSpace(string(raw))
	return p, nil
}
