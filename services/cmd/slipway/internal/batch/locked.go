package batch

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

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

// IsIn reports whether an image is in a repository, or in one below it: the name strategy
// imageSuffix adds a folder.
func IsIn(image, repository string) bool {
	image = strings.TrimPrefix(image, orasScheme)
	for _, prefix := range []string{repository, "docker.io/" + repository} {
		if rest, ok := strings.CutPrefix(image, prefix); ok && rest != "" && strings.ContainsRune(":@/", rune(rest[0])) {
			return true
		}
	}
	return false
}

// errNotRecorded is the error of an environment that the lock file does not record.
var errNotRecorded = errors.New("the lock file has no image for it, or it has changed since: run the command without --check")

// Images returns the images of environment files, by file. Those that the lock file records for a file
// as it is now are not requested again, so that their names stay. The others are requested like
// `slipway batch --await`, and recorded, or have an error if Check is set. Targets are names
// without a token, in the repository of --freeze.
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
// If the packages of an image cannot be locked, they are solved again.
func (f *LockedFlags) Sifs(cmd *cobra.Command, s *session.Settings, c *session.Client, images map[string]Image) (map[string]Image, error) {
	defaults, err := f.defaults(cmd, s, c)
	if err != nil {
		return nil, err
	}
	defaults.Format = formatSif
	var locked, unlocked []entry
	files := map[string]string{}
	for _, file := range slices.Sorted(maps.Keys(images)) {
		image := images[file]
		e := entry{name: file + sifSuffix, request: environmentRequest([]byte(image.LockText)), err: image.Err}
		files[e.name] = file
		if image.LockText != "" || e.err != nil {
			locked = append(locked, e)
			continue
		}
		text, err := contents(file)
		e.request, e.err = environmentRequest(text), err
		unlocked = append(unlocked, e)
	}
	out := map[string]Image{}
	for _, group := range []struct {
		entries  []entry
		defaults *containerv1.ContainerRequest
	}{{locked, ofLock(defaults)}, {unlocked, defaults}} {
		made, err := f.images(cmd, s, c, group.entries, group.defaults)
		if err != nil {
			return nil, err
		}
		for name, image := range made {
			out[files[name]] = image
		}
	}
	return out, nil
}

// defaults returns a request with the fields that the flags set.
func (f *LockedFlags) defaults(cmd *cobra.Command, s *session.Settings, c *session.Client) (*containerv1.ContainerRequest, error) {
	if f.lock == "" {
		return nil, usage.Errorf("--lock must name a file")
	}
	if f.Check && f.update {
		return nil, usage.Errorf("--check changes nothing: leave out --update")
	}
	if f.Check {
		f.IgnoreWorkspace() // no record depends on it
	}
	return f.flags.defaults(cmd, s, c)
}

// images returns the images of entries, by their names.
func (f *LockedFlags) images(cmd *cobra.Command, s *session.Settings, c *session.Client, entries []entry, defaults *containerv1.ContainerRequest) (map[string]Image, error) {
	repository, err := f.Repository(cmd)
	if err != nil {
		return nil, err
	}
	lock, err := readLock(f.lock)
	if err != nil {
		return nil, err
	}
	out := make(map[string]Image, len(entries))
	var todo []entry
	var found []locked
	for _, e := range entries {
		record, ok := lock.find(e.name, withDefaults(e.request, defaults))
		ok = ok && record.Digest != "" && checkName(record.Image, repository) == nil // others were not built, or edited
		switch {
		case e.err != nil:
			out[e.name] = Image{Name: e.name, Err: e.err}
		case ok && !f.update:
			out[e.name] = Image{Name: e.name, Target: record.Image, Lock: record.Lock, LockText: lock.Locks[record.Lock]}
			found = append(found, record)
		case f.Check:
			out[e.name] = Image{Name: e.name, Err: errNotRecorded}
		default:
			todo = append(todo, e)
		}
	}
	if f.Check {
		return out, nil
	}
	if err := checkWritable(f.lock); err != nil {
		return nil, err
	}
	var r *run
	if len(todo) > 0 {
		r = newRun(c, newProgress(cmd.ErrOrStderr(), f.IsLive(cmd, s), len(todo)))
		r.request(cmd.Context(), todo, defaults, lockFile{})
		r.finish(cmd.Context(), true, r.describe)
		err = r.progress.end()
		for _, one := range r.all {
			image := one.image()
			image.Target = cmp.Or(one.record.Image, image.Target)
			if image.Err == nil {
				image.Err = checkName(image.Target, repository)
			}
			out[one.name] = image
		}
	}
	return out, errors.Join(err, f.record(r, found))
}

// record writes the lock file. It reads the file again, as another command may have written it
// since. r is nil if nothing was requested.
func (f *LockedFlags) record(r *run, found []locked) error {
	lock, err := readLock(f.lock)
	if err != nil {
		return err
	}
	if r != nil {
		lock = r.lock(lock)
	}
	now := lock.with(found)
	if len(now.Containers) == 0 {
		return nil
	}
	return now.write(f.lock)
}

var imageText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9._:/@\[\]-]+$`)
})

// IsImageText reports whether a text has only characters of the names of images and registries, so
// that it can be written between quotes into a program.
func IsImageText(s string) bool { return imageText().MatchString(s) }

// checkName returns an error if a name is not that of an image in a repository: it becomes a part of
// a program, and neither the server nor the lock file is trusted with that.
func checkName(image, repository string) error {
	if !IsImageText(image) || !IsIn(image, repository) {
		return fmt.Errorf("%q is not the name of an image in %s", image, repository)
	}
	return nil
}
