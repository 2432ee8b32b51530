package main

// The contenders that several sections have.
const (
	nameSlipway      = "slipway"
	nameUnchanged    = "slipway unchanged"
	nameDistribution = "distribution"
	nameDirect       = "direct"
)

// lineup is one upstream image and the ways to it: through slipwayd with smallConfig
// and without it, through distribution's cache, and none.
type lineup struct{ ours, unchanged, theirs, direct participant }

// participant is one way to the image.
type participant struct {
	name string
	// server answers; store is the Redis that it uses, or nil.
	server, store *server
	repository
}

func (w *world) lineup(image string) lineup {
	w.push(image)
	ours := w.slipway()
	l := lineup{
		participant{nameSlipway, ours.server, w.redis, ours.request(requestFor(w.up.addr, image, smallConfig))},
		participant{nameUnchanged, ours.server, w.redis, ours.request(requestFor(w.up.addr, image, ""))},
		participant{nameDistribution, w.distribution(), nil, at(w.distribution().addr + "/" + image)},
		participant{nameDirect, w.up, nil, at(w.up.addr + "/" + image)},
	}
	// A figure without limits is no figure.
	c := engine()
	defer c.CloseIdleConnections()
	if _, header, err := read(w.ctx, c, l.ours.manifest(l.ours.digest(w))); err != nil || header.Get("RateLimit-Remaining") == "" {
		fail("slipwayd does not count pulls: there is no RateLimit-Remaining (%v)", err)
	}
	return l
}

func (l lineup) all() []participant { return []participant{l.ours, l.unchanged, l.theirs, l.direct} }

// digest is that of the manifest for linux/amd64.
func (p participant) digest(w *world) string {
	c := engine()
	defer c.CloseIdleConnections()
	digest, _, err := p.child(w.ctx, c)
	check(err)
	return digest
}
