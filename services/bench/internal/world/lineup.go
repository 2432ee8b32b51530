package world

import (
	"slipway.dev/services/bench/internal/engine"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/slipwayd"
)

// The contenders that several sections have.
const (
	NameSlipway      = "slipway"
	NameUnchanged    = "slipway unchanged"
	NameDistribution = "distribution"
	NameZot          = "zot"
	NameDirect       = "direct"
)

// Lineup is one upstream image and the ways to it: through slipwayd with SmallConfig
// and without it, through the caches of distribution and, where it is installed, zot, and
// none.
type Lineup struct {
	Ours, Unchanged, Theirs, Direct Participant
	// Zot is nil where it is not installed.
	Zot *Participant
}

// Participant is one way to the image.
type Participant struct {
	Name string
	// Server answers; store is the Redis that it uses, or nil.
	Server, Store *process.Server
	engine.Repository
}

// Lineup pushes the image and starts what is on the ways to it.
func (w *World) Lineup(image string) Lineup {
	w.Push(image)
	ours := w.Slipway()
	l := Lineup{
		Ours:      Participant{NameSlipway, ours.Server, w.Redis, ours.Request(slipwayd.RequestFor(w.Up.Addr, image, slipwayd.SmallConfig))},
		Unchanged: Participant{NameUnchanged, ours.Server, w.Redis, ours.Request(slipwayd.RequestFor(w.Up.Addr, image, ""))},
		Theirs:    Participant{NameDistribution, w.distribution(), nil, engine.At(w.distribution().Addr + "/" + image)},
		Direct:    Participant{NameDirect, w.Up, nil, engine.At(w.Up.Addr + "/" + image)},
	}
	if zot := w.zot(); zot != nil {
		l.Zot = &Participant{NameZot, zot, nil, engine.At(zot.Addr + "/" + image)}
	}
	// A figure without limits is no figure.
	c := engine.New()
	defer c.CloseIdleConnections()
	if _, header, err := engine.Read(w.Ctx, c, l.Ours.Manifest(l.Ours.Digest(w))); err != nil || header.Get("RateLimit-Remaining") == "" {
		must.Fail("slipwayd does not count pulls: there is no RateLimit-Remaining (%v)", err)
	}
	return l
}

// All are the ways, ours first.
func (l Lineup) All() []Participant {
	all := []Participant{l.Ours, l.Unchanged, l.Theirs, l.Direct}
	if l.Zot != nil {
		all = append(all, *l.Zot)
	}
	return all
}

// Digest is that of the manifest for linux/amd64.
func (p Participant) Digest(w *World) string {
	c := engine.New()
	defer c.CloseIdleConnections()
	digest, _, err := p.Child(w.Ctx, c)
	must.Do(err)
	return digest
}
