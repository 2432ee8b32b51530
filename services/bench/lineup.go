package main

import (
	"context"
	"fmt"
	"strings"
)

// lineup is one upstream image and the ways to it.
type lineup struct {
	slipway, distribution, upstream *server
	redis                           *server
	// ours is the name with smallConfig, unchanged the name without it.
	ours, unchanged, theirs, direct repository
}

// participant is one way to the image.
type participant struct {
	name string
	// server answers; store is the Redis that it uses, or nil.
	server, store *server
	at            repository
}

func newLineup(ctx context.Context, w *world, image string) (*lineup, error) {
	if err := w.push(ctx, image); err != nil {
		return nil, err
	}
	var l lineup
	var err error
	if l.upstream, err = w.upstream(ctx); err != nil {
		return nil, err
	}
	if l.distribution, err = w.distribution(ctx); err != nil {
		return nil, err
	}
	if l.slipway, err = w.slipway(ctx); err != nil {
		return nil, err
	}
	l.redis = w.redis
	l.direct, l.theirs = at(l.upstream.addr+"/"+image), at(l.distribution.addr+"/"+image)
	if l.ours, err = request(ctx, l.slipway, requestFor(l.upstream, image, smallConfig)); err != nil {
		return nil, err
	}
	if l.unchanged, err = request(ctx, l.slipway, requestFor(l.upstream, image, "")); err != nil {
		return nil, err
	}
	if !strings.HasSuffix(l.ours.path, l.direct.path) {
		return nil, fmt.Errorf("slipwayd answered the name of another image: %s", l.ours.path)
	}
	return &l, nil
}

func (l *lineup) participants() []participant {
	return []participant{
		{nameSlipway, l.slipway, l.redis, l.ours},
		{nameUnchanged, l.slipway, l.redis, l.unchanged},
		{nameDistribution, l.distribution, nil, l.theirs},
		{nameDirect, l.upstream, nil, l.direct},
	}
}
