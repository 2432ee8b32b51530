package main

import (
	"slices"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/account"
	"slipway.dev/services/cmd/slipway/internal/batch"
	"slipway.dev/services/cmd/slipway/internal/bundle"
	"slipway.dev/services/cmd/slipway/internal/catalog"
	"slipway.dev/services/cmd/slipway/internal/conda"
	"slipway.dev/services/cmd/slipway/internal/image"
	"slipway.dev/services/cmd/slipway/internal/nfcore"
	"slipway.dev/services/cmd/slipway/internal/patch"
	"slipway.dev/services/cmd/slipway/internal/runs"
	"slipway.dev/services/cmd/slipway/internal/server"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/snakemake"
	"slipway.dev/services/cmd/slipway/internal/verify"
)

// A constructor returns a command of the command line.
type constructor func(*session.Settings) *cobra.Command

// A namedConstructor is the constructor of the command with a name.
type namedConstructor struct {
	name      string
	construct constructor
}

// constructors returns the constructors of all commands, in the order in which they are suggested.
func constructors(env func(string) string) []namedConstructor {
	all := []namedConstructor{
		{"image", image.Command},
		{"mirror", image.Mirror},
		{"build", image.Build},
		{"conda", conda.Command},
		{"batch", batch.Command},
		{"bundle", bundle.Command},
		{"snakemake", snakemake.Command},
		{"nf-core", nfcore.Command},
		{"inspect", paged(image.Inspect)},
		{"sbom", image.SBOM},
		{"scan", paged(image.Scan)},
		{"verify", verify.Command},
		{"outdated", paged(patch.Outdated)},
		{"patch", patch.Command},
		{"catalog", paged(catalog.Command)},
		{"search", paged(conda.Search)},
		{"lock", conda.Lock},
		{"explain", paged(conda.Explain)},
		{"licenses", paged(conda.Licenses)},
		{"get", image.Get},
		{"pull", image.Pull},
		{"status", image.Status},
		{"describe", paged(image.Describe)},
		{"revoke", image.Revoke},
		{"containers", paged(image.Containers)},
		{"builds", paged(image.Builds)},
		{"logs", paged(image.Logs)},
		{"open", func(s *session.Settings) *cobra.Command { return image.Open(s, env) }},
		{"metrics", func(s *session.Settings) *cobra.Command { return server.Metrics(s, env) }},
		{"info", server.Info},
		{"login", session.Login},
		{"logout", session.Logout},
		{"whoami", session.Whoami},
		{"tokens", account.Tokens},
		{"robots", account.Robots},
		{"webhooks", account.Webhooks},
		{"limits", account.Limits},
		{"vex", account.VEX},
		{"workspaces", account.Workspaces},
		{"credentials", account.Credentials},
		{"runs", runs.Command},
		{"org", account.Org},
		{"workspace", account.Workspace},
		{"member", account.Member},
		{"audit", paged(account.Audit)},
		{"usage", paged(account.Usage)},
		{"version", func(*session.Settings) *cobra.Command { return versionCommand() }},
	}
	after := slices.IndexFunc(all, func(c namedConstructor) bool { return c.name == "licenses" }) + 1
	return slices.Insert(all, after, linuxConstructors()...)
}

// paged returns the constructor of a command whose long results are shown in a pager.
func paged(construct constructor) constructor {
	return func(s *session.Settings) *cobra.Command { return s.Paged(construct(s)) }
}
