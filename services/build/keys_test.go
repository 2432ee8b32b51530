package build_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestWorkerKeys checks that the service returns a worker's key after the worker has
// registered it, until the key is revoked or expires.
func TestWorkerKeys(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		p.layerMemory = 48 * time.Hour
		r := p.replica(t, 1)
		a := p.signer(t, r, "a")
		public, _ := a.key.Public().(ed25519.PublicKey)
		get := func(id string) (*buildv1.GetWorkerKeyResponse, error) {
			return r.GetWorkerKey(t.Context(), &buildv1.GetWorkerKeyRequest{KeyId: id})
		}
		got, err := get(a.id())
		if err != nil || !public.Equal(ed25519.PublicKey(got.GetPublicKey())) || !got.GetNotBefore().AsTime().Equal(p.clock().Add(-48*time.Hour)) {
			t.Fatalf("the key is %v, %v", got, err)
		}
		if _, err := get(strings.Repeat("0", 64)); !errors.Is(err, fault.NotFound) {
			t.Errorf("an unknown key: %v", err)
		}
		p.sleep(30 * time.Hour)
		if _, err := r.RegisterWorkerKey(t.Context(), a.registration(public)); err != nil {
			t.Fatal(err)
		}
		p.sleep(30 * time.Hour)
		if _, err := get(a.id()); err != nil {
			t.Errorf("a key that was registered again lately: %v", err)
		}
		p.sleep(30 * time.Hour)
		if _, err := get(a.id()); !errors.Is(err, fault.NotFound) {
			t.Errorf("an expired key: %v", err)
		}
		for name, req := range map[string]*buildv1.RegisterWorkerKeyRequest{
			"no name":              {PublicKey: public, Proof: buildbus.ProveKey(a.key, "")},
			"a name of two words":  {Worker: "a b", PublicKey: public, Proof: buildbus.ProveKey(a.key, "a b")},
			"a long name":          {Worker: strings.Repeat("a", 201), PublicKey: public, Proof: buildbus.ProveKey(a.key, strings.Repeat("a", 201))},
			"no key":               {Worker: "a"},
			"no proof":             {Worker: "a", PublicKey: public},
			"the proof of another": {Worker: "b", PublicKey: public, Proof: buildbus.ProveKey(a.key, "a")},
		} {
			if _, err := r.RegisterWorkerKey(t.Context(), req); !errors.Is(err, fault.Invalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
		stolen := signer{"b", a.key}
		if _, err := r.RegisterWorkerKey(t.Context(), stolen.registration(public)); !errors.Is(err, fault.Denied) {
			t.Errorf("another worker registers the key: %v", err)
		}
	})
}

// TestRevokeWorker checks that the records of a revoked worker are deleted from the bus, and
// that the images with its layers are listed.
func TestRevokeWorker(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, testRevokeWorker)
}

func testRevokeWorker(t *testing.T, db *sqldb.DB) {
	p := newDeployment(t, db)
	r := p.replica(t, 100)
	js := p.claims(t)
	a, b := p.signer(t, r, "a"), p.signer(t, r, "b")
	name := func(n int) string { return spec.HashLayer(fmt.Sprint(n)).At("images/own") }
	for n, s := range []signer{a, b, a} {
		record(t, js, name(n), buildbus.SignLayer(s.key, name(n), p.clock(), []byte("a record")))
	}
	w := newWorker(t, p, 8)
	for _, c := range []struct {
		text string
		keys []string
	}{{"of both", []string{a.id(), b.id()}}, {"of b", []string{b.id(), "nonsense", strings.Repeat("x", 100_000)}}, {"of none", nil}} {
		req := p.request(c.text, "", nil)
		r.submit(t, req)
		job := w.take(t, r, 1)
		job.report(t, &buildv1.Result{Succeeded: true, Digest: p.push(t, req, job.id), LayerKeys: c.keys})
		job.ended(t, r)
	}
	keys := build.NewWorkerKeys(p.db)
	if _, err := keys.Revoke(t.Context(), "nobody", p.clock()); !errors.Is(err, fault.NotFound) {
		t.Errorf("an unknown worker: %v", err)
	}
	images, err := keys.Revoke(t.Context(), "a", p.clock())
	if err != nil || len(images) != 1 || !strings.HasPrefix(images[0].Image, p.up.Host+"/builds:") || images[0].Digest == "" {
		t.Errorf("the images are %v, %v", images, err)
	}
	if images, err = keys.Revoke(t.Context(), "b", p.clock().Add(time.Hour)); err != nil || len(images) != 1 { // the other one is discarded already
		t.Errorf("the images of b are %v, %v", images, err)
	}
	public, _ := a.key.Public().(ed25519.PublicKey)
	if _, err := r.RegisterWorkerKey(t.Context(), a.registration(public)); !errors.Is(err, fault.Denied) {
		t.Errorf("a revoked key is registered again: %v", err)
	}
	c := p.signer(t, r, "a") // a worker that was started again
	list, err := keys.List(t.Context())
	if err != nil || len(list) != 3 {
		t.Fatalf("the keys are %v, %v", list, err)
	}
	for _, k := range list {
		if k.Revoked.IsZero() != (k.ID == c.id()) {
			t.Errorf("the key of %s was revoked at %s", k.Worker, k.Revoked)
		}
	}
	record(t, js, name(3), buildbus.SignLayer(c.key, name(3), p.clock(), []byte("a record")))
	r.service.Sweep(t.Context())
	bucket, err := js.KeyValue(t.Context(), buildbus.ClaimBucket)
	if err != nil {
		t.Fatal(err)
	}
	left, err := bucket.Keys(t.Context())
	if err != nil || len(left) != 1 || left[0] != name(3) {
		t.Errorf("the records that are left are %v, %v; want that of %s", left, err, name(3))
	}
}
