package measure

import (
	"time"

	"slipway.dev/services/bench/internal/engine"
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/world"
)

var (
	speed      = figure.Metric{Name: "speed", Unit: "MB/s", Of: func(s figure.Sample) float64 { return s.Speed / 1e6 }}
	cost       = figure.Metric{Name: "cpu", Unit: "s/GB", Of: func(s figure.Sample) float64 { return s.CPU * 1e9 }}
	behindCost = figure.Metric{Name: "cpu", Unit: "s/GB", Of: func(s figure.Sample) float64 { return s.Behind * 1e9 }}
)

// Blob measures GET of one large blob, by a client that discards it and by one that hashes
// it as engines do.
func Blob(w *world.World, s *figure.Sheet) {
	l := w.Lineup(world.BigImage)
	c := engine.New()
	defer c.CloseIdleConnections()
	_, manifest, err := l.Direct.Child(w.Ctx, c)
	must.Do(err)
	digest := manifest.Layers[0].Digest
	for _, hashing := range []bool{false, true} {
		turn := func(p world.Participant, behind *process.Server) figure.Contender {
			return figure.Contender{Name: p.Name, Run: func() figure.Sample { return fetchBlob(w, p, behind, digest, hashing) }}
		}
		l.Unchanged.Name = world.NameSlipway // there is only one slipwayd here
		turns := []figure.Contender{turn(l.Direct, nil), turn(l.Unchanged, w.Up), turn(l.Distribution, nil)}
		// The first response fills the peer's cache.
		figure.Alternate(w.Ctx, 2, turns...)
		r := figure.Alternate(w.Ctx, w.Rounds, turns...)
		client := map[bool]string{true: ", client hashes"}[hashing]
		for _, t := range turns {
			s.Record(t.Name+" speed"+client, r.Median(t.Name, speed), speed.Unit)
			s.Record(t.Name+" cpu"+client, r.Median(t.Name, cost), cost.Unit)
		}
		s.Record("upstream cpu behind slipway"+client, r.Median(world.NameSlipway, behindCost), cost.Unit)
		s.Check("slipway speed / direct"+client, r.Ratio(world.NameSlipway, world.NameDirect, speed), "x", figure.AtLeast(0.9))
		if !hashing {
			w.Profile("blob", w.Slipway(), turns[1])
		}
	}
}

// fetchBlob fetches the blob once on a new connection.
func fetchBlob(w *world.World, p world.Participant, behind *process.Server, digest string, hashing bool) figure.Sample {
	c := engine.New()
	defer c.CloseIdleConnections()
	used, begin := process.Watch(p.Server, behind), time.Now()
	n := float64(must.Get(engine.Fetch(w.Ctx, c, p.Blob(digest), hashing)))
	elapsed, seconds := time.Since(begin), used()
	return figure.Sample{Speed: n / elapsed.Seconds(), CPU: seconds[0] / n, Behind: seconds[1] / n}
}
