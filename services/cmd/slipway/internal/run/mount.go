package run

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
	"slipway.dev/services/mount/fuse"
	"slipway.dev/services/mount/kernel"
	"slipway.dev/services/mount/sandbox"
)

// Mount returns `slipway mount`.
func Mount(s *session.Settings) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "mount ENVIRONMENT... FOLDER",
		Short: "Mount an environment at a folder, e.g. in the prolog of a batch system",
		Long: `Mount an environment read-only at a folder, e.g. in the prolog of a batch system.

Root mounts EROFS of the kernel if the environment is complete in the cache (see
` + "`slipway fetch`" + `) and the kernel can; no process stays. Otherwise a process of this
program serves the files until ` + "`slipway unmount`" + `. Other users need the program
fusermount3, and only they see the files.

The files contain the path /opt/conda: most programs work only if the folder is
/opt/conda, or if it is made visible there.

` + argumentHelp,
		Example: `  slipway mount --file environment.yml /opt/conda
  slipway mount registry.example.org/team/tools:2 /opt/conda
  slipway unmount /opt/conda`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) == 1 && f.file == "" {
				return usage.Errorf("the folder is missing; write it as `%s`", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			folder, err := mountPoint(args[len(args)-1])
			if err != nil {
				return err
			}
			l, err := f.launch(cmd, s, args[:len(args)-1:len(args)-1])
			if err != nil {
				return err
			}
			return l.mount(cmd, folder)
		},
	}
	f.add(cmd, s)
	return cmd
}

// mountPoint returns the absolute path of an existing folder.
func mountPoint(path string) (string, error) {
	folder, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("the folder %s: %w", path, err)
	}
	info, err := os.Stat(folder)
	if err == nil && !info.IsDir() {
		err = errors.New("it is not a folder")
	}
	if err != nil {
		return "", fmt.Errorf("mounting at %s: %w", path, err)
	}
	return folder, nil
}

// mount mounts the environment at a folder of this namespace.
func (l *launch) mount(cmd *cobra.Command, folder string) error {
	if os.Getuid() == 0 {
		tree, err := l.kernelMount(cmd.Context())
		if err != nil {
			return err
		}
		if tree != nil {
			defer func() { _ = tree.Close() }()
			if err := kernel.Attach(tree, folder); err != nil {
				return err
			}
			fmt.Fprintf(l.stderr, "The kernel has mounted the environment at %s.\n", folder)
			return nil
		}
	}
	if err := l.refuseHidden(folder); err != nil {
		return err
	}
	s := l.serving()
	s.Folder = folder
	if err := s.start(mountMarker, false); err != nil {
		return sandbox.Advise(err)
	}
	fmt.Fprintf(l.stderr, "A process of slipway serves the environment at %s until `slipway unmount %s`.\n", folder, folder)
	return nil
}

// refuseHidden returns an error if a mount at a folder would hide files that the process needs that serves it: a read of one would
// wait for itself.
func (l *launch) refuseHidden(folder string) error {
	needed := append([]string{l.cache.Dir(), "/etc", "/proc", "/dev", cmp.Or(os.Getenv("DOCKER_CONFIG"), filepath.Join(os.Getenv("HOME"), ".docker"))}, l.cache.Lower()...)
	if layout, ok := strings.CutPrefix(l.name.Image, "ocidir://"); ok {
		layout, _, _ = strings.Cut(layout, "@")
		if i := strings.LastIndexByte(layout, ':'); i > strings.LastIndexByte(layout, '/') {
			layout = layout[:i]
		}
		needed = append(needed, layout)
	}
	at := resolved(folder)
	for _, path := range needed {
		if p := resolved(path); p == at || at == "/" || strings.HasPrefix(p, at+"/") {
			return fmt.Errorf("a mount at %s hides %s, which slipway needs to serve the environment; choose another folder", folder, path)
		}
	}
	return nil
}

// resolved returns the absolute path of a file without links, as far as it exists.
func resolved(path string) string {
	if p, err := filepath.EvalSymlinks(path); err == nil {
		path = p
	}
	if p, err := filepath.Abs(path); err == nil {
		path = p
	}
	return path
}

// Unmount returns `slipway unmount`.
func Unmount(*session.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "unmount FOLDER",
		Short: "Unmount an environment that `slipway mount` mounted",
		Long:  "Unmount an environment that `slipway mount` mounted. Programs that use files of it can still read them until they end.",
		Args:  usage.Exactly(1),
		RunE: func(_ *cobra.Command, args []string) error {
			folder, err := filepath.Abs(args[0])
			if err != nil {
				return fmt.Errorf("the folder %s: %w", args[0], err)
			}
			return fuse.Unmount(folder)
		},
	}
}
