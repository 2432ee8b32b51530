package measure

import (
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/load"
	"slipway.dev/services/bench/internal/world"
)

// Digest measures GET of a manifest by digest at full load: slipwayd (the
// image with a small containerConfig, and unchanged), distribution's pull-through
// cache and the upstream registry itself.
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
	s.Medians(r, world.NameDistribution, figure.CPU)
	s.Medians(r, world.NameDirect, figure.CPU)
	s.Tell("redis cpu", r.Median(world.NameSlipway, figure.Metric{Of: func(s figure.Sample) float64 { return s.Store * 1e6 }}), figure.CPU.Unit)
	for _, name := range []string{world.NameSlipway, world.NameUnchanged} {
		s.Ratio(r, name, world.NameDirect, figure.CPU, figure.Bar{})
		s.Median(r, name, figure.CPU, figure.AtMost(60))
		s.Ratio(r, name, world.NameDistribution, figure.Rate, figure.AtLeast(2))
	}
	w.Profile("digest", w.Slipway(), turns[0])
}
