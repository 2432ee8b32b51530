package conda

import (
	"strings"

	"github.com/spf13/cobra"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	"slipway.dev/services/cmd/slipway/internal/image"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// packageFlags are the flags that select Conda packages and platforms.
type packageFlags struct {
	file        string
	environment string
	channels    []string
	platforms   []string
	virtual     usage.Assignments
	newer       string
	asOf        string
	minAge      string
	exceptions  []string
	flexible    bool
	refresh     bool
	workspace   *string
}

func (f *packageFlags) add(cmd *cobra.Command, s *session.Settings) {
	flags := cmd.Flags()
	flags.StringVarP(&f.file, "file", "f", "", "A Conda environment or lock `file` instead of packages; - for standard input.")
	addEnvironment(cmd, &f.environment)
	flags.StringArrayVarP(&f.channels, "channel", "c", nil, "A `channel` to take packages from; may be repeated, highest priority first (default: the server's, conda-forge and bioconda).")
	flags.StringSliceVar(&f.platforms, "platform", nil, "The platforms, linux/amd64, linux/arm64 or both with a comma between (default: linux/amd64).")
	flags.Var(&f.virtual, "virtual-package", "What the machine has, e.g. __glibc=2.28 or __cuda=12.4; an empty value removes it. May be repeated.")
	flags.StringVar(&f.newer, "exclude-newer", "", "Ignore packages that were built after this `time`, RFC 3339, e.g. 2026-01-31T00:00:00Z.")
	addAges(cmd, &f.asOf, &f.minAge, &f.exceptions)
	flags.BoolVar(&f.refresh, "refresh", false, "Check the channels for changed package lists, unless that was done in the last minute.")
	flags.BoolVar(&f.flexible, "flexible", false, "Use a package of a later channel if those of the first channel with its name do not fit.")
	f.workspace = session.WorkspaceFlag(cmd, s, "whose logins for private channels are used")
	usage.CompleteFlag(cmd, "channel", "conda-forge", "bioconda")
	usage.CompleteFlag(cmd, "platform", "linux/amd64", "linux/arm64", "linux/amd64,linux/arm64")
	usage.CompleteFlag(cmd, "virtual-package", "__glibc=", "__cuda=", "__archspec=")
	usage.CompleteFlag(cmd, "exclude-newer")
}

func (f *packageFlags) check(args []string) error {
	switch {
	case len(args) == 0 && f.file == "":
		return usage.Errorf("nothing to solve; name packages, or give --file")
	case len(args) > 0 && f.file != "":
		return usage.Errorf("give either packages or --file")
	}
	return condaSpecs(args)
}

// query returns the query of the flags and arguments.
func (f *packageFlags) query(cmd *cobra.Command, c *session.Client, args []string) (*condav1.LockQuery, error) {
	q := &condav1.LockQuery{
		Packages:  &condav1.CondaPackages{Type: "CONDA", Entries: args, Channels: f.channels, EnvironmentName: f.environment},
		Platforms: f.platforms, ExcludeNewer: f.newer, AsOf: f.asOf, MinAge: f.minAge, MinAgeExcept: f.exceptions, Refresh: f.refresh, Flexible: f.flexible, VirtualPackages: f.virtual.Values(),
	}
	if f.file != "" {
		var err error
		if q.Packages.Environment, err = image.Encoded(cmd, f.file); err != nil {
			return nil, err
		}
	}
	workspace, err := c.Workspace(cmd.Context(), *f.workspace)
	if err == nil && workspace != 0 {
		q.PlatformWorkspaceId = &workspace
	}
	return q, err
}

// condaSpecs rejects versions in docker's syntax.
func condaSpecs(args []string) error {
	for _, a := range args {
		name, version, ok := strings.Cut(a, ":")
		if ok && name != "" && name != "pip" && version != "" && !strings.ContainsAny(version, ":/") && !strings.ContainsAny(name, " =<>!/") {
			return usage.Errorf("%q: a version follows =, as in %s=%s; a channel ::, as in CHANNEL::%s", a, name, version, name)
		}
	}
	return nil
}
