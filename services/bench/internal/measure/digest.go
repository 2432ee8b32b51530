package measure

import (
	"maps"
	"slices"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/load"
	"slipway.dev/services/bench/internal/world"
)

// Digest measures GET of a manifest by digest at full load: slipwayd (the image with a
// small containerConfig, and unchanged), the pull-through caches of distribution and zot,
// and the upstream registry itself.
func Digest(w *world.World, s *figure.Sheet) {
	l := w.Lineup(world.AppImage)
	s.Remark = w.RemarkRedis()
	var turns []figure.Contender
	for _, p := range l.All() {
		load := load.Load{Call: load.Get(p.Manifest(p.Digest(w))), Workers: 8, Count: w.Requests}
		load.Warm(w.Ctx)
		turns = append(turns, load.Turn(w.Ctx, p.Name, p.Server, nil, p.Store))
	}
	r := figure.Alternate(w.Ctx, w.Rounds, turns...)
	for _, p := range l.All() {
		s.Medians(r, p.Name, figure.Rate, figure.P50, figure.P99)
	}
	ahead := map[string]figure.Bar{world.NameDistribution: figure.AtLeast(2)}
	if l.Zot != nil {
		ahead[world.NameZot] = figure.AtLeast(1)
	}
	for _, peer := range slices.Sorted(maps.Keys(ahead)) {
		s.Medians(r, peer, figure.CPU)
	}
	s.Medians(r, world.NameDirect, figure.CPU)
	s.Record("redis cpu", r.Median(world.NameSlipway, figure.Metric{Of: func(s figure.Sample) float64 { return s.Store * 1e6 }}), figure.CPU.Unit)
	for _, name := range []string{world.NameSlipway, world.NameUnchanged} {
		s.Ratio(r, name, world.NameDirect, figure.CPU, figure.AtMost(1.15))
		s.Median(r, name, figure.CPU, figure.AtMost(60))
		for _, peer := range slices.Sorted(maps.Keys(ahead)) {
			s.Ratio(r, name, peer, figure.Rate, ahead[peer])
		}
	}
	w.Profile("digest", w.Slipway(), turns[0])
}
