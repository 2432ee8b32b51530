package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"slipway.dev/gateway"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/container"
	"slipway.dev/services/container/conda"
	"slipway.dev/services/inspect"
	"slipway.dev/services/internal/bucket"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/platform"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/registry"
)

func (a *App) buildPlatform() error {
	deps, err := a.platformDeps()
	if err != nil {
		return err
	}
	s, err := platform.New(deps)
	if err != nil {
		return err
	}
	if err := s.CheckKeys(context.Background()); err != nil {
		return err
	}
	if err := a.ensureAdmin(s); err != nil {
		return err
	}
	a.services = append(a.services, s.Register)
	a.background = append(a.background, s.Run)
	return nil
}

// ensureAdmin makes the first user and, at the first start, a token in data_dir.
func (a *App) ensureAdmin(s *platform.Service) error {
	admin := identity.Admin{Email: a.cfg.AdminEmail}
	if a.cfg.AdminTokenFile != "" {
		raw, err := os.ReadFile(a.cfg.AdminTokenFile)
		if err != nil {
			return fmt.Errorf("admin_token_file: %w", err)
		}
		admin.Token = strings.TrimSpace(string(raw))
		if admin.Token == "" {
			return errors.New("admin_token_file is empty")
		}
	}
	made, err := s.EnsureAdmin(context.Background(), admin)
	if err != nil || made == "" {
		return err
	}
	path := a.dir("admin-token")
	if err := os.WriteFile(path, []byte(made+"\n"), 0o600); err != nil {
		return fmt.Errorf("writing the first access token: %w", err)
	}
	a.firstToken = made
	a.log.Info("The first user's access token was made", "file", path)
	return nil
}

// keychain is made by the first role that asks for it.
func (a *App) keychain() (*caller.Keychain, error) {
	if a.net.keychain != nil {
		return a.net.keychain, nil
	}
	logins, err := caller.ReadAuthFile(a.cfg.RegistryAuthFile)
	if err != nil {
		return nil, fmt.Errorf("registry_auth_file: %w", err)
	}
	keys := caller.NewKeychain(logins, platformv1.NewPlatformServiceClient(a.conns["platform"]))
	if a.nats != nil {
		if _, err := a.nats.Subscribe(caller.Changed, func(m *nats.Msg) { keys.Forget(string(m.Data)) }); err != nil {
			return nil, fmt.Errorf("listening for changes of rights: %w", err)
		}
	}
	a.net.keychain = keys.WithOwn(a.own())
	return a.net.keychain, nil
}

// limiter is one for the whole process: its metrics can be registered once.
func (a *App) limiter() *ratelimit.Limiter {
	if a.limits == nil {
		a.limits = ratelimit.New(a.redis, a.reg, a.log)
		a.onClose(func() error { a.limits.Close(); return nil })
	}
	return a.limits
}

func (a *App) buildContainer() error {
	keys, err := a.keychain()
	if err != nil {
		return err
	}
	public, err := url.Parse(a.cfg.PublicURL)
	if err != nil {
		return fmt.Errorf("public_url: %w", err)
	}
	images, err := conda.Images{Mamba: a.cfg.CondaMambaImage, Base: a.cfg.CondaBaseImage}.Qualified()
	if err != nil {
		return err
	}
	s, err := container.New(container.Deps{
		DB: a.db, Redis: a.redis, Bus: a.nats,
		Platform: platformv1.NewPlatformServiceClient(a.conns["platform"]), Build: a.builds(), Conda: a.conda(),
		Upstream: a.net.client, Keychain: keys, Limiter: a.limiter(),
		Log: a.log.With("room", "container"), Now: time.Now,
		Settings: container.Settings{
			Host:              public.Host,
			PublicURL:         strings.TrimRight(a.cfg.PublicURL, "/"),
			Builds:            container.Builds{Registry: a.own().Host, Repository: a.own().Repository},
			AnonymousAccess:   a.cfg.AnonymousAccess,
			TokenTTL:          a.cfg.TokenTTL,
			Retention:         a.cfg.RequestRetention,
			RequestsUser:      a.cfg.LimitRequestsUser,
			RequestsAnonymous: a.cfg.LimitRequestsAnonymous,
			PullsUser:         a.cfg.LimitPullsUser,
			PullsAnonymous:    a.cfg.LimitPullsAnonymous,
			CondaSolveWait:    a.cfg.CondaSolveWait,
			CondaLockTTL:      a.cfg.CondaLockTTL,
			CondaImages:       images,
			LayerStore:        int64(a.cfg.LayerStore),
			TokenMemory:       a.tokenMemory(),
			OperatorAccounts:  a.cfg.OperatorAccounts,
			Version:           a.from.Version,
			Commit:            a.from.Commit,
		},
	})
	if err != nil {
		return err
	}
	a.services = append(a.services, s.Register)
	a.background = append(a.background, s.Run)
	return nil
}

func (a *App) buildInspect() error {
	keys, err := a.keychain()
	if err != nil {
		return err
	}
	public, err := url.Parse(a.cfg.PublicURL)
	if err != nil {
		return fmt.Errorf("public_url: %w", err)
	}
	s := inspect.New(inspect.Deps{
		Platform:   platformv1.NewPlatformServiceClient(a.conns["platform"]),
		Containers: a.containers(), Host: public.Host,
		Upstream: a.net.client, Control: a.net.control, Keychain: keys, Limiter: a.limiter(),
		AnonymousAccess: a.cfg.AnonymousAccess,
		PullsUser:       a.cfg.LimitPullsUser,
		PullsAnonymous:  a.cfg.LimitPullsAnonymous,
	})
	a.services = append(a.services, s.Register)
	return nil
}

func (a *App) buildRegistry() error {
	keys, err := a.keychain()
	if err != nil {
		return err
	}
	spool := ""
	if a.cfg.CountPulls {
		spool = a.dir("pulls")
	}
	kept, err := Bucket(a.cfg)
	if err != nil {
		return err
	}
	r, err := registry.New(registry.Deps{
		Containers: containerv1.NewContainerServiceClient(a.conns["container"]),
		Builds:     a.builds(), Bus: a.nats,
		Upstream: a.net.client, Control: a.net.control, Keychain: keys,
		Limiter: a.limiter(), Metrics: a.reg, Log: a.log.With("room", "registry"), Now: time.Now,
		Settings: registry.Settings{
			PullsUser: a.cfg.LimitPullsUser, PullsAnonymous: a.cfg.LimitPullsAnonymous,
			LayerDir: a.dir("layers"), LayerCache: int64(a.cfg.LayerCache), ImageCache: int64(a.cfg.ImageCache),
			BlobDir: a.cfg.BlobCache, BlobBucket: kept, BlobCache: int64(a.cfg.BlobCacheSize),
			TagFreshness: a.cfg.TagFreshness, PullWait: a.cfg.PullWait, PublicURL: strings.TrimRight(a.cfg.PublicURL, "/"),
			SpoolDir: spool, FilesystemPrefix: a.cfg.FilesystemPrefix,
		},
	})
	if err != nil {
		return err
	}
	a.onClose(r.Close)
	a.background = append(a.background, r.Run)
	a.pulls = r
	return nil
}

// Bucket is that of blob_cache, which the caller closes; nil where that is none.
func Bucket(cfg config.Config) (*bucket.Bucket, error) {
	if !bucket.IsAddress(cfg.BlobCache) {
		return nil, nil //nolint:nilnil // there is none
	}
	at, err := bucket.Parse(cfg.BlobCache)
	if err != nil {
		return nil, fmt.Errorf("blob_cache %w", err)
	}
	return bucket.Open(at, cfg.BlobCacheLogin)
}

func (a *App) buildGateway() error {
	// Followed logs end when the drain begins: who reads on comes back elsewhere.
	ctx, stop := context.WithCancel(context.Background())
	a.onDrain = append(a.onDrain, stop)
	a.onClose(func() error { stop(); return nil })
	h, err := gateway.New(ctx, gateway.Conns{Build: a.conns["build"], Conda: a.conns["conda"], Container: a.conns["container"], Inspect: a.conns["inspect"], Metrics: a.conns["metrics"]})
	if err != nil {
		return err
	}
	a.api, err = a.withPlatform(ctx, h)
	return err
}
