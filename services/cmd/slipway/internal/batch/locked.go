package batch

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// LockedFlags are the flags of a command whose images a lock file records.
type LockedFlags struct{ flags }

// Add adds the flags.
func (f *LockedFlags) Add(cmd *cobra.Command, s *session.Settings) {
	f.AddTarget(cmd, s)
	f.addLock(cmd)
}

// errNotRecorded is the error of an environment that the lock file does not record.
var errNotRecorded = errors.New("the lock file does not have it, or it has changed since: run the command without --check")

// Images returns the images of environment files, by file. Those that the lock file records for a file
// as it is now are not requested again, so that their names stay. The others are requested like
// `slipway batch --await`, and recorded. Targets are names without a token.
func (f *LockedFlags) Images(cmd *cobra.Command, s *session.Settings, c *session.Client, files []string) (map[string]Image, error) {
	defaults, err := f.defaults(cmd, s, c)
	if err != nil {
		return nil, err
	}
	out, todo, old, err := f.recorded(defaults, files)
	if err != nil || len(todo) == 0 {
		return out, err
	}
	if err := checkWritable(f.lock); err != nil {
		return nil, err
	}
	r := newRun(c, newProgress(cmd.ErrOrStderr(), f.IsLive(cmd, s), len(todo)))
	r.request(cmd.Context(), todo, defaults, lockFile{})
	r.finish(cmd.Context(), true, r.describe)
	err = r.progress.end()
	if now := r.lock(old); len(now.Containers) > 0 {
		err = errors.Join(err, now.write(f.lock))
	}
	for _, one := range r.all {
		image := one.image()
		image.Target = one.record.Image
		out[one.name] = image
	}
	return out, err
}

// Recorded returns the images that the lock file records for environment files, by file, without
// requesting any. An image has an error if the lock file has none for the file as it is now.
func (f *LockedFlags) Recorded(cmd *cobra.Command, s *session.Settings, c *session.Client, files []string) (map[string]Image, error) {
	defaults, err := f.defaults(cmd, s, c)
	if err != nil {
		return nil, err
	}
	out, todo, _, err := f.recorded(defaults, files)
	for _, e := range todo {
		out[e.name] = Image{Name: e.name, Err: cmp.Or(e.err, errNotRecorded)}
	}
	return out, err
}

// recorded returns the images that the lock file records, and the entries that it does not record.
func (f *LockedFlags) recorded(defaults *containerv1.ContainerRequest, files []string) (_ map[string]Image, others []entry, lock lockFile, err error) {
	if f.lock == "" {
		return nil, nil, lock, usage.Errorf("--lock must name a file")
	}
	entries, err := readWith(files, func(path string) ([]entry, error) { return []entry{fileEntry(path)}, nil })
	if err != nil {
		return nil, nil, lock, err
	}
	if lock, err = readLock(f.lock); err != nil {
		return nil, nil, lock, err
	}
	out := make(map[string]Image, len(entries))
	for _, e := range entries {
		record, ok := lock.find(e.name, withDefaults(e.request, defaults))
		if ok && e.err == nil && !f.update {
			out[e.name] = Image{Name: e.name, Target: record.Image}
		} else {
			others = append(others, e)
		}
	}
	return out, others, lock, nil
}
