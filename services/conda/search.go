package conda

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/conda/index"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/paging"
)

// SearchPackages returns packages whose names are similar to a string, or that have a
// command or a file, and a licence if one is requested.
func (s *Service) SearchPackages(ctx context.Context, req *condav1.SearchPackagesRequest) (*condav1.SearchPackagesResponse, error) {
	most, offset, err := paging.ReadStrict(req, 20, 100)
	if err != nil {
		return nil, err
	}
	if len(req.GetQ()) > limits.ChannelWord {
		return nil, fault.Invalid.Newf("q is at most %d characters long", limits.ChannelWord)
	}
	if len(req.GetLicense()) > limits.License {
		return nil, fault.Invalid.Newf("license is at most %d characters long", limits.License)
	}
	path, err := filePath(req)
	if err != nil {
		return nil, err
	}
	names := defaultChannels()
	if req.GetChannel() != "" {
		names = []string{req.GetChannel()}
	}
	channels, _, err := s.resolve(names)
	if err != nil {
		return nil, err
	}
	if path != "" {
		if err := s.checkIndexed(channels); err != nil {
			return nil, err
		}
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
	memory, err := s.reserve(ctx, who, channels)
	if err != nil {
		return nil, err
	}
	defer memory.Release()
	if path != "" {
		return s.searchFiles(ctx, memory, fileSearch{
			channels: channels, lists: lists, path: path, isCommand: req.GetCommand() != "", license: req.GetLicense(), offset: offset, most: most,
		})
	}
	if req.GetLicense() != "" {
		return s.searchLicensed(ctx, memory, lists, req, offset, most)
	}
	total, hits, err := search(ctx, lists, req.GetQ(), offset, most)
	if err != nil {
		return nil, err
	}
	var page []described
	for _, h := range hits {
		p, err := h.describe(ctx, memory)
		if err != nil {
			return nil, err
		}
		page = append(page, described{h, p})
	}
	return s.page(ctx, total, page)
}

// searchLicensed returns a page of the packages that have a similar name and a licence. The
// licence is in the records, which take far longer to read than names.
func (s *Service) searchLicensed(ctx context.Context, memory *recordMemory, lists []list, req *condav1.SearchPackagesRequest, offset, most int) (*condav1.SearchPackagesResponse, error) {
	total, hits, err := search(ctx, lists, req.GetQ(), 0, limits.LicensedNames)
	if err != nil {
		return nil, err
	}
	if total > limits.LicensedNames {
		return nil, fault.Invalid.Newf("%d packages match q, and the licences of at most %d can be compared; give a longer part of the name (q), or one channel", total, limits.LicensedNames)
	}
	var all []described
	for _, h := range hits {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, err := h.describe(ctx, memory)
		if err != nil {
			return nil, err
		}
		if hasLicense(p.GetLicense(), req.GetLicense()) {
			all = append(all, described{h, p})
		}
	}
	return s.pageOf(ctx, all, offset, most)
}

// A hit is a found package with the lists that have it.
type hit struct {
	name       string
	channel    channel.Channel
	lists      []list
	dependents int
	// files are those that a search by command or file found.
	files []*buildv1.IndexedFile
}

// A match is a matching name, packed so that its numeric order is the order of results. From
// the highest bit: 4 bits for the rank, 28 for the complement of the number of dependents,
// and 32 for the position among all matches sorted by name.
type match uint64

func newMatch(rank index.Rank, dependents, at int) match {
	return match(rank)<<60 | match(maxDependents-min(dependents, maxDependents))<<32 | match(uint32(at))
}

// at returns the position. dependents returns the number of dependents, up to maxDependents.
func (m match) at() uint32       { return uint32(m) }
func (m match) rank() index.Rank { return index.Rank(m >> 60) }
func (m match) dependents() int  { return maxDependents - int(m>>32&maxDependents) }

const maxDependents = 1<<28 - 1

// A place is where the name of a match is: the list, and the position in its index.
type place struct{ list, at uint32 }

// search finds names in lists, ordered by similarity and then by the number of dependents. It
// returns the total and the hits at the positions from offset to offset+most. A name
// in several channels is listed in the channels' order. All names of a list may match, so
// only 16 bytes of each are stored.
func search(ctx context.Context, lists []list, text string, offset, most int) (total int, hits []*hit, err error) {
	lists = slices.DeleteFunc(slices.Clone(lists), func(l list) bool { return l.Index == nil })
	var all []match
	var places []place
	err = eachMatch(ctx, lists, text, func(c *cursor) {
		all = append(all, newMatch(c.Rank(), 0, len(all)))
		places = append(places, place{uint32(c.position), uint32(c.At())})
	})
	if err != nil {
		return 0, nil, err
	}
	total = len(all)
	offset, most = min(offset, total), min(most, max(0, total-offset))
	if err := order(ctx, lists, all, places, offset, most); err != nil {
		return 0, nil, err
	}
	for _, m := range all[offset : offset+most] {
		h, err := newHit(lists, places[m.at()])
		if err != nil {
			return 0, nil, err
		}
		h.dependents = m.dependents()
		hits = append(hits, h)
	}
	return total, hits, nil
}

// order sorts matches. It only counts the dependents of those whose rank is on the page.
func order(ctx context.Context, lists []list, all []match, places []place, offset, most int) error {
	var before, until [index.Ranks]int
	for _, m := range all {
		until[m.rank()]++
	}
	for rank := 1; rank < index.Ranks; rank++ {
		before[rank] = until[rank-1]
		until[rank] += before[rank]
	}
	var among []*index.Index
	for _, l := range lists {
		among = append(among, l.Index)
	}
	counter := index.NewCounter(among...)
	for i, m := range all {
		if before[m.rank()] >= offset+most || until[m.rank()] <= offset {
			continue
		}
		n, err := counter.Dependents(among[places[i].list], int(places[i].at))
		if err := errors.Join(ctx.Err(), err); err != nil {
			return err
		}
		all[i] = newMatch(m.rank(), n, i)
	}
	slices.Sort(all)
	return nil
}

// newHit returns the hit of a name with those lists of its channel that have the name.
func newHit(lists []list, at place) (*hit, error) {
	first := lists[at.list]
	name, err := first.Index.NameAt(int(at.at))
	if err != nil {
		return nil, err
	}
	h := &hit{name: name, channel: first.channel}
	for _, l := range lists {
		if l.channel.URL != first.channel.URL {
			continue
		}
		has, err := l.Index.Has(name)
		if err != nil {
			return nil, err
		}
		if has {
			h.lists = append(h.lists, l)
		}
	}
	return h, nil
}

// A cursor is the search of the list at a position.
type cursor struct {
	position int
	url      string
	*index.Search
	// ended is set when it has no more matches.
	ended bool
}

func (c *cursor) next() error {
	ok, err := c.Next()
	c.ended = !ok
	return err
}

// eachMatch calls found once for each matching name and each channel that has it, in order of
// name, then of channels.
func eachMatch(ctx context.Context, lists []list, text string, found func(*cursor)) error {
	var open, same []*cursor
	for i, l := range lists {
		open = append(open, &cursor{position: i, url: l.channel.URL, Search: l.Index.Search(text)})
	}
	for next := open; ; next = same {
		for _, c := range next {
			if err := c.next(); err != nil {
				return err
			}
		}
		open = slices.DeleteFunc(open, func(c *cursor) bool { return c.ended })
		if len(open) == 0 {
			return nil
		}
		first := slices.MinFunc(open, func(a, b *cursor) int { return bytes.Compare(a.Name(), b.Name()) })
		same = same[:0]
		for _, c := range open {
			if c.url == first.url && bytes.Equal(c.Name(), first.Name()) {
				same = append(same, c)
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		found(first)
	}
}

// describe reads the records of a hit and returns its newest version and its platforms.
func (h *hit) describe(ctx context.Context, memory *recordMemory) (*condav1.FoundPackage, error) {
	if err := memory.reserve(ctx, h.name, h.lists); err != nil {
		return nil, err
	}
	p := &condav1.FoundPackage{Name: proto.String(h.name), Channel: proto.String(h.channel.Name), Dependents: proto.Int32(int32(h.dependents))}
	var newest spec.Version
	var having []string
	for _, l := range h.lists {
		records, err := l.Index.Records(h.name)
		if err != nil {
			return nil, err
		}
		if len(records) > 0 {
			p.Platforms = append(p.Platforms, l.subdir)
		}
		for i := range records {
			v, err := spec.ParseVersion(records[i].Version)
			if err == nil && (p.Version == nil || v.Compare(newest) > 0) {
				p.Version, newest, p.License = proto.String(records[i].Version), v, present(records[i].License)
			}
			if h.has(l.subdir, records[i]) {
				having = append(having, records[i].Version)
			}
		}
	}
	p.Versions = newestVersions(having)
	return p, nil
}
