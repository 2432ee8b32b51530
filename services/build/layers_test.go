package build_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
)

// claims returns the bucket in which workers share layers, when it exists.
func (p *deployment) claims(t *testing.T) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(p.bus)
	if err != nil {
		t.Fatal(err)
	}
	poll(t, "the bucket of layers", func(ctx context.Context) error {
		_, err := js.Stream(ctx, buildbus.Claims(0).Name)
		return err
	})
	return js
}

// signer is a worker that signs records of layers with a registered key.
type signer struct {
	name string
	key  ed25519.PrivateKey
}

func (p *deployment) signer(t *testing.T, r replica, name string) signer {
	t.Helper()
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := signer{name, key}
	if _, err := r.RegisterWorkerKey(t.Context(), s.registration(public)); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s signer) registration(public ed25519.PublicKey) *buildv1.RegisterWorkerKeyRequest {
	return &buildv1.RegisterWorkerKeyRequest{Worker: s.name, PublicKey: public, Proof: buildbus.ProveKey(s.key, s.name)}
}

func (s signer) id() string {
	public, _ := s.key.Public().(ed25519.PublicKey)
	return buildbus.KeyID(public)
}

// record publishes a value for a layer in a repository.
func record(t *testing.T, js jetstream.JetStream, name string, value []byte) {
	t.Helper()
	if _, err := js.Publish(t.Context(), buildbus.Claim(name), value); err != nil {
		t.Fatal(err)
	}
}

// TestFindLayers checks that layers exist for which a registered worker signed a record for
// the service's own repository.
func TestFindLayers(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 1)
	js := p.claims(t)
	key := func(n int) spec.LayerKey { return spec.HashLayer(fmt.Sprint(n)) }
	w := p.signer(t, r, "a")
	signed := func(name string) []byte { return buildbus.SignLayer(w.key, name, p.clock(), []byte("a record")) }
	own := func(n int) string { return key(n).At("images/own") }
	record(t, js, own(1), signed(own(1)))
	record(t, js, own(2), nil) // is being built
	record(t, js, key(3).At("images/other"), signed(key(3).At("images/other")))
	record(t, js, own(4), []byte("not signed"))
	record(t, js, own(5), signed(own(1))) // for another layer
	_, unknown, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	record(t, js, own(6), buildbus.SignLayer(unknown, own(6), p.clock(), []byte("a record")))
	var keys []string
	for n := range 100 {
		keys = append(keys, string(key(n)))
	}
	got, err := r.FindLayers(t.Context(), &buildv1.FindLayersRequest{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	if there := got.GetThere(); len(there) != len(keys) || !there[1] || slices.Contains(there[2:], true) || there[0] {
		t.Errorf("there are %v", there[:min(10, len(there))])
	}
	if got, err := r.FindLayers(t.Context(), &buildv1.FindLayersRequest{}); err != nil || len(got.GetThere()) != 0 {
		t.Errorf("of none there are %v, %v", got, err)
	}
	for _, wrong := range [][]string{slices.Repeat(keys, limits.LayerKeys/len(keys)+1), {"*"}, {">"}, {strings.Repeat("A", 64)}, {""}, {keys[0] + "." + keys[1]}} {
		if _, err := r.FindLayers(t.Context(), &buildv1.FindLayersRequest{Keys: wrong}); !errors.Is(err, fault.Invalid) {
			t.Errorf("%d keys, %.70q: %v", len(wrong), wrong[0], err)
		}
	}
	if err := p.claims(t).DeleteStream(t.Context(), buildbus.Claims(0).Name); err != nil {
		t.Fatal(err)
	}
	if _, err := r.FindLayers(t.Context(), &buildv1.FindLayersRequest{Keys: keys[:1]}); !errors.Is(err, fault.Unavailable) {
		t.Errorf("without the bucket: %v", err)
	}
}

// TestLayerMemory checks that an existing bucket gets the configured retention and keeps
// its operator's other settings.
func TestLayerMemory(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	js, err := jetstream.New(p.bus)
	if err != nil {
		t.Fatal(err)
	}
	before := buildbus.Claims(time.Hour)
	before.Description, before.MaxBytes = "of the operator", 1<<20
	if err := bus.CreateStreams(t.Context(), js, before); err != nil {
		t.Fatal(err)
	}
	p.layerMemory = 48 * time.Hour
	p.replica(t, 1)
	poll(t, "the bucket to be changed", func(ctx context.Context) error {
		s, err := js.Stream(ctx, before.Name)
		if err != nil {
			return err
		}
		if c := s.CachedInfo().Config; c.MaxAge != 48*time.Hour || c.MaxBytes != limits.LayerRecords || c.Description != before.Description {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}
