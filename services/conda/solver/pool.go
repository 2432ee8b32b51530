package solver

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// library is what was read for a problem, for all its searches: the request's, and
// those that look for reasons and repairs. It belongs to one goroutine.
type library struct {
	problem *Problem
	// virtual are the machine's facts as records.
	virtual []conda.Record
	shelves map[place]*shelf
	matches map[place]map[string]*match
	// taken is about what it takes of memory, in bytes.
	taken int64
}

// take counts memory that stays taken until the library is gone. fault.Invalid beyond
// limits.CondaMemory.
func (l *library) take(bytes int) error {
	if l.taken += int64(bytes); l.taken > limits.CondaMemory {
		return fault.Invalid.Newf("The request is about more packages and dependencies than can be looked at: ask for fewer packages, or for those of fewer channels")
	}
	return nil
}

// place is a name, and the channel that it was asked to come from; "" is by priority.
type place struct{ name, channel string }

func newLibrary(p *Problem) *library {
	l := &library{problem: p, shelves: map[place]*shelf{}, matches: map[place]map[string]*match{}}
	for _, v := range p.Virtual {
		l.virtual = append(l.virtual, v.Record())
	}
	return l
}

// shelf is all records of one name that may be chosen.
type shelf struct {
	name    string
	records []*conda.Record
	// channel is the index of each record's channel.
	channel []int32
	// versions are the distinct ones, oldest first; version is each record's among them.
	versions []conda.Version
	version  []int32
	// order is all records, best first, but for ties (see search.sort).
	order []int32
	// classes is, by record, those like it, once that was asked (see alike).
	classes [][]int32
}

// shelf gives the records of a name.
func (l *library) shelf(at place) (*shelf, error) {
	if known := l.shelves[at]; known != nil {
		return known, nil
	}
	out := &shelf{name: at.name}
	if err := l.load(out, at.channel); err != nil {
		return nil, err
	}
	out.rank()
	l.shelves[at] = out
	return out, nil
}

// load collects the records of a name from the channels that may give it.
func (l *library) load(p *shelf, asked string) error {
	if strings.HasPrefix(p.name, "__") {
		l.loadVirtual(p)
		return nil
	}
	for i := range l.problem.Channels {
		c := &l.problem.Channels[i]
		if asked != "" && !conda.SameChannel(asked, c.Name) {
			continue
		}
		all, err := recordsOf(c, p.name)
		if err != nil {
			return fmt.Errorf("reading the records of %s in %s: %w", p.name, c.Name, err)
		}
		if err := l.add(p, int32(i), all); err != nil {
			return err
		}
		if len(all) > 0 && !l.problem.Flexible {
			break
		}
	}
	return nil
}

// loadVirtual collects what is known of the machine by that name.
func (l *library) loadVirtual(p *shelf) {
	for i := range l.virtual {
		if l.virtual[i].Name == p.name {
			p.records = append(p.records, &l.virtual[i])
		}
	}
	p.channel = make([]int32, len(p.records))
}

// add puts records of a channel on a shelf.
func (l *library) add(p *shelf, channel int32, all []*conda.Record) error {
	for _, r := range all {
		if err := l.take(sizeOf(r)); err != nil {
			return err
		}
		if l.mayBe(r) {
			p.records, p.channel = append(p.records, r), append(p.channel, channel)
		}
	}
	return nil
}

// mayBe leaves out what is newer than asked for.
func (l *library) mayBe(r *conda.Record) bool {
	return l.problem.ExcludeNewer.IsZero() || r.Timestamp <= l.problem.ExcludeNewer.UnixMilli()
}

// sizeOf is about what a record takes of memory, in a library and in a search, in bytes.
func sizeOf(r *conda.Record) int {
	const (
		record = 700 // with its variable and its places in lists
		text   = 64  // likewise, with a word for each search of what it wants
	)
	size := record
	for _, list := range [][]string{r.Depends, r.Constrains} {
		for _, s := range list {
			size += text + len(s)
		}
	}
	return size
}

// recordsOf gives a channel's records of a name, in an order that does not depend on
// its sources'. Of an artifact in both formats it gives the .conda alone.
func recordsOf(c *Channel, name string) ([]*conda.Record, error) {
	var out []*conda.Record
	for _, source := range c.Sources {
		records, err := source.Records(name)
		if err != nil {
			return nil, err
		}
		from := len(out)
		for i := range records {
			out = append(out, &records[i])
		}
		of := out[from:]
		slices.SortFunc(of, func(a, b *conda.Record) int { return strings.Compare(a.FileName, b.FileName) })
		out = out[:from+len(withoutTwins(of))]
	}
	return out, nil
}

// withoutTwins drops each .tar.bz2 of which there is a .conda.
func withoutTwins(records []*conda.Record) []*conda.Record {
	modern := map[string]bool{}
	for _, r := range records {
		if stem, ok := strings.CutSuffix(r.FileName, ".conda"); ok {
			modern[stem] = true
		}
	}
	return slices.DeleteFunc(records, func(r *conda.Record) bool {
		stem, ok := strings.CutSuffix(r.FileName, ".tar.bz2")
		return ok && modern[stem]
	})
}

// rank reads the versions and puts the records in order. Records whose version cannot
// be read are nobody's choice.
func (p *shelf) rank() {
	parsed := map[string]conda.Version{}
	keep := 0
	for i, r := range p.records {
		if _, ok := parsed[r.Version]; !ok {
			v, err := conda.ParseVersion(r.Version)
			if err != nil {
				continue
			}
			parsed[r.Version] = v
		}
		p.records[keep], p.channel[keep] = r, p.channel[i]
		keep++
	}
	p.records, p.channel = p.records[:keep], p.channel[:keep]
	index := p.indexVersions(parsed)
	p.version, p.order = make([]int32, keep), make([]int32, keep)
	for i, r := range p.records {
		p.version[i], p.order[i] = index[r.Version], int32(i)
	}
	slices.SortStableFunc(p.order, p.compare)
}

// indexVersions fills versions and tells each text's index. Versions that are the same
// in different texts have one.
func (p *shelf) indexVersions(parsed map[string]conda.Version) map[string]int32 {
	texts := make([]string, 0, len(parsed))
	for text := range parsed {
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b string) int {
		return cmp.Or(parsed[a].Compare(parsed[b]), strings.Compare(a, b))
	})
	index := make(map[string]int32, len(texts))
	for _, text := range texts {
		v := parsed[text]
		if n := len(p.versions); n == 0 || p.versions[n-1].Compare(v) != 0 {
			p.versions = append(p.versions, v)
		}
		index[text] = int32(len(p.versions) - 1)
	}
	return index
}

// compare orders records, better ones first: those of an earlier channel, without track
// features, of a newer version, of a higher build number.
func (p *shelf) compare(a, b int32) int {
	return cmp.Or(
		cmp.Compare(p.channel[a], p.channel[b]),
		cmp.Compare(p.tracks(a), p.tracks(b)),
		cmp.Compare(p.version[b], p.version[a]),
		cmp.Compare(p.records[b].BuildNumber, p.records[a].BuildNumber),
	)
}

// tracks is 1 for a record with track features.
func (p *shelf) tracks(i int32) int {
	return min(1, len(p.records[i].TrackFeatures))
}
