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

// Buildkitd is what `slipwayd buildkitd` is told, beside the settings.
type Buildkitd struct {
	// Root is the folder of the caches, Run the one of sockets.
	Root, Run string
	// Addresses are unix://… and tcp://….
	Addresses []string
	// Cache is what the caches may take of the disk.
	Cache config.Bytes
	// More is a file that is added to buildkitd's configuration; "" for none.
	More string
	// Args are buildkitd's own.
	Args []string
}

// Serve runs a buildkitd for builders elsewhere, until ctx ends and its builds
// have. Its log goes to stderr.
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
		Egress: egress, StepEgress: steps, Plain: cfg.InsecureRegistries, Mirrors: mirrors, NoNewPrivileges: cfg.BuildNoNewPrivileges, Runtime: cfg.RuncPath,
		Stderr: stderr, Log: log,
	})
}

// withoutRegistries are the allowed names without those of registries (host:port)
// that are there for buildkitd: in plain http, and often without a login, whoever
// reaches one could replace what others built.
func withoutRegistries(allow, registries []string) []string {
	return slices.DeleteFunc(slices.Clone(allow), func(a string) bool {
		return slices.ContainsFunc(registries, func(r string) bool {
			host, _, _ := strings.Cut(r, ":")
			return strings.EqualFold(a, r) || strings.EqualFold(a, host)
		})
	})
}
