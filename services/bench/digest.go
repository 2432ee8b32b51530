package main

// measureDigest measures GET of a manifest by digest at full load: slipwayd (the
// image with a small containerConfig, and unchanged), distribution's pull-through
// cache and the upstream registry itself.
func measureDigest(w *world, s *sheet) {
	l := w.lineup(appImage)
	s.remark = w.remarkRedis()
	var turns []contender
	for _, p := range l.all() {
		load := load{call: get(p.manifest(p.digest(w))), workers: 8, count: w.requests}
		load.warm(w.ctx)
		turns = append(turns, load.turn(w.ctx, p.name, p.server, nil, p.store))
	}
	r := alternate(w.ctx, w.rounds, turns...)
	for _, p := range l.all() {
		s.medians(r, p.name, rate, p50, p99)
	}
	s.medians(r, nameDistribution, cpu)
	s.medians(r, nameDirect, cpu)
	s.tell("redis cpu", r.median(nameSlipway, metric{of: func(s sample) float64 { return s.store * 1e6 }}), cpu.unit)
	for _, name := range []string{nameSlipway, nameUnchanged} {
		s.ratio(r, name, nameDirect, cpu, bar{})
		s.median(r, name, cpu, atMost(60))
		s.ratio(r, name, nameDistribution, rate, atLeast(2))
	}
	w.profile("digest", w.slipway(), turns[0])
}
