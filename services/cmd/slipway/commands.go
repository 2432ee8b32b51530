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
	"slipway.dev/services/cmd/slipway/internal/manual"
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
	group     group
	construct constructor
}

// A group is a part of the list of commands in the help. Its value is its title.
type group string

const (
	images   group = "Images:"
	builds   group = "Builds:"
	packages group = "Packages:"
	trust    group = "Inspect and verify:"
	execute  group = "Run:"
	accounts group = "Account:"
	operate  group = "Operate:"
	program  group = "This program:"
)

// groups returns all groups, in the order of the help.
func groups() []*cobra.Group {
	var out []*cobra.Group
	for _, g := range []group{images, builds, packages, trust, execute, accounts, operate, program} {
		out = append(out, &cobra.Group{ID: string(g), Title: string(g)})
	}
	return out
}

// constructors returns the constructors of all commands, in the order in which they are suggested.
func constructors(env func(string) string) []namedConstructor {
	all := []namedConstructor{
		{"image", images, image.Command},
		{"mirror", images, image.Mirror},
		{"build", images, image.Build},
		{"conda", images, conda.Command},
		{"batch", images, batch.Command},
		{"bundle", images, bundle.Command},
		{"snakemake", images, snakemake.Command},
		{"nf-core", images, nfcore.Command},
		{"inspect", trust, paged(image.Inspect)},
		{"sbom", trust, image.SBOM},
		{"scan", trust, paged(image.Scan)},
		{"verify", trust, verify.Command},
		{"outdated", packages, paged(patch.Outdated)},
		{"patch", packages, patch.Command},
		{"catalog", images, paged(catalog.Command)},
		{"search", packages, paged(conda.Search)},
		{"lock", packages, conda.Lock},
		{"explain", packages, paged(conda.Explain)},
		{"licenses", packages, paged(conda.Licenses)},
		{"get", images, image.Get},
		{"pull", images, image.Pull},
		{"status", images, image.Status},
		{"describe", images, paged(image.Describe)},
		{"revoke", images, image.Revoke},
		{"containers", images, paged(image.Containers)},
		{"builds", builds, paged(image.Builds)},
		{"logs", builds, paged(image.Logs)},
		{"open", builds, func(s *session.Settings) *cobra.Command { return image.Open(s, env) }},
		{"metrics", operate, func(s *session.Settings) *cobra.Command { return server.Metrics(s, env) }},
		{"info", operate, server.Info},
		{"login", accounts, session.Login},
		{"logout", accounts, session.Logout},
		{"whoami", accounts, session.Whoami},
		{"tokens", accounts, account.Tokens},
		{"robots", accounts, account.Robots},
		{"webhooks", accounts, account.Webhooks},
		{"limits", operate, account.Limits},
		{"vex", trust, account.VEX},
		{"workspaces", accounts, account.Workspaces},
		{"credentials", accounts, account.Credentials},
		{"runs", execute, runs.Command},
		{"org", accounts, account.Org},
		{"workspace", accounts, account.Workspace},
		{"member", accounts, account.Member},
		{"audit", operate, paged(account.Audit)},
		{"usage", operate, paged(account.Usage)},
		{"config", program, session.Config},
		{"version", program, func(*session.Settings) *cobra.Command { return versionCommand() }},
		{"man", program, func(*session.Settings) *cobra.Command {
			return manual.Command(version, env, func() *cobra.Command { return command(env) })
		}},
	}
	after := slices.IndexFunc(all, func(c namedConstructor) bool { return c.name == "licenses" }) + 1
	return slices.Insert(all, after, linuxConstructors()...)
}

// paged returns the constructor of a command whose long results are shown in a pager.
func paged(construct constructor) constructor {
	return func(s *session.Settings) *cobra.Command { return s.Paged(construct(s)) }
}
