package main

import "time"

var (
	speed      = metric{"speed", "MB/s", func(s sample) float64 { return s.speed / 1e6 }}
	cost       = metric{"cpu", "s/GB", func(s sample) float64 { return s.cpu * 1e9 }}
	behindCost = metric{"cpu", "s/GB", func(s sample) float64 { return s.behind * 1e9 }}
)

// measureBlob measures GET of one large blob, by a client that throws it away and
// by one that hashes it, as engines do.
func measureBlob(w *world, s *sheet) {
	l := w.lineup(bigImage)
	c := engine()
	defer c.CloseIdleConnections()
	_, manifest, err := l.direct.child(w.ctx, c)
	check(err)
	digest := manifest.Layers[0].Digest
	for _, hashing := range []bool{false, true} {
		turn := func(p participant, behind *server) contender {
			return contender{p.name, func() sample { return w.fetchBlob(p, behind, digest, hashing) }}
		}
		l.unchanged.name = nameSlipway // there is no other here
		turns := []contender{turn(l.direct, nil), turn(l.unchanged, w.up), turn(l.theirs, nil)}
		// The peer fills its cache with the first answer.
		alternate(w.ctx, 2, turns...)
		r := alternate(w.ctx, w.rounds, turns...)
		client := map[bool]string{true: ", client hashes"}[hashing]
		for _, t := range turns {
			s.tell(t.name+" speed"+client, r.median(t.name, speed), speed.unit)
			s.tell(t.name+" cpu"+client, r.median(t.name, cost), cost.unit)
		}
		s.tell("upstream cpu behind slipway"+client, r.median(nameSlipway, behindCost), cost.unit)
		s.hold("slipway speed / direct"+client, r.ratio(nameSlipway, nameDirect, speed), "x", atLeast(0.9))
		if !hashing {
			w.profile("blob", w.slipway(), turns[1])
		}
	}
}

// fetchBlob fetches the blob once, with a connection of its own.
func (w *world) fetchBlob(p participant, behind *server, digest string, hashing bool) sample {
	c := engine()
	defer c.CloseIdleConnections()
	used, begin := watch(p.server, behind), time.Now()
	n := float64(must(fetch(w.ctx, c, p.blob(digest), hashing)))
	elapsed, seconds := time.Since(begin), used()
	return sample{speed: n / elapsed.Seconds(), cpu: seconds[0] / n, behind: seconds[1] / n}
}
