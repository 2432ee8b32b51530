package solver

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A library caches the records and matches of a problem for all of its searches: the one of
// the request, and those for explanations and suggestions. It must be used by one goroutine
// only.
type library struct {
	problem *Problem
	// virtual holds the virtual packages as records. installed holds the preferred records
	// by name.
	virtual   []spec.Record
	installed map[string]*spec.Record
	byPlace   map[packageKey]*candidates
	matches   map[packageKey]map[string]*match
	// taken is the approximate memory in use, and allowed its current limit, in bytes.
	taken, allowed int64
}

// take accounts for memory that the library retains. It returns fault.Invalid beyond
// limits.CondaMemory, or the error of Problem.Memory.
func (l *library) take(bytes int) error {
	if l.taken += int64(bytes); l.taken > limits.CondaMemory {
		return fault.Invalid.Newf("The request involves too many packages and dependencies: request fewer packages or channels")
	}
	for l.problem.Memory != nil && l.taken > l.allowed {
		l.allowed += limits.CondaMemoryStep
		if err := l.problem.Memory(l.allowed); err != nil {
			return err
		}
	}
	return nil
}

// A packageKey is a package name with the channel that it must come from; "" selects the channel
// by priority.
type packageKey struct{ name, channel string }

func newLibrary(p *Problem) *library {
	l := &library{problem: p, byPlace: map[packageKey]*candidates{}, matches: map[packageKey]map[string]*match{}, installed: map[string]*spec.Record{}}
	for i := range p.Installed {
		l.installed[p.Installed[i].Name] = &p.Installed[i]
	}
	for _, v := range p.Virtual {
		l.virtual = append(l.virtual, v.Record())
	}
	return l
}

// candidates are all records of one name that may be chosen.
type candidates struct {
	name    string
	records []*spec.Record
	// installed is the preferred record, or nil.
	installed *spec.Record
	// channel is the index of each record's channel.
	channel []int32
	// versions holds the distinct versions, oldest first. version is the index of each
	// record's version.
	versions []spec.Version
	version  []int32
	// order lists all records, best first except for ties (see search.sort).
	order []int32
	// classes is, by record, the records of its class, computed on first use (see classMembers).
	classes [][]int32
}

// candidates returns the records of a name, and loads them on first use.
func (l *library) candidates(at packageKey) (*candidates, error) {
	if known := l.byPlace[at]; known != nil {
		return known, nil
	}
	out := &candidates{name: at.name}
	if err := l.load(out, at.channel); err != nil {
		return nil, err
	}
	out.rank()
	l.byPlace[at] = out
	return out, nil
}

// load collects the records of a name from the channels that may provide it.
func (l *library) load(p *candidates, asked string) error {
	if strings.HasPrefix(p.name, "__") {
		l.loadVirtual(p)
		return nil
	}
	for i := range l.problem.Channels {
		c := &l.problem.Channels[i]
		if asked != "" && !spec.SameChannel(asked, c.Name) {
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
	return l.prefer(p)
}

// prefer marks the installed record of a name, and adds it if the channels lack it.
func (l *library) prefer(p *candidates) error {
	r := l.installed[p.name]
	if r == nil {
		return nil
	}
	if i := slices.IndexFunc(p.records, func(c *spec.Record) bool { return c.SameArtifact(*r) }); i >= 0 {
		p.installed = p.records[i]
		return nil
	}
	p.records, p.channel, p.installed = append(p.records, r), append(p.channel, int32(len(l.problem.Channels))), r
	return l.take(sizeOf(r))
}

// loadVirtual collects the virtual packages of that name.
func (l *library) loadVirtual(p *candidates) {
	for i := range l.virtual {
		if l.virtual[i].Name == p.name {
			p.records = append(p.records, &l.virtual[i])
		}
	}
	p.channel = make([]int32, len(p.records))
}

// add adds the records of a channel.
func (l *library) add(p *candidates, channel int32, all []*spec.Record) error {
	for _, r := range all {
		if err := l.take(sizeOf(r)); err != nil {
			return err
		}
		if l.isIncluded(r) {
			p.records, p.channel = append(p.records, r), append(p.channel, channel)
		}
	}
	return nil
}

// isIncluded reports whether a record is not newer than the request allows.
func (l *library) isIncluded(r *spec.Record) bool {
	newest := l.problem.newest(r.Name)
	return newest.IsZero() || r.Timestamp <= newest.UnixMilli()
}

// newest returns the time after which records of a name are excluded; zero means no limit.
func (p *Problem) newest(name string) time.Time {
	if p.ExcludeRecent.IsZero() || !p.ExcludeNewer.IsZero() && p.ExcludeNewer.Before(p.ExcludeRecent) || slices.Contains(p.Recent, name) {
		return p.ExcludeNewer
	}
	return p.ExcludeRecent
}

// sizeOf returns the approximate memory of a record in a library and in a search, in bytes.
func sizeOf(r *spec.Record) int {
	const (
		record = 700 // with its variable and its list entries
		text   = 64  // a dependency, with one pointer to its want per search
	)
	size := record
	for _, list := range [][]string{r.Depends, r.Constrains} {
		for _, s := range list {
			size += text + len(s)
		}
	}
	return size
}

// recordsOf returns the records of a name in a channel, in an order independent of the
// order of its sources. If an artifact exists in both formats, only the .conda is returned.
func recordsOf(c *Channel, name string) ([]*spec.Record, error) {
	var out []*spec.Record
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
		slices.SortFunc(of, func(a, b *spec.Record) int { return strings.Compare(a.FileName, b.FileName) })
		out = out[:from+len(withoutTwins(of))]
	}
	return out, nil
}

// withoutTwins removes each .tar.bz2 that also exists as .conda.
func withoutTwins(records []*spec.Record) []*spec.Record {
	modern := map[string]bool{}
	for _, r := range records {
		if stem, ok := strings.CutSuffix(r.FileName, ".conda"); ok {
			modern[stem] = true
		}
	}
	return slices.DeleteFunc(records, func(r *spec.Record) bool {
		stem, ok := strings.CutSuffix(r.FileName, ".tar.bz2")
		return ok && modern[stem]
	})
}

// rank parses the versions and orders the records. Records with an unparsable version are
// never selected.
func (p *candidates) rank() {
	parsed := map[string]spec.Version{}
	keep := 0
	for i, r := range p.records {
		if _, ok := parsed[r.Version]; !ok {
			v, err := spec.ParseVersion(r.Version)
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

// indexVersions fills versions and returns the index of each version string. Equal versions
// with different strings share an index.
func (p *candidates) indexVersions(parsed map[string]spec.Version) map[string]int32 {
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

// compare orders records, better records first: the installed record, then by channel
// priority, absence of track features, version and build number.
func (p *candidates) compare(a, b int32) int {
	return cmp.Or(
		compareBool(p.isInstalled(b), p.isInstalled(a)),
		cmp.Compare(p.channel[a], p.channel[b]),
		cmp.Compare(p.tracks(a), p.tracks(b)),
		cmp.Compare(p.version[b], p.version[a]),
		cmp.Compare(p.records[b].BuildNumber, p.records[a].BuildNumber),
	)
}

func (p *candidates) isInstalled(i int32) bool { return p.records[i] == p.installed }

// tracks returns 1 for a record with track features, otherwise 0.
func (p *candidates) tracks(i int32) int {
	return min(1, len(p.records[i].TrackFeatures))
}
