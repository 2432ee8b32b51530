package world

import (
	"slipway.dev/services/bench/internal/engine"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/slipwayd"
)

// The contenders of several sections.
const (
	NameSlipway      = "slipway"
	NameUnchanged    = "slipway unchanged"
	NameDistribution = "distribution"
	NameZot          = "zot"
	NameDirect       = "direct"
)

// A Lineup is one upstream image and the ways to pull it: through slipwayd with and without
// SmallConfig, through the caches of distribution and, if installed, zot, and directly.
type Lineup struct {
	Slipway, Unchanged, Distribution, Direct Participant
	// Zot is nil if it is not installed.
	Zot *Participant
}

// A Participant is one way to pull the image.
type Participant struct {
	Name string
	// Server responds to the requests. Store is the Redis that it uses, or nil.
	Server, Store *process.Server
	engine.Repository
}

// Lineup pushes the image and starts the servers.
func (w *World) Lineup(image string) Lineup {
	w.Push(image)
	ours := w.Slipway()
	l := Lineup{
		Slipway:      Participant{NameSlipway, ours.Server, w.Redis, ours.Request(slipwayd.RequestFor(w.Up.Addr, image, slipwayd.SmallConfig))},
		Unchanged:    Participant{NameUnchanged, ours.Server, w.Redis, ours.Request(slipwayd.RequestFor(w.Up.Addr, image, ""))},
		Distribution: Participant{NameDistribution, w.distribution(), nil, engine.At(w.distribution().Addr + "/" + image)},
		Direct:       Participant{NameDirect, w.Up, nil, engine.At(w.Up.Addr + "/" + image)},
	}
	if zot := w.zot(); zot != nil {
		l.Zot = &Participant{NameZot, zot, nil, engine.At(zot.Addr + "/" + image)}
	}
	// A measurement without rate limits would not be realistic.
	c := engine.New()
	defer c.CloseIdleConnections()
	if _, header, err := engine.Read(w.Ctx, c, l.Slipway.Manifest(l.Slipway.Digest(w))); err != nil || header.Get("RateLimit-Remaining") == "" {
		must.Fail("slipwayd does not count pulls: there is no RateLimit-Remaining (%v)", err)
	}
	return l
}

// All returns all participants, slipwayd first.
func (l Lineup) All() []Participant {
	all := []Participant{l.Slipway, l.Unchanged, l.Distribution, l.Direct}
	if l.Zot != nil {
		all = append(all, *l.Zot)
	}
	return all
}

// Digest returns the digest of the manifest for linux/amd64.
func (p Participant) Digest(w *World) string {
	c := engine.New()
	defer c.CloseIdleConnections()
	digest, _, err := p.Child(w.Ctx, c)
	must.Do(err)
	return digest
}
