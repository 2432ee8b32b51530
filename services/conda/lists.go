package conda

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"golang.org/x/sync/errgroup"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/conda/solver"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
)

// list is a channel's for one platform folder.
type list struct {
	channel channel.Channel
	subdir  string
	// private says that it was read with the caller's own login.
	private bool
	channel.State
}

// lists are those of channels, in their order, for the folders of a platform. A
// channel that has none at all is fault.NotFound.
func (s *Service) lists(ctx context.Context, who caller.ID, channels []channel.Channel, subdirs ...string) ([]list, error) {
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
				l.private = access.Scope != ""
				l.State, err = s.deps.Channels.Get(ctx, l.channel, l.subdir, access)
			}
			return fault.In(l.channel.Name, err)
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
			return nil, fault.NotFound.Newf("There is no channel %s, or it has nothing for the platform", c.Name)
		}
	}
	return out, nil
}

// access answers how a caller reads a channel: with a login of the provider conda that
// they keep at the platform, else as everybody does.
func (s *Service) access(ctx context.Context, who caller.ID, c channel.Channel) (channel.Access, error) {
	public := channel.Access{Client: client(ctx, who)}
	at, err := url.Parse(c.URL)
	if who.IsAnonymous() || err != nil {
		return public, err
	}
	known, err := s.deps.Keychain.Access(ctx, who, "conda", strings.ToLower(at.Host+at.Path)) // as it is kept
	if err != nil || known.Login.Password == "" {
		return public, err
	}
	sum := sha256.Sum256([]byte(known.Login.Username + "\n" + known.Login.Password))
	return channel.Access{
		Client: public.Client, Scope: who.String() + " " + hex.EncodeToString(sum[:8]), Username: known.Login.Username, Password: known.Login.Password,
	}, nil
}

// sources are lists as the solver reads them.
func sources(lists []list) []solver.Channel {
	var out []solver.Channel
	for _, l := range lists {
		if len(out) == 0 || out[len(out)-1].Name != l.channel.Name {
			out = append(out, solver.Channel{Name: l.channel.Name})
		}
		if l.Index != nil {
			c := &out[len(out)-1]
			c.Sources = append(c.Sources, l.Index)
		}
	}
	return out
}

// names helps to explain names that are not there.
type names struct {
	service *Service
	lists   []list
	subdirs []string
}

// Nearest implements solver.Names.
func (n *names) Nearest(name string) []string {
	var out []string
	seen := map[string]bool{}
	for _, l := range n.lists {
		if l.Index == nil {
			continue
		}
		for _, m := range l.Index.Near(name) {
			if !seen[m] && len(out) < 5 {
				seen[m] = true
				out = append(out, m)
			}
		}
	}
	return out
}

// Elsewhere implements solver.Names: the channels that nearly everybody uses, as far as
// they are known already.
func (n *names) Elsewhere(name string) []solver.Channel {
	var out []solver.Channel
	for _, text := range defaultChannels() {
		c, err := n.service.deps.Channels.Resolve(text)
		if err != nil || n.asked(c) {
			continue
		}
		found := solver.Channel{Name: c.Name}
		has := false
		for _, subdir := range n.subdirs {
			x := n.service.deps.Channels.Known(c, subdir)
			if x == nil {
				continue
			}
			found.Sources = append(found.Sources, x)
			has = has || x.Has(name)
		}
		if has {
			out = append(out, found)
		}
	}
	return out
}

func (n *names) asked(c channel.Channel) bool {
	for _, l := range n.lists {
		if l.channel.URL == c.URL {
			return true
		}
	}
	return false
}
