package measure

import (
	"net/http"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/load"
	"slipway.dev/services/bench/internal/slipwayd"
	"slipway.dev/services/bench/internal/world"
)

// Tag measures GET of a manifest by tag, one request at a time. slipwayd and the caches
// query the upstream registry each time, except for a slipwayd with tag_freshness. The reference is
// that query alone, a HEAD at the upstream registry.
func Tag(w *world.World, s *figure.Sheet) {
	const directHead, nameFresh = "direct HEAD", "slipway, tag_freshness"
	l := w.Lineup(world.AppImage)
	s.Remark = w.RemarkRedis()
	cached := w.StartSlipway("SLIPWAY_TAG_FRESHNESS=1m")
	fresh := world.Participant{Name: nameFresh, Server: cached.Server, Repository: cached.Request(slipwayd.RequestFor(w.Up.Addr, world.AppImage, slipwayd.SmallConfig))}
	type asked struct {
		name, method string
		to           world.Participant
		count        int
	}
	all := []asked{
		{world.NameSlipway, http.MethodGet, l.Slipway, w.Requests / 10},
		{directHead, http.MethodHead, l.Direct, w.Requests / 10},
		{world.NameUnchanged, http.MethodGet, l.Unchanged, w.Requests / 10},
		{nameFresh, http.MethodGet, fresh, w.Requests / 10},
		{world.NameDistribution, http.MethodGet, l.Distribution, w.Requests / 50}, // slow
	}
	if l.Zot != nil {
		all = append(all, asked{world.NameZot, http.MethodGet, *l.Zot, w.Requests / 50})
	}
	var turns []figure.Contender
	for _, t := range all {
		load := load.Load{Call: load.Call{Method: t.method, URL: t.to.Manifest(t.to.Ref)}, Workers: 1, Count: t.count}
		turns = append(turns, load.Turn(w.Ctx, t.name, t.to.Server, nil, nil))
	}
	figure.Alternate(w.Ctx, 1, turns...)
	r := figure.Alternate(w.Ctx, w.Rounds, turns...)
	for _, t := range turns {
		s.Medians(r, t.Name, figure.P50, figure.CPU)
	}
	s.Ratio(r, world.NameSlipway, directHead, figure.P50, figure.AtMost(3.5))
	s.Ratio(r, world.NameUnchanged, directHead, figure.P50, figure.AtMost(3.5))
	s.Ratio(r, nameFresh, directHead, figure.P50, figure.AtMost(1.5))
	s.Ratio(r, world.NameDistribution, world.NameSlipway, figure.P50, figure.AtLeast(5))
	if l.Zot != nil {
		s.Ratio(r, world.NameZot, world.NameSlipway, figure.P50, figure.AtLeast(5))
	}
	w.Profile("tag", w.Slipway(), turns[0])
}
