package main

import "net/http"

// measureTag measures GET of a manifest by tag, one request at a time: slipwayd
// and distribution ask the upstream registry each time whether the tag has moved.
// The yardstick is that question alone, a HEAD at the upstream registry.
func measureTag(w *world, s *sheet) {
	const directHead = "direct HEAD"
	l := w.lineup(appImage)
	s.remark = w.remarkRedis()
	var turns []contender
	for _, t := range []struct {
		name, method string
		to           participant
		count        int
	}{
		{nameSlipway, http.MethodGet, l.ours, w.requests / 10},
		{directHead, http.MethodHead, l.direct, w.requests / 10},
		{nameUnchanged, http.MethodGet, l.unchanged, w.requests / 10},
		{nameDistribution, http.MethodGet, l.theirs, w.requests / 50}, // slow
	} {
		load := load{call: call{method: t.method, url: t.to.manifest(t.to.ref)}, workers: 1, count: t.count}
		turns = append(turns, load.turn(w.ctx, t.name, t.to.server, nil, nil))
	}
	alternate(w.ctx, 1, turns...)
	r := alternate(w.ctx, w.rounds, turns...)
	for _, t := range turns {
		s.medians(r, t.name, p50, cpu)
	}
	s.ratio(r, nameSlipway, directHead, p50, atMost(2))
	s.ratio(r, nameUnchanged, directHead, p50, atMost(2))
	w.profile("tag", w.slipway(), turns[0])
}
