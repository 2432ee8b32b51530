package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
	"slipway.dev/services/mount/cache"
	"slipway.dev/services/mount/rootfs"
)

// Engines are the names of programs that this one is called by instead of `slipway singularity`, e.g. with a symbolic link.
func Engines() []string { return []string{"singularity", "apptainer"} }

// interfaceVersion is the version of Apptainer whose options are understood. Snakemake requires a minimum.
const interfaceVersion = "1.3.0"

// Singularity returns `slipway singularity`.
func Singularity(s *session.Settings) *cobra.Command {
	cmd := usage.Group("singularity", "Run images without a container engine, with the options of Singularity and Apptainer")
	cmd.Long = `Run images without a container engine, with the options of Singularity and
Apptainer that Nextflow and Snakemake use. A symbolic link to this program with the
name singularity or apptainer is the same command:

  ln -s "$(command -v slipway)" ~/bin/apptainer

An image is unpacked into the cache by the first command, and its environment, if
it has one, is mounted. The command runs as the user, with the user's network, /dev,
/proc, /sys, /tmp, home and working folder; it cannot change the image. No privilege
is needed, but user namespaces: see ` + "`slipway doctor`" + `. An option that this command
does not know is an error.

IMAGE is docker://NAME, oras://NAME, a Singularity image, or a file of ` + "`pull`" + `. That
file is small: it names the image in the cache, which must be on a disk that the
machines share (SLIPWAY_CACHE).

The variables that set these options, e.g. APPTAINER_BIND or SINGULARITY_CLEANENV, are
used as well. Those of options that are not supported are errors.`
	version := cmd.Flags().Bool("version", false, "Print the version of Apptainer whose options are understood.")
	help := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !*version {
			return help(cmd, args)
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "apptainer version %s+slipway.%s\n", interfaceVersion, strings.ReplaceAll(s.Version, "-", "."))
		return err
	}
	flags := cmd.PersistentFlags()
	for _, one := range []struct{ name, short, text string }{
		{"quiet", "q", "Print no messages but errors."},
		{"silent", "s", "Print no messages but errors."},
		{"debug", "d", "Accepted, and has no effect."},
		{"verbose", "v", "Accepted, and has no effect."},
		{"nocolor", "", "Accepted: messages have no colours."},
	} {
		flags.BoolP(one.name, one.short, false, one.text)
	}
	cmd.AddCommand(engineExec(s), engineRun(s), engineShell(s), enginePull(s), engineInspect(s))
	return cmd
}

// An engine is a command of `slipway singularity`.
type engine struct {
	flags
	container
	cleanEnv, containAll, pid bool
	env                       []string
	nvidia, rocm              bool
	plainHTTP, quiet          bool
	// entrypoint is set if the entrypoint of the image runs.
	entrypoint bool
}

// add adds the options of commands that run something.
func (e *engine) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.StringArrayVarP(&e.binds, "bind", "B", nil, "Make `SOURCE[:TARGET[:ro]]` of the system visible; may be repeated or separated by commas.")
	flags.StringVarP(&e.home, "home", "H", "", "The home folder, `SOURCE[:TARGET]`.")
	flags.BoolVar(&e.noHome, "no-home", false, "Do not make the home folder visible.")
	flags.StringVar(&e.dir, "pwd", "", "The working `folder` in the image.")
	flags.StringVar(&e.dir, "cwd", "", "As --pwd.")
	flags.StringArrayVar(&e.env, "env", nil, "A variable, `NAME=VALUE`; may be repeated.")
	flags.BoolVarP(&e.cleanEnv, "cleanenv", "e", false, "Do not pass the user's variables.")
	flags.BoolVarP(&e.contain, "contain", "c", false, "Make /tmp, /var/tmp and the home folder empty, and the working folder invisible.")
	flags.BoolVarP(&e.containAll, "containall", "C", false, "As --contain --cleanenv --pid.")
	flags.BoolVarP(&e.pid, "pid", "p", false, "Run in a namespace of processes, which end with the command.")
	flags.BoolVarP(new(bool), "userns", "u", false, "Accepted: a user namespace is always used.")
	flags.BoolVar(new(bool), "no-oci", false, "Accepted: the OCI mode does not exist.")
	flags.BoolVar(&e.nvidia, "nv", false, "Rejected: bind the libraries of the driver with --bind.")
	flags.BoolVar(&e.rocm, "rocm", false, "Rejected: bind the libraries of the driver with --bind.")
	e.addRegistry(cmd)
}

func (e *engine) addRegistry(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&e.plainHTTP, "no-https", false, "Use plain HTTP for the registry of the image.")
}

func engineExec(s *session.Settings) *cobra.Command {
	var e engine
	cmd := &cobra.Command{
		Use:     "exec [OPTION...] IMAGE COMMAND [ARGUMENT...]",
		Short:   "Run a command in an image",
		Example: "  slipway singularity exec --bind /data docker://docker.io/library/debian:12 cat /etc/debian_version",
		Args:    usage.AtLeast(2),
		RunE:    func(cmd *cobra.Command, args []string) error { return e.execute(cmd, s, args[0], args[1:]) },
	}
	e.add(cmd)
	return cmd
}

func engineRun(s *session.Settings) *cobra.Command {
	var e engine
	cmd := &cobra.Command{
		Use:   "run [OPTION...] IMAGE [ARGUMENT...]",
		Short: "Run the entrypoint of an image",
		Args:  usage.AtLeast(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			e.entrypoint = true
			return e.execute(cmd, s, args[0], args[1:])
		},
	}
	e.add(cmd)
	return cmd
}

func engineShell(s *session.Settings) *cobra.Command {
	var e engine
	cmd := &cobra.Command{
		Use:   "shell [OPTION...] IMAGE",
		Short: "Start a shell in an image",
		Args:  usage.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.execute(cmd, s, args[0], []string{"/bin/sh", "-c", "[ -x /bin/bash ] && exec /bin/bash --norc; exec /bin/sh"})
		},
	}
	e.add(cmd)
	return cmd
}

// execute runs a command in an image.
func (e *engine) execute(cmd *cobra.Command, s *session.Settings, image string, command []string) error {
	if err := refuseVariables(os.Getenv); err != nil {
		return err
	}
	if err := applyVariables(cmd, os.Getenv); err != nil {
		return err
	}
	if e.nvidia || e.rocm {
		return usage.Errorf("--nv and --rocm are not supported; bind the libraries of the driver with --bind, and set LD_LIBRARY_PATH with --env: the devices in /dev are visible")
	}
	if e.containAll {
		e.contain, e.cleanEnv, e.pid = true, true, true
	}
	for _, name := range bindVariables() {
		if v := os.Getenv(name); v != "" {
			e.binds = append([]string{v}, e.binds...)
		}
	}
	l, err := e.open(cmd, s, image)
	if err != nil {
		return err
	}
	if command, err = l.commandOf(e.entrypoint, command, forced(os.Environ(), e.env)); err != nil {
		return err
	}
	a := ownAccount()
	see, err := e.layout(l.root, a)
	if err != nil {
		return err
	}
	l.layout, l.processes = &see, e.pid
	env := environ(containerVariables(os.Environ(), l.image, e.cleanEnv, see.home, e.env))
	for _, name := range []string{"APPTAINER", "SINGULARITY"} {
		env.set(name+"_CONTAINER", image)
		env.set(name+"_NAME", filepath.Base(image))
	}
	code, err := l.run(cmd.Context(), command, env)
	if err == nil && code != 0 {
		return Exit(code)
	}
	return err
}

// open finds the image, and unpacks it.
func (e *engine) open(cmd *cobra.Command, s *session.Settings, image string) (*launch, error) {
	e.prepare(cmd, image)
	name := imageNameOf(image)
	if name != "" {
		l, err := e.launchImage(cmd, s, name)
		if err != nil {
			return nil, err
		}
		return l, l.unpackBase(cmd.Context())
	}
	path, err := filepath.Abs(strings.TrimPrefix(image, "file://"))
	if err != nil {
		return nil, fmt.Errorf("the image %s: %w", image, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the image %s: %w", image, err)
	}
	defer func() { _ = f.Close() }()
	start, err := io.ReadAll(io.LimitReader(f, maxReference))
	if err != nil {
		return nil, fmt.Errorf("reading the image %s: %w", image, err)
	}
	if rootfs.IsSingularity(start) {
		if err := e.refuseUnsigned(s); err != nil {
			return nil, err
		}
		return e.launchFile(cmd, s, f)
	}
	r, err := parseReference(start)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", image, err)
	}
	l := e.newLaunch(cmd, s, cache.Open(r.Cache, r.Lower...))
	l.offline, l.whole = true, true // everything was fetched
	if err := e.checkSigned(s, l.cache, r.Name); err != nil {
		return nil, fmt.Errorf("%s: %w", image, err)
	}
	if err := l.load(r.Name); err != nil {
		return nil, fmt.Errorf("%s: %w; pull the image again", image, err)
	}
	l.cache.Touch(l.name.Used(), l.name, time.Now())
	return l, l.unpackBase(cmd.Context())
}

// prepare sets what the flags of other commands set.
func (e *engine) prepare(cmd *cobra.Command, image string) {
	e.idle, e.whole = 2*time.Minute, true
	for _, name := range []string{"quiet", "silent"} {
		if quiet, err := cmd.Flags().GetBool(name); err == nil && quiet {
			e.quiet = true
		}
	}
	if host, _, ok := strings.Cut(imageNameOf(image), "/"); ok && e.plainHTTP {
		e.plain = append(e.plain, host)
	}
}

// imageNameOf returns the name of an image in a registry; "" for a file.
func imageNameOf(image string) string {
	for _, scheme := range []string{"docker://", "oras://"} {
		if name, ok := strings.CutPrefix(image, scheme); ok {
			return name
		}
	}
	if strings.HasPrefix(image, layoutScheme+"://") {
		return image
	}
	return ""
}

// commandOf returns the command to run: with entrypoint, that of the image with arguments. Variables take precedence over those that the scripts of a
// Singularity image set.
func (l *launch) commandOf(entrypoint bool, args, variables []string) ([]string, error) {
	if entrypoint && l.singularity {
		args = append([]string{"/.singularity.d/runscript"}, args...)
	} else if entrypoint {
		config := l.described.Config
		if len(args) == 0 {
			args = config.Cmd
		}
		args = append(append([]string{}, config.Entrypoint...), args...)
		if len(args) == 0 {
			return nil, errors.New("the image has no entrypoint and no command; use exec")
		}
	}
	if l.singularity {
		start := []string{"/bin/sh", "-c", singularityStart, "sh"}
		for _, v := range variables {
			if name, _, ok := strings.Cut(v, "="); ok && isVariable(name) {
				start = append(start, v)
			}
		}
		args = append(append(start, "--"), args...)
	}
	return args, nil
}

// singularityStart runs the scripts of a Singularity image that set its variables, sets the variables of the arguments before "--", and becomes the
// command of the others. The scripts run in a function, so that they cannot change the arguments.
const singularityStart = `scripts() { for f in /.singularity.d/env/*.sh; do [ -f "$f" ] && . "$f"; done; }; scripts
while [ "$1" != -- ]; do case "$1" in PREPEND_PATH=*) PATH="${1#*=}:$PATH";; APPEND_PATH=*) PATH="$PATH:${1#*=}";; *) command export "$1";; esac; shift; done
shift; exec "$@"`

// isVariable reports whether a shell accepts a name of a variable.
func isVariable(name string) bool {
	for i, r := range name {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

func enginePull(s *session.Settings) *cobra.Command {
	var e engine
	var name, dir string
	var force bool
	cmd := &cobra.Command{
		Use:   "pull [OPTION...] [FILE] IMAGE",
		Short: "Fetch an image into the cache, and write a file that names it",
		Long: `Fetch an image into the cache completely, and write a file that names it for the
commands exec, run and shell. The file has no token, and is valid as long as the
cache has the image: ` + "`slipway cache gc`" + ` deletes images that were not used.`,
		Args: usage.AtLeast(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 2 || len(args) == 2 && name != "" {
				return usage.Errorf("give one file and one image")
			}
			image := args[len(args)-1]
			if imageNameOf(image) == "" {
				return usage.Errorf("%s is not the name of an image: write docker://NAME or oras://NAME", image)
			}
			if len(args) == 2 {
				name = args[0]
			}
			if name == "" {
				name = fileNameOf(image)
			}
			return e.pull(cmd, s, image, filepath.Join(dir, name), force)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&name, "name", "", "The `file` to write (default: the image's name and tag, with .sif).")
	flags.StringVar(&dir, "dir", "", "The `folder` of the file.")
	flags.BoolVarP(&force, "force", "F", false, "Replace an existing file.")
	flags.BoolVar(new(bool), "disable-cache", false, "Rejected: the image is in the cache.")
	e.addRegistry(cmd)
	return cmd
}

// fileNameOf returns the name of the file for an image, as Apptainer does.
func fileNameOf(image string) string {
	name, tag, _ := strings.Cut(filepath.Base(imageNameOf(image)), ":")
	if tag == "" {
		tag = "latest"
	}
	return name + "_" + strings.ReplaceAll(tag, "@sha256:", "-") + ".sif"
}

func (e *engine) pull(cmd *cobra.Command, s *session.Settings, image, file string, force bool) error {
	if _, err := os.Lstat(file); err == nil && !force {
		return fmt.Errorf("the file %s exists; use --force to replace it", file)
	}
	if cmd.Flags().Changed("disable-cache") {
		return usage.Errorf("--disable-cache is not supported: the file of `pull` names the image in the cache")
	}
	if err := applyVariables(cmd, os.Getenv); err != nil {
		return err
	}
	e.refresh = true // a tag may have moved
	l, err := e.open(cmd, s, image)
	if err != nil {
		return err
	}
	if l.prefix != "" {
		if err := l.complete(cmd.Context(), s.IsLive(cmd.ErrOrStderr()) && !e.quiet); err != nil {
			return err
		}
	}
	if err := l.cache.Problem(); err != nil {
		return err
	}
	return writeReference(file, newReference(l))
}

func engineInspect(s *session.Settings) *cobra.Command {
	var e engine
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect [OPTION...] IMAGE",
		Short: "Print the digests and the labels of an image",
		Args:  usage.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, err := e.open(cmd, s, args[0])
			if err != nil {
				return err
			}
			raw, err := json.Marshal(map[string]any{"digest": l.name.ImageDigest, "environment": l.name.Environment, "labels": l.described.Config.Labels})
			if err != nil {
				return fmt.Errorf("printing the image: %w", err)
			}
			var t output.Table
			t.Fact("digest", l.name.ImageDigest)
			t.Fact("environment", l.name.Environment)
			for _, name := range sortedKeys(l.described.Config.Labels) {
				t.Fact(name, l.described.Config.Labels[name])
			}
			format := output.Format{Kind: "text"}
			if asJSON {
				format.Kind = "json"
			}
			return format.Print(cmd.OutOrStdout(), raw, t)
		},
	}
	cmd.Flags().BoolVarP(&asJSON, "json", "j", false, "Print JSON.")
	cmd.Flags().BoolP("labels", "l", false, "Accepted: labels are always printed.")
	e.addRegistry(cmd)
	return cmd
}
