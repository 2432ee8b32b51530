package build_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/bus"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
)

// claims is the bucket in which workers share layers, once it is there.
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

// TestFindLayers: what is there is what a worker said that it made for the service's own
// repository.
func TestFindLayers(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	r := p.replica(t, 1)
	js := p.claims(t)
	key := func(n int) conda.LayerKey { return conda.HashLayer(fmt.Sprint(n)) }
	say := func(key conda.LayerKey, repository, record string) {
		if _, err := js.Publish(t.Context(), buildbus.Claim(key.At(repository)), []byte(record)); err != nil {
			t.Fatal(err)
		}
	}
	say(key(1), "images/own", "a record")
	say(key(2), "images/own", "") // is being made
	say(key(3), "images/other", "a record")
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

// TestLayerMemory: a bucket that was there keeps layers for as long as the settings say,
// and else what its operator made of it.
func TestLayerMemory(t *testing.T) {
	t.Parallel()
	p := newDeployment(t, testkit.SQLite(t))
	js, err := jetstream.New(p.bus)
	if err != nil {
		t.Fatal(err)
	}
	before := buildbus.Claims(time.Hour)
	before.Description, before.MaxBytes = "of the operator", 1<<20
	if err := bus.MakeStreams(t.Context(), js, before); err != nil {
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
