package solver

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"slipway.dev/services/internal/conda"
)

// pkg is all records of one name that may be chosen.
type pkg struct {
	name    string
	records []*conda.Record
	// channel is the index of each record's channel.
	channel []int32
	// versions are the distinct ones, oldest first; version is each record's among them.
	versions []conda.Version
	version  []int32
	// order is all records, best first, but for ties (see want.sort).
	order []int32
	// first is the variable of records[0]; the others follow.
	first int32

	// chosen is the record that is true, -1 for none: then all others count as false.
	chosen int32
	// wants are those that stand in clauses.
	wants []*want
	// watched are records that learnt clauses watch.
	watched []int32
	// activity grows with each conflict that the package is part of.
	activity float64
}

// pkg gives the package of a name, with its records.
func (s *search) pkg(name string) (*pkg, error) {
	if p := s.pkgs[name]; p != nil {
		return p, nil
	}
	if err := s.pause(); err != nil {
		return nil, err
	}
	p := &pkg{name: name, chosen: -1, first: s.nextVar()}
	if err := s.load(p); err != nil {
		return nil, err
	}
	p.rank()
	for range p.records {
		s.newVar(variable{kind: ofRecord, pkg: p})
	}
	s.pkgs[name] = p
	s.byActivity = append(s.byActivity, p)
	return p, nil
}

// load collects the records of a name from the channels that may give it.
func (s *search) load(p *pkg) error {
	if strings.HasPrefix(p.name, "__") {
		for i := range s.virtual {
			if s.virtual[i].Name == p.name {
				p.records = append(p.records, &s.virtual[i])
			}
		}
		p.channel = make([]int32, len(p.records))
		return nil
	}
	asked, isAsked := s.channelOf[p.name]
	for i := range s.problem.Channels {
		c := &s.problem.Channels[i]
		if isAsked && !conda.SameChannel(asked, c.Name) {
			continue
		}
		all, err := recordsOf(c, p.name)
		if err != nil {
			return fmt.Errorf("reading the records of %s in %s: %w", p.name, c.Name, err)
		}
		for _, r := range all {
			if s.mayBe(r) {
				p.records, p.channel = append(p.records, r), append(p.channel, int32(i))
			}
		}
		if len(all) > 0 && !s.problem.Flexible {
			break
		}
	}
	return nil
}

// mayBe leaves out what is newer than asked for.
func (s *search) mayBe(r *conda.Record) bool {
	return s.problem.ExcludeNewer.IsZero() || r.Timestamp <= s.problem.ExcludeNewer.UnixMilli()
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
func (p *pkg) rank() {
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
func (p *pkg) indexVersions(parsed map[string]conda.Version) map[string]int32 {
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
func (p *pkg) compare(a, b int32) int {
	return cmp.Or(
		cmp.Compare(p.channel[a], p.channel[b]),
		cmp.Compare(p.tracks(a), p.tracks(b)),
		cmp.Compare(p.version[b], p.version[a]),
		cmp.Compare(p.records[b].BuildNumber, p.records[a].BuildNumber),
	)
}

// tracks is 1 for a record with track features.
func (p *pkg) tracks(i int32) int {
	return min(1, len(p.records[i].TrackFeatures))
}
