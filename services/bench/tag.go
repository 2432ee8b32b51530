package main

import "context"

// tagSection measures GET of a manifest by tag, one request at a time: slipwayd
// and distribution ask the upstream registry each time whether the tag has moved.
// The yardstick is that question alone, a HEAD at the upstream registry.
type tagSection struct{}

func (tagSection) name() string { return "tag" }

func (tagSection) measure(ctx context.Context, w *world, s *sheet) error {
	l, err := newLineup(ctx, w, appImage)
	if err != nil {
		return err
	}
	s.remark = w.remarkRedis()
	const directHead = "direct HEAD"
	count := w.requests / 10
	turn := func(name string, t target, k call, count int, server *server) contender {
		load := load{host: t.host, call: k, workers: 1, count: count}
		return contender{name, func(ctx context.Context) (sample, error) { return load.metered(ctx, server, nil, nil) }}
	}
	ours, plain := l.ours.manifest(l.ours.ref), l.unchanged.manifest(l.unchanged.ref)
	theirs, direct := l.theirs.manifest(l.theirs.ref), l.direct.manifest(l.direct.ref)
	turns := []contender{
		turn(nameSlipway, ours, ours.get(), count, l.slipway),
		turn(directHead, direct, direct.head(), count, l.upstream),
		turn(nameUnchanged, plain, plain.get(), count, l.slipway),
		turn(nameDistribution, theirs, theirs.get(), count/5, l.distribution), // slow
	}
	if _, err := alternate(ctx, 1, turns); err != nil {
		return err
	}
	r, err := alternate(ctx, w.rounds, turns)
	if err != nil {
		return err
	}
	for _, t := range turns {
		s.tell(t.name+" p50", r.median(t.name, p50)*1000, "ms")
		s.tell(t.name+" cpu", r.median(t.name, cpu)*1e6, "us")
	}
	s.hold("slipway p50 / direct HEAD", r.ratio(nameSlipway, directHead, p50), "x", atMost(2))
	s.hold("slipway unchanged p50 / direct HEAD", r.ratio(nameUnchanged, directHead, p50), "x", atMost(2))
	return w.profile(ctx, "tag", l.slipway, turns[0])
}
