package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/build"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/registry/store"
)

func (a *App) buildBuild() error {
	keys, err := a.keychain()
	if err != nil {
		return err
	}
	s, err := build.New(build.Deps{
		DB: a.db, Bus: a.nats, Platform: platformv1.NewPlatformServiceClient(a.conns["platform"]),
		Upstream: a.net.client, Control: a.net.control, Keychain: keys, Limiter: a.limiter(), Metrics: a.reg,
		Log: a.log.With("room", "build"), Now: time.Now,
		Settings: build.Settings{
			LayerStore: int64(a.cfg.LayerStore),
			BuildsUser: a.cfg.LimitBuildsUser, BuildsAnonymous: a.cfg.LimitBuildsAnonymous, OwnMachineFree: a.ownMachineFree(),
			RunningUser: a.cfg.BuildRunningUser, RunningAnonymous: a.cfg.BuildRunningAnonymous,
			TimeUser: a.cfg.BuildTimeoutUser, TimeAnonymous: a.cfg.BuildTimeoutAnonymous,
			Retention: a.cfg.RequestRetention, Own: a.own().String(), LayerMemory: a.cfg.CondaLayerMemory, BuildersOnDemand: a.cfg.BuildersOnDemand,
		},
	})
	if err != nil {
		return err
	}
	a.services = append(a.services, s.Register)
	a.background = append(a.background, s.Run)
	return nil
}

// ownMachineFree says whether builds of clients on this machine are not limited: where
// nobody else has clients, and nobody chose a limit. Behind a proxy on this machine
// everybody would be such a client, so its address must not be public.
func (a *App) ownMachineFree() bool {
	public, err := url.Parse(a.cfg.PublicURL)
	return err == nil && a.isWhole() && config.IsLoopback(a.cfg.HTTPAddr) && config.IsLoopback(net.JoinHostPort(public.Hostname(), "0")) &&
		slices.Equal(a.cfg.LimitBuildsAnonymous, ratelimit.Limit{{Count: 25, Window: 24 * time.Hour}})
}

// builds is the build room; nil where there is none.
func (a *App) builds() buildv1.BuildServiceClient {
	if a.conns["build"] == nil {
		return nil
	}
	return buildv1.NewBuildServiceClient(a.conns["build"])
}

// containers is the container room; nil where there is none.
func (a *App) containers() containerv1.ContainerServiceClient {
	if a.conns["container"] == nil {
		return nil
	}
	return containerv1.NewContainerServiceClient(a.conns["container"])
}

// conda is the conda room; nil where there is none.
func (a *App) conda() condav1.CondaServiceClient {
	if a.conns["conda"] == nil {
		return nil
	}
	return condav1.NewCondaServiceClient(a.conns["conda"])
}

// hasStore says whether this process keeps images itself: only one that plays
// all roles can, and only when there is no other place.
func (a *App) hasStore() bool { return a.isWhole() && a.cfg.BuildRepository == "" }

// own is where built images go; nowhere when there is no place.
func (a *App) own() caller.Own {
	if a.hasStore() {
		return caller.Own{Host: a.cfg.StoreAddr, Repository: storeRepository, Login: a.storeLogin, Grant: a.storeGrant}
	}
	host, repository, _ := strings.Cut(a.cfg.BuildRepository, "/")
	return caller.Own{Host: host, Repository: repository}
}

// storeRepository is the embedded store's one.
const storeRepository = "builds"

// openImageStore opens the embedded image store at store_addr. Its login lives as long
// as the process: nobody else has a use for it. Builds get logins of their own.
func (a *App) openImageStore(ctx context.Context) error {
	if !a.hasStore() {
		return nil
	}
	a.storeLogin = upstream.Login{Username: "slipway", Password: rand.Text()}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", a.cfg.StoreAddr)
	if err != nil {
		return fmt.Errorf("store_addr: %w", err)
	}
	s := store.New(a.cfg.DataDir, a.storeLogin, a.log)
	a.storeGrant = s.Grant
	a.images = s
	a.background = append(a.background, a.collectImages)
	server := a.httpServer(s)
	a.onClose(server.Close)
	a.background = append(a.background, func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving the image store: %w", err)
		}
		return nil
	})
	return nil
}
