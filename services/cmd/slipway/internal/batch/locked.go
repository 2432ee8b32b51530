package batch

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// LockedFlags are the flags of a command that writes names of images into files, and records the
// images in a lock file.
type LockedFlags struct {
	flags
	// Check is set if nothing may be requested or written.
	Check bool
}

// Add adds the flags.
func (f *LockedFlags) Add(cmd *cobra.Command, s *session.Settings) {
	f.AddTarget(cmd, s)
	f.addLock(cmd)
	cmd.Flags().BoolVar(&f.Check, "check", false, "Change nothing, and fail if something would change.")
}

// Repository returns the repository of --freeze. It is an error if it is missing.
func (f *LockedFlags) Repository(cmd *cobra.Command) (string, error) {
	repository, err := cmd.Flags().GetString("freeze")
	if err == nil && repository == "" {
		err = usage.Errorf("--freeze must name a repository of yours: a name that is written into files must not expire")
	}
	return repository, err
}

// errNotRecorded is the error of an environment that the lock file does not record.
var errNotRecorded = errors.New("the lock file does not have it, or it has changed since: run the command without --check")

// Images returns the images of environment files, by file. Those that the lock file records for a file
// as it is now are not requested again, so that their names stay. The others are requested like
// `slipway batch --await`, and recorded, or have an error if Check is set. Targets are names
// without a token.
func (f *LockedFlags) Images(cmd *cobra.Command, s *session.Settings, c *session.Client, files []string) (map[string]Image, error) {
	entries, err := readWith(files, func(path string) ([]entry, error) { return []entry{fileEntry(path)}, nil })
	if err != nil {
		return nil, err
	}
	defaults, err := f.defaults(cmd, s, c)
	if err != nil {
		return nil, err
	}
	return f.images(cmd, s, c, entries, defaults)
}

// Sifs returns Singularity images with the same packages as images of files, by file, like Images.
func (f *LockedFlags) Sifs(cmd *cobra.Command, s *session.Settings, c *session.Client, images map[string]Image) (map[string]Image, error) {
	var entries []entry
	files := map[string]string{}
	for _, file := range slices.Sorted(maps.Keys(images)) {
		image := images[file]
		e := entry{name: file + " (sif)", request: environmentRequest([]byte(image.LockText)), err: image.Err}
		if image.LockText == "" && e.err == nil { // some environments cannot be locked
			text, err := contents(file)
			e.request, e.err = environmentRequest(text), err
		}
		files[e.name] = file
		entries = append(entries, e)
	}
	defaults, err := f.defaults(cmd, s, c)
	if err != nil {
		return nil, err
	}
	defaults.Format = "sif"
	made, err := f.images(cmd, s, c, entries, defaults)
	out := make(map[string]Image, len(made))
	for name, image := range made {
		out[files[name]] = image
	}
	return out, err
}

// images returns the images of entries, by their names.
func (f *LockedFlags) images(cmd *cobra.Command, s *session.Settings, c *session.Client, entries []entry, defaults *containerv1.ContainerRequest) (map[string]Image, error) {
	if f.lock == "" {
		return nil, usage.Errorf("--lock must name a file")
	}
	lock, err := readLock(f.lock)
	if err != nil {
		return nil, err
	}
	out := make(map[string]Image, len(entries))
	var todo []entry
	for _, e := range entries {
		record, ok := lock.find(e.name, withDefaults(e.request, defaults))
		switch {
		case e.err != nil:
			out[e.name] = Image{Name: e.name, Err: e.err}
		case ok && !f.update:
			out[e.name] = Image{Name: e.name, Target: record.Image, Lock: record.Lock, LockText: lock.Locks[record.Lock]}
		case f.Check:
			out[e.name] = Image{Name: e.name, Err: errNotRecorded}
		default:
			todo = append(todo, e)
		}
	}
	if len(todo) == 0 {
		return out, nil
	}
	if err := checkWritable(f.lock); err != nil {
		return nil, err
	}
	r := newRun(c, newProgress(cmd.ErrOrStderr(), f.IsLive(cmd, s), len(todo)))
	r.request(cmd.Context(), todo, defaults, lockFile{})
	r.finish(cmd.Context(), true, r.describe)
	err = r.progress.end()
	if now := r.lock(lock); len(now.Containers) > 0 {
		err = errors.Join(err, now.write(f.lock))
	}
	for _, one := range r.all {
		image := one.image()
		image.Target = cmp.Or(one.record.Image, image.Target)
		out[one.name] = image
	}
	return out, err
}
