// Package run implements the commands that use environments without a container engine: `slipway run`, `shell`, `mount`, `unmount`,
// `fetch` and `cache`. The environment of an image is mounted, not unpacked: see services/mount.
package run

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// An Exit is the exit code of a command that ran in an environment.
type Exit int

// Error returns a description.
func (e Exit) Error() string { return fmt.Sprintf("the command ended with the exit code %d", int(e)) }

// argumentHelp describes the arguments that select an environment.
const argumentHelp = `The environment is one of

  - packages, e.g. samtools=1.20 bwa: the server solves and packs them;
  - a lock or environment file, also with --file;
  - the name of an image with an environment, in any registry, e.g. one that
    ` + "`slipway conda`" + ` printed, or registry.example.org/team/tools@sha256:…;
  - ocidir://FOLDER:TAG, an image in a folder with an OCI layout.

What a name or request resolved to is remembered in the cache, so that the second
command needs no network. --refresh looks it up again; --offline never connects
to any server.
`

// Run returns `slipway run`.
func Run(s *session.Settings) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "run ENVIRONMENT... -- COMMAND [ARGUMENT...]",
		Short: "Run a command in an environment, without installing it and without a container engine",
		Long: `Run a command in an environment, without installing it and without a container
engine.

The environment is mounted read-only at /opt/conda in a mount namespace of the
command; everything else is that of this machine. No privilege is needed. Files
are fetched when they are first read, verified, and cached in SLIPWAY_CACHE, which
may be a folder that many machines share.

` + argumentHelp + `
The command gets the user's variables and those of the environment. The exit code
is that of the command, 126 if it cannot be started, or 127 if it does not exist.
Commands of a user on one machine share a mount, and so the files in memory: a
process serves it until no command has used it for --idle. In a job of a batch
system, only the commands of the job share it.

` + "`slipway doctor`" + ` reports what this machine can do, and what its administrator can
change.`,
		Example: `  slipway run samtools=1.20 -- samtools --version
  slipway run --file environment.yml -- python script.py
  slipway run registry.example.org/team/tools:2 -- bwa mem ref.fa reads.fq`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			if dash < 0 || dash == len(args) {
				return usage.Errorf("the command is missing; write it as `%s`", cmd.UseLine())
			}
			return f.execute(cmd, s, args[:dash:dash], args[dash:])
		},
	}
	f.add(cmd, s)
	f.addShare(cmd)
	f.addBase(cmd)
	cmd.Flags().StringArrayVarP(&f.baseBinds, "bind", "B", nil, "With --base, make `SOURCE[:TARGET[:ro]]` of the system visible; may be repeated.")
	return cmd
}

// Shell returns `slipway shell`.
func Shell(s *session.Settings) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "shell ENVIRONMENT...",
		Short: "Start a shell in an environment",
		Long:  "Start the user's shell (SHELL) in an environment, as `slipway run` does with a command.\n\n" + argumentHelp,
		Example: `  slipway shell samtools=1.20 bwa
  slipway shell --file pixi.lock`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.execute(cmd, s, args, []string{cmp.Or(os.Getenv("SHELL"), "/bin/sh")})
		},
	}
	f.add(cmd, s)
	f.addShare(cmd)
	f.addBase(cmd)
	cmd.Flags().StringArrayVarP(&f.baseBinds, "bind", "B", nil, "With --base, make `SOURCE[:TARGET[:ro]]` of the system visible; may be repeated.")
	return cmd
}

// execute runs a command and returns its exit code as an Exit.
func (f *flags) execute(cmd *cobra.Command, s *session.Settings, args, command []string) error {
	l, err := f.launch(cmd, s, args)
	if err != nil {
		return err
	}
	env := variables(l.prefix, os.Environ(), l.image)
	if f.base {
		if env, err = f.prepareBase(cmd, l); err != nil {
			return err
		}
	}
	code, err := l.run(cmd.Context(), command, env)
	if err == nil && code != 0 {
		return Exit(code)
	}
	return err
}

// prepareBase gives the command the root of the image, and returns its variables.
func (f *flags) prepareBase(cmd *cobra.Command, l *launch) ([]string, error) {
	if err := l.unpackBase(cmd.Context()); err != nil {
		return nil, err
	}
	see, err := container{binds: f.baseBinds}.layout(l.root, ownAccount())
	if err != nil {
		return nil, err
	}
	l.layout = &see
	return containerVariables(os.Environ(), l.image, false, see.home, nil), nil
}

// Fetch returns `slipway fetch`.
func Fetch(s *session.Settings) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "fetch ENVIRONMENT...",
		Short: "Fetch an environment into the cache completely, e.g. for machines without a network",
		Long: `Fetch an environment into the cache completely, e.g. for machines without a
network. Each package becomes one file of the cache. A command that was
interrupted continues with the packages that are missing.

` + argumentHelp,
		Example: `  SLIPWAY_CACHE=/shared/slipway slipway fetch --file environment.yml
  slipway run --offline --file environment.yml -- python script.py`,
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := f.launch(cmd, s, args)
			if err != nil {
				return err
			}
			if f.base {
				if err := l.unpackBase(cmd.Context()); err != nil {
					return err
				}
			}
			if l.prefix != "" {
				if err := l.complete(cmd.Context(), s.IsLive(cmd.ErrOrStderr())); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), l.name.Used())
			return err
		},
	}
	f.add(cmd, s)
	f.addBase(cmd)
	return cmd
}

// complete fetches the environment into the cache completely.
func (l *launch) complete(ctx context.Context, live bool) error {
	e, err := l.open(ctx)
	if err != nil {
		return err
	}
	defer e.files.Close()
	packages, missing := e.files.Size()
	began := time.Now()
	progress := func(done, all int) {
		if live {
			fmt.Fprintf(l.stderr, "\r\x1b[K%d of %d packages, %s", done, all, output.BytesText(float64(e.files.Stats.Bytes.Load())))
		}
	}
	err = e.files.Fetch(ctx, progress)
	if live {
		fmt.Fprint(l.stderr, "\r\x1b[K")
	}
	if err != nil {
		return err
	}
	if problem := l.cache.Problem(); problem != nil {
		return problem
	}
	fmt.Fprintf(l.stderr, "The cache %s has %s completely; %s were missing, %s were fetched in %v\n",
		l.cache.Dir(), output.Count(packages, "package"), output.BytesText(float64(missing)), output.BytesText(float64(e.files.Stats.Bytes.Load())), time.Since(began).Round(time.Millisecond))
	return nil
}
