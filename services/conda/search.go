package conda

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/conda/index"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/paging"
)

// SearchPackages answers packages whose names are like a text.
func (s *Service) SearchPackages(ctx context.Context, req *condav1.SearchPackagesRequest) (*condav1.SearchPackagesResponse, error) {
	most, offset, err := paging.Strictly(req, 20, 100)
	if err != nil {
		return nil, err
	}
	if len(req.GetQ()) > limits.ChannelWord {
		return nil, fault.Invalid.Newf("q is at most %d characters long", limits.ChannelWord)
	}
	names := defaultChannels()
	if req.GetChannel() != "" {
		names = []string{req.GetChannel()}
	}
	channels, err := s.resolve(names)
	if err != nil {
		return nil, err
	}
	subdirs := []string{"linux-64", "linux-aarch64", "noarch"}
	if req.GetPlatform() != "" {
		p, err := parsePlatform(req.GetPlatform())
		if err != nil {
			return nil, fault.In("platform", err)
		}
		subdirs = []string{p.subdir, "noarch"}
	}
	who, err := s.identify(ctx, caller.Claim{WorkspaceID: req.GetWorkspaceId()})
	if err != nil {
		return nil, err
	}
	lists, err := s.lists(ctx, who, channels, subdirs...)
	if err != nil {
		return nil, err
	}
	leave, err := s.atOnce.Enter(client(ctx, who))
	if err != nil {
		return nil, err
	}
	defer leave()
	return page(search(lists, req.GetQ()), offset, most)
}

// hit is a package that was found, and the lists that have it.
type hit struct {
	name    string
	rank    index.Rank
	channel channel.Channel
	lists   []list
}

// search finds names in lists, nearest first; of one name, in the channels' order.
func search(lists []list, text string) []*hit {
	type key struct{ name, url string }
	found := map[key]*hit{}
	var out []*hit
	for _, l := range lists {
		if l.Index == nil {
			continue
		}
		for _, m := range l.Index.Search(text) {
			k := key{m.Name, l.channel.URL}
			if found[k] == nil {
				found[k] = &hit{name: m.Name, rank: m.Rank, channel: l.channel}
				out = append(out, found[k])
			}
			found[k].lists = append(found[k].lists, l)
		}
	}
	slices.SortStableFunc(out, func(a, b *hit) int { return cmp.Or(cmp.Compare(a.rank, b.rank), strings.Compare(a.name, b.name)) })
	return out
}

// page answers a part of what was found, and looks at the records of that alone.
func page(found []*hit, offset, most int) (*condav1.SearchPackagesResponse, error) {
	out := &condav1.SearchPackagesResponse{Total: proto.Int32(int32(len(found)))}
	found = found[min(offset, len(found)):]
	for _, h := range found[:min(most, len(found))] {
		p, err := h.describe()
		if err != nil {
			return nil, err
		}
		out.Packages = append(out.Packages, p)
	}
	return out, nil
}

// describe reads the records of what was found: its newest version, and where it runs.
func (h *hit) describe() (*condav1.FoundPackage, error) {
	p := &condav1.FoundPackage{Name: proto.String(h.name), Channel: proto.String(h.channel.Name)}
	var newest conda.Version
	for _, l := range h.lists {
		records, err := l.Index.Records(h.name)
		if err != nil {
			return nil, err
		}
		if len(records) > 0 {
			p.Platforms = append(p.Platforms, l.subdir)
		}
		for i := range records {
			v, err := conda.ParseVersion(records[i].Version)
			if err == nil && (p.Version == nil || v.Compare(newest) > 0) {
				p.Version, newest = proto.String(records[i].Version), v
			}
		}
	}
	return p, nil
}
