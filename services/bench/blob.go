package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"time"
)

// blobSection measures GET of one large blob, by a client that throws it away and
// by one that hashes it, as engines do.
type blobSection struct{}

func (blobSection) name() string { return "blob" }

func (blobSection) measure(ctx context.Context, w *world, s *sheet) error {
	l, err := newLineup(ctx, w, bigImage)
	if err != nil {
		return err
	}
	_, manifest, err := l.unchanged.child(ctx)
	if err != nil {
		return err
	}
	digest := manifest.Layers[0].Digest
	for _, hashing := range []bool{false, true} {
		turns := []contender{
			blobTurn(nameDirect, l.direct.blob(digest), hashing, l.upstream, nil),
			blobTurn(nameSlipway, l.unchanged.blob(digest), hashing, l.slipway, l.upstream),
			blobTurn(nameDistribution, l.theirs.blob(digest), hashing, l.distribution, nil),
		}
		// The peer fills its cache with the first answer.
		if _, err := alternate(ctx, 2, turns); err != nil {
			return err
		}
		r, err := alternate(ctx, w.rounds, turns)
		if err != nil {
			return err
		}
		describeBlobs(s, r, map[bool]string{false: "", true: ", client hashes"}[hashing])
		if !hashing {
			if err := w.profile(ctx, "blob", l.slipway, turns[1]); err != nil {
				return err
			}
		}
	}
	return nil
}

func describeBlobs(s *sheet, r results, client string) {
	for _, name := range []string{nameDirect, nameSlipway, nameDistribution} {
		s.tell(name+" speed"+client, r.median(name, speed)/1e6, "MB/s")
		s.tell(name+" cpu"+client, r.median(name, cost)*1e9, "s/GB")
	}
	s.tell("upstream cpu behind slipway"+client, r.median(nameSlipway, behindCost)*1e9, "s/GB")
	s.hold("slipway speed / direct"+client, r.ratio(nameSlipway, nameDirect, speed), "x", atLeast(0.9))
}

func speed(s sample) float64      { return s.speed }
func cost(s sample) float64       { return s.cost }
func behindCost(s sample) float64 { return s.behindCost }

// blobTurn fetches the blob once. behind is the server that the one under test
// asks, or nil.
func blobTurn(name string, t target, hashing bool, under, behind *server) contender {
	return contender{name, func(ctx context.Context) (sample, error) {
		m, err := watch(under, under)
		if behind != nil {
			m, err = watch(under, behind)
		}
		if err != nil {
			return sample{}, err
		}
		begin := time.Now()
		size, err := fetch(ctx, t, hashing)
		if err != nil {
			return sample{}, err
		}
		elapsed := time.Since(begin)
		used, err := m.used()
		if err != nil {
			return sample{}, err
		}
		out := sample{speed: size / elapsed.Seconds(), cost: used[0].Seconds() / size}
		if behind != nil {
			out.behindCost = used[1].Seconds() / size
		}
		return out, nil
	}}
}

// fetch reads a blob and answers its size in bytes; when it hashes, it checks.
func fetch(ctx context.Context, t target, hashing bool) (float64, error) {
	c, err := dial(ctx, t.host)
	if err != nil {
		return 0, err
	}
	defer c.hangUp()
	if !hashing {
		_, n, err := c.do(t.get(), nil)
		return float64(n), err
	}
	h := sha256.New()
	_, n, err := c.do(t.get(), h)
	if err == nil {
		err = verify(h, t)
	}
	return float64(n), err
}

func verify(h hash.Hash, t target) error {
	got := "sha256:" + hex.EncodeToString(h.Sum(nil))
	if want := t.path[len(t.path)-len(got):]; got != want {
		return fmt.Errorf("%s: the content has the digest %s", t.path, got)
	}
	return nil
}
