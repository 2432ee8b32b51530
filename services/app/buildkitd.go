package app

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"

	"slipway.dev/services/builder/daemon"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/upstream"
)

// Buildkitd holds the options of `slipwayd buildkitd` besides the settings.
type Buildkitd struct {
	// Root is the folder of the caches, and Run that of the sockets.
	Root, Run string
	// Addresses are unix://… and tcp://….
	Addresses []string
	// Cache limits the disk space of the caches.
	Cache config.Bytes
	// More is a file that is added to buildkitd's configuration; "" for none.
	More string
	// Args are buildkitd's own flags.
	Args []string
}

// Serve runs a buildkitd for remote builders until ctx and its builds have ended. Its log
// goes to stderr.
func (b Buildkitd) Serve(ctx context.Context, cfg config.Config, stderr io.Writer, log *slog.Logger) error {
	egress, err := upstream.NewEgress(cfg.EgressAllow)
	if err != nil {
		return err
	}
	steps, err := upstream.NewEgress(withoutRegistries(cfg.EgressAllow, cfg.InsecureRegistries))
	if err != nil {
		return err
	}
	mirrors, err := upstream.ParseMirrors(cfg.RegistryMirrors)
	if err != nil {
		return err
	}
	return daemon.Serve(ctx, daemon.ServeOptions{
		Root: b.Root, Run: b.Run, Addresses: b.Addresses, Args: b.Args, More: b.More, Cache: int64(b.Cache),
		Egress: egress, StepEgress: steps.Except(private(cfg)), Plain: cfg.InsecureRegistries, Mirrors: mirrors, NoNewPrivileges: cfg.BuildNoNewPrivileges, Runtime: cfg.RuncPath,
		Stderr: stderr, Log: log,
	})
}

// withoutRegistries returns the allowed names without registries (host:port). Steps must
// not reach these: they use plain HTTP and often no login, so that a step could replace
// images of other users.
func withoutRegistries(allow, registries []string) []string {
	return slices.DeleteFunc(slices.Clone(allow), func(a string) bool {
		return slices.ContainsFunc(registries, func(r string) bool {
			host, _, _ := strings.Cut(r, ":")
			return strings.EqualFold(a, r) || strings.EqualFold(a, host)
		})
	})
}
