package main

import (
	"context"
	"errors"
)

// digestSection measures GET of a manifest by digest at full load: slipwayd (the
// image with a small containerConfig, and unchanged), distribution's pull-through
// cache and the upstream registry itself.
type digestSection struct{}

func (digestSection) name() string { return "digest" }

// The contenders that several sections have.
const (
	nameSlipway      = "slipway"
	nameUnchanged    = "slipway unchanged"
	nameDistribution = "distribution"
	nameDirect       = "direct"
)

func (digestSection) measure(ctx context.Context, w *world, s *sheet) error {
	l, err := newLineup(ctx, w, appImage)
	if err != nil {
		return err
	}
	s.remark = w.remarkRedis()
	var turns []contender
	for _, p := range l.participants() {
		digest, _, err := p.at.child(ctx)
		if err != nil {
			return err
		}
		t := p.at.manifest(digest)
		load := load{host: t.host, call: t.get(), workers: 8, count: w.requests}
		if err := warm(ctx, load); err != nil {
			return err
		}
		turns = append(turns, contender{p.name, func(ctx context.Context) (sample, error) {
			return load.metered(ctx, p.server, nil, p.store)
		}})
	}
	if err := l.limited(ctx); err != nil {
		return err
	}
	r, err := alternate(ctx, w.rounds, turns)
	if err != nil {
		return err
	}
	for _, p := range l.participants() {
		s.tell(p.name+" rate", r.median(p.name, rate), "1/s")
		s.tell(p.name+" p50", r.median(p.name, p50)*1000, "ms")
		s.tell(p.name+" p99", r.median(p.name, p99)*1000, "ms")
	}
	s.tell("distribution cpu", r.median(nameDistribution, cpu)*1e6, "us")
	s.tell("direct cpu", r.median(nameDirect, cpu)*1e6, "us")
	s.tell("redis cpu", r.median(nameSlipway, store)*1e6, "us")
	for _, name := range []string{nameSlipway, nameUnchanged} {
		s.tell(name+" cpu / direct", r.ratio(name, nameDirect, cpu), "x")
		s.hold(name+" cpu", r.median(name, cpu)*1e6, "us", atMost(60))
		s.hold(name+" rate / distribution", r.ratio(name, nameDistribution, rate), "x", atLeast(2))
	}
	return w.profile(ctx, "digest", l.slipway, turns[0])
}

// What figures read from samples.
func rate(s sample) float64  { return s.rate }
func p50(s sample) float64   { return s.p50 }
func p99(s sample) float64   { return s.p99 }
func cpu(s sample) float64   { return s.cpu }
func store(s sample) float64 { return s.store }

// warm lets a server see a call before it counts.
func warm(ctx context.Context, l load) error {
	l.count = min(l.count, 1000)
	_, err := l.run(ctx)
	return err
}

// limited makes sure that pulls are counted: a figure without limits is no figure.
func (l *lineup) limited(ctx context.Context) error {
	digest, _, err := l.ours.child(ctx)
	if err != nil {
		return err
	}
	t := l.ours.manifest(digest)
	header, err := once(ctx, t.host, t.get(), nil)
	if err == nil && header.Get("RateLimit-Remaining") == "" {
		err = errors.New("slipwayd does not count pulls: there is no RateLimit-Remaining")
	}
	return err
}
