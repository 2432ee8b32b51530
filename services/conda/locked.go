package conda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/conda/solver"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A requestLock is a lock in a request. A lock in place of packages is used unchanged: nothing
// is solved and no channel is read, so that it results in the same packages on every server.
type requestLock struct {
	// field is the request field that it comes from, for messages.
	field string
	// text is the lock, or url its address.
	text, url string
	// environment selects an environment of the lock.
	environment string
}

// parseRequestLock returns the lock of a request, or nil for a request that lists packages. text
// is the decoded environment of the request.
func parseRequestLock(p *condav1.CondaPackages, text string) *requestLock {
	switch e := p.GetEntries(); {
	case lockfile.IsLock(text):
		return &requestLock{field: "packages.environment", text: text, environment: p.GetEnvironmentName()}
	case text == "" && len(e) == 1 && strings.Contains(e[0], "://") && !strings.Contains(e[0], "::"):
		return &requestLock{field: "packages.entries[0]", url: e[0], environment: p.GetEnvironmentName()}
	}
	return nil
}

// useLock reads a request's lock for its platforms.
func (s *Service) useLock(ctx context.Context, who caller.ID, q *query) (locks []lock, err error) {
	within, place, err := s.reserveSolve(ctx, who, nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err == nil && q.keep {
			q.kept = place
			return
		}
		place.release()
	}()
	if err := s.fetchLock(within, q.lock); err != nil {
		return nil, err
	}
	if err := place.memoryFunc(within)(int64(limits.CondaFileMemory * len(q.lock.text))); err != nil {
		return nil, err
	}
	err = s.deps.Turns.Do(within, who.Client(ctx), len(q.lock.text), func() (err error) {
		if locks, err = s.readLock(q); err != nil {
			return q.lock.bad(err)
		}
		return nil
	})
	if err != nil {
		return nil, errContended(within, err)
	}
	for _, l := range locks {
		for i, from := range l.lists {
			access, err := s.access(ctx, who, from.channel)
			if err != nil {
				return nil, q.lock.bad(err)
			}
			l.lists[i].private = access.Scope != ""
		}
	}
	return locks, nil
}

// readLock returns a request's lock for its platforms, without the access to its channels.
func (s *Service) readLock(q *query) (locks []lock, err error) {
	file, err := lockfile.Read(q.lock.text, q.lock.environment)
	if err != nil {
		return nil, err
	}
	for _, p := range q.platforms {
		of, err := file.For(p.subdir)
		if err == nil {
			err = checkLocked(of)
		}
		if err != nil {
			return nil, err
		}
		l, err := s.locked(q, of)
		if err != nil {
			return nil, err
		}
		wheels, err := s.wheels(of, glibc(q.machine(p)))
		if err != nil {
			return nil, err
		}
		l.solution.Records = append(l.solution.Records, wheels...)
		l.platform = p
		locks = append(locks, l)
	}
	return locks, nil
}

// size returns the length of the lock in bytes; 0 for a request without one.
func (g *requestLock) size() int {
	if g == nil {
		return 0
	}
	return len(g.text)
}

// bad returns a fault that names the lock as the cause.
func (g *requestLock) bad(err error) error {
	f, ok := fault.As(err)
	if ok && errors.Is(err, fault.NotFound) {
		err = f.To(fault.Invalid)
	}
	return fault.In(g.field, err)
}

// checkLocked rejects a lock that cannot be installed exactly.
func checkLocked(p lockfile.PlatformLock) error {
	if len(p.Packages) == 0 {
		return fault.Invalid.Newf("the lock has no packages for the platform")
	}
	for _, r := range p.Packages {
		if r.SHA256 == "" && r.MD5 == "" {
			return fault.Invalid.Newf("the lock has no hash of %s, so that another file could take its place: write it with `conda list --explicit --md5`", fault.Quote(r.FileName))
		}
	}
	return nil
}

// locked returns the lock of a platform as it was written. Missing data is never completed
// from a channel, which may change.
func (s *Service) locked(q *query, of lockfile.PlatformLock) (lock, error) {
	l := lock{solution: &solver.Solution{Records: of.Sorted()}}
	for i := range l.solution.Records {
		r := &l.solution.Records[i]
		if r.Size == 0 && r.Timestamp == 0 { // NoArch was guessed from the build string
			r.NoArch = ""
		}
		c, err := s.channelOf(*r)
		if err != nil {
			return l, err
		}
		r.Channel = c.Name // as in a solution, so that the same packages make the same image
		if !slices.ContainsFunc(q.channels, func(o channel.Channel) bool { return o.URL == c.URL }) {
			if len(q.channels) == limits.ChannelsAsked {
				return l, fault.Invalid.Newf("it has packages of more than %d channels", limits.ChannelsAsked)
			}
			q.channels = append(q.channels, c)
		}
		if !slices.ContainsFunc(l.lists, func(o list) bool { return o.channel.URL == c.URL }) {
			l.lists = append(l.lists, list{channel: c})
		}
	}
	return l, nil
}

// channelOf returns the channel of a record in a lock: the parent of the platform folder in
// its address.
func (s *Service) channelOf(r spec.Record) (channel.Channel, error) {
	base := r.ChannelURL()
	if base == "" {
		base = strings.TrimSuffix(r.URL, "/"+r.FileName)
	}
	c, err := s.deps.Channels.Resolve(base)
	if err != nil {
		return c, fault.In(fmt.Sprintf("the channel of %s", fault.Quote(r.FileName)), err)
	}
	return c, nil
}
