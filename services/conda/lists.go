package conda

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/conda/index"
	"slipway.dev/services/conda/solver"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A list is the package list of a channel for one platform folder.
type list struct {
	channel channel.Channel
	subdir  string
	// private reports whether it was read with the caller's own login.
	private bool
	channel.State
}

// at returns the name of a list in responses, "<channel>/<subdir>".
func (l list) at() string { return l.channel.Name + "/" + l.subdir }

// lists returns the package lists of channels, in their order, for the given platform
// folders. It returns fault.Invalid, wrapping errNoChannel, for a channel without any list.
func (s *Service) lists(ctx context.Context, who caller.ID, channels []channel.Channel, subdirs ...string) ([]list, error) {
	return s.listsAfter(ctx, time.Time{}, who, channels, subdirs...)
}

// listsAfter is like lists, but refreshes lists that were read before the given time. If a
// channel cannot be read, its older list is returned.
func (s *Service) listsAfter(ctx context.Context, after time.Time, who caller.ID, channels []channel.Channel, subdirs ...string) ([]list, error) {
	out := make([]list, 0, len(channels)*len(subdirs))
	for _, c := range channels {
		for _, subdir := range subdirs {
			out = append(out, list{channel: c, subdir: subdir})
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range out {
		group.Go(func() error {
			l := &out[i]
			access, err := s.access(ctx, who, l.channel)
			if err == nil {
				l.private, access.After = access.Scope != "", after
				l.State, err = s.deps.Channels.Get(ctx, l.channel, l.subdir, access)
			}
			return fault.Coded(fault.CondaChannel, fault.In(l.channel.Name, err))
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, c := range channels {
		has := false
		for _, l := range out[i*len(subdirs) : (i+1)*len(subdirs)] {
			has = has || l.Index != nil
		}
		if !has {
			return nil, s.noChannel(c)
		}
	}
	return out, nil
}

// errNoChannel is a cause of the fault for a channel without any list.
var errNoChannel = errors.New("no such channel")

// A missingChannel is the name of a channel without any list, as the cause of a fault.
type missingChannel string

// Error implements error.
func (m missingChannel) Error() string { return "no such channel: " + string(m) }

// Is reports whether target is errNoChannel.
func (missingChannel) Is(target error) bool { return target == errNoChannel }

// noChannel returns the fault for a channel without any list, with a suggestion if its name
// may be misspelt.
func (s *Service) noChannel(c channel.Channel) error {
	text := fmt.Sprintf("There is no channel %s, or it has nothing for the platform", c.Name)
	if near := s.deps.Channels.Nearest(c.Name); near != "" {
		text += "; did you mean " + near + "?"
	}
	return fault.Invalid.New(text, missingChannel(c.Name)).WithCode(fault.CondaChannel)
}

// access returns how a caller reads a channel: with the caller's conda login from the
// platform service if one exists, else anonymously.
func (s *Service) access(ctx context.Context, who caller.ID, c channel.Channel) (channel.Access, error) {
	public := channel.Access{Client: who.Client(ctx)}
	at, err := url.Parse(c.URL)
	if who.IsAnonymous() || err != nil {
		return public, err
	}
	known, err := s.deps.Keychain.Access(ctx, who, "conda", strings.ToLower(at.Host+at.Path)) // as stored
	if err != nil || known.Login.Password == "" {
		return public, err
	}
	sum := sha256.Sum256([]byte(known.Login.Username + "\n" + known.Login.Password))
	return channel.Access{
		Client: public.Client, Scope: who.String() + " " + hex.EncodeToString(sum[:8]), Username: known.Login.Username, Password: known.Login.Password,
	}, nil
}

// sources returns lists in the form that the solver reads.
func (s *Service) sources(lists []list) []solver.Channel {
	var out []solver.Channel
	for _, l := range lists {
		if len(out) == 0 || out[len(out)-1].Name != l.channel.Name {
			out = append(out, solver.Channel{Name: l.channel.Name})
		}
		if l.Index != nil {
			c := &out[len(out)-1]
			c.Sources = append(c.Sources, s.records.source(l))
		}
	}
	return out
}

// names suggests alternatives for missing names.
type names struct {
	service *Service
	lists   []list
	subdirs []string
}

// Nearest implements solver.Names.
func (n *names) Nearest(name string) []string {
	const most = 5
	var out []string
	seen := map[string]bool{}
	for _, l := range n.lists {
		if l.Index == nil {
			continue
		}
		near, err := l.Index.Near(name, most)
		if err != nil {
			continue // a damaged list has no suggestions; the solver reports it
		}
		for _, m := range near {
			if !seen[m] && len(out) < most {
				seen[m] = true
				out = append(out, m)
			}
		}
	}
	return out
}

// InOtherChannels implements solver.Names. It looks in well-known channels whose indexes are
// already loaded.
func (n *names) InOtherChannels(name string) []solver.Channel {
	var out []solver.Channel
	for _, text := range defaultChannels() {
		c, err := n.service.deps.Channels.Resolve(text)
		if err != nil || n.isRequested(c) {
			continue
		}
		found := solver.Channel{Name: c.Name}
		has := false
		for _, subdir := range n.subdirs {
			x := n.service.deps.Channels.Loaded(c, subdir)
			if x == nil {
				continue
			}
			found.Sources = append(found.Sources, x)
			if is, err := x.Has(name); err == nil {
				has = has || is
			}
		}
		if has {
			out = append(out, found)
		}
	}
	return out
}

// Platforms implements solver.Names. It only searches indexes of the request's channels that
// are already loaded and that all callers may read.
func (n *names) Platforms(name string) (version string, found []string) {
	var newest spec.Version
	for _, p := range platforms() {
		if slices.Contains(n.subdirs, p.subdir) {
			continue
		}
		for _, l := range n.lists {
			if l.subdir != "noarch" || l.private { // noarch selects each channel once
				continue
			}
			text, v, ok := newestOf(n.service.deps.Channels.Loaded(l.channel, p.subdir), name)
			if !ok {
				continue
			}
			if !slices.Contains(found, p.name) {
				found = append(found, p.name)
			}
			if text != "" && (version == "" || v.Compare(newest) > 0) {
				version, newest = text, v
			}
		}
	}
	return version, found
}

// newestOf returns the newest version of a name in an index, which may be nil, and whether
// the index has the name. The version is "" if the records exceed limits.CondaHint.
func newestOf(x *index.Index, name string) (text string, newest spec.Version, ok bool) {
	if x == nil {
		return "", newest, false
	}
	size, err := x.Bytes(name)
	if err != nil || size == 0 || size > limits.CondaHint {
		return "", newest, err == nil && size > 0
	}
	records, err := x.Records(name)
	if err != nil {
		return "", newest, false
	}
	for i := range records {
		if v, err := spec.ParseVersion(records[i].Version); err == nil && (text == "" || v.Compare(newest) > 0) {
			text, newest = records[i].Version, v
		}
	}
	return text, newest, true
}

func (n *names) isRequested(c channel.Channel) bool {
	for _, l := range n.lists {
		if l.channel.URL == c.URL {
			return true
		}
	}
	return false
}
