package conda_test

import (
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	engine "slipway.dev/services/builder/engine/conda"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/jobs/jobstest"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/testkit"
)

// stored returns the values in the claims bucket, by name.
func (b *bench) stored(nc *nats.Conn) map[string][]byte {
	b.t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		b.t.Fatal(err)
	}
	bucket, err := js.KeyValue(b.t.Context(), buildbus.ClaimBucket)
	if err != nil {
		b.t.Fatal(err)
	}
	names, err := bucket.Keys(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, name := range names {
		e, err := bucket.Get(b.t.Context(), name)
		if err != nil {
			b.t.Fatal(err)
		}
		out[name] = e.Value()
	}
	return out
}

// write replaces a value in the claims bucket, as any client of NATS can.
func (b *bench) write(nc *nats.Conn, name string, value []byte) {
	b.t.Helper()
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.Publish(b.t.Context(), buildbus.Claim(name), value)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// wants builds an image on a worker and checks the number of packages that it fetches. It
// returns the image and the keys of other workers whose layers it has.
func (b *bench) wants(e *engine.Engine, repository string, fetched int) (image string, keys []string) {
	b.t.Helper()
	before := int(b.asked.Load())
	image, err := e.Build(b.t.Context(), b.job(b.curl(), func(j *jobs.Job) {
		j.Target.Repository = repository
		j.UsedKeys = func(ids []string) { keys = ids }
	}), &lines{})
	if err != nil {
		b.t.Fatal(err)
	}
	if n := int(b.asked.Load()) - before; n != fetched {
		b.t.Errorf("for %s the channel was asked %d times instead of %d", repository, n, fetched)
	}
	return image, keys
}

// statement returns a record's content, and a function that puts another record's blob into
// it.
func statement(t *testing.T, raw []byte) (content map[string]any, swapped func(other map[string]any) []byte) {
	t.Helper()
	r, err := buildbus.ParseLayer(raw)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(r.Content))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(&content); err != nil {
		t.Fatal(err)
	}
	return content, func(other map[string]any) []byte {
		evil := maps.Clone(content)
		for _, field := range []string{"digest", "size", "diffId"} {
			evil[field] = other[field]
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if err := errors.Join(json.NewEncoder(z).Encode(evil), z.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
}

// TestForgedRecords checks that a NATS client without a registered key cannot put another
// layer into an image, neither with its own records nor with records that a worker signed
// for another layer or repository.
func TestForgedRecords(t *testing.T) {
	t.Parallel()
	b, nc := newBench(t), jobstest.WithClaims(t, testkit.NATS(t))
	honest, _ := b.wants(b.worker(nc, "a"), "team/env", 2)
	records := b.stored(nc)
	names := slices.Sorted(maps.Keys(records))
	if len(names) != 2 {
		t.Fatalf("there are %d records", len(names))
	}
	one, swap := statement(t, records[names[0]])
	two, swapBack := statement(t, records[names[1]])
	evil := [][]byte{swap(two), swapBack(one)} // all blobs exist in the repository
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	b.wants(b.worker(nc, "a"), "team/other", 2)
	elsewhere := b.stored(nc)
	maps.DeleteFunc(elsewhere, func(name string, _ []byte) bool { return slices.Contains(names, name) })
	other := slices.Sorted(maps.Keys(elsewhere))
	for _, c := range []struct {
		name  string
		value func(i int) []byte
	}{
		{"not signed", func(i int) []byte { return evil[i] }},
		{"nonsense", func(int) []byte { return []byte("x") }},
		{"signed with a key of its own", func(i int) []byte { return buildbus.SignLayer(key, names[i], time.Now(), evil[i]) }},
		{"a signed record with another statement", func(i int) []byte {
			raw := records[names[i]]
			r, _ := buildbus.ParseLayer(raw)
			return slices.Concat(raw[:len(raw)-len(r.Content)], evil[i])
		}},
		{"signed for the other layer", func(i int) []byte { return records[names[1-i]] }},
		{"signed for another repository", func(i int) []byte { return elsewhere[other[i]] }},
	} {
		for i, name := range names {
			b.write(nc, name, c.value(i))
		}
		image, keys := b.wants(b.worker(nc, "b"), "team/env", 2)
		if image != honest || len(keys) > 0 {
			t.Errorf("%s: the image is %s instead of %s, with layers of %v", c.name, image, honest, keys)
		}
		if again, _ := b.wants(b.worker(nc, "c"), "team/env", 0); again != honest {
			t.Errorf("%s: afterwards the image is %s instead of %s", c.name, again, honest)
		}
	}
}

// TestRevokedWorker checks that the layers of a stopped worker are used by workers that
// start later, until its key is revoked or its signatures expire. Then they are built
// again.
func TestRevokedWorker(t *testing.T) {
	t.Parallel()
	b, nc := newBench(t), jobstest.WithClaims(t, testkit.NATS(t))
	image, _ := b.wants(b.worker(nc, "a"), "team/env", 2)
	var signed []string
	for _, raw := range b.stored(nc) {
		r, err := buildbus.ParseLayer(raw)
		if err != nil {
			t.Fatal(err)
		}
		signed = append(signed, r.KeyID)
	}
	signed = slices.Compact(signed)
	got, keys := b.wants(b.worker(nc, "a"), "team/env", 0) // the same name, and a new key
	if diff := cmp.Diff(signed, keys); diff != "" || got != image {
		t.Errorf("after a restart the image is %s instead of %s\n%s", got, image, diff)
	}
	b.service.Revoke("a")
	if got, keys := b.wants(b.worker(nc, "b"), "team/env", 2); got != image || len(keys) > 0 {
		t.Errorf("after the revocation the image is %s, with layers of %v", got, keys)
	}
	b.wants(b.worker(nc, "c"), "team/env", 0)
	b.service.Mu.Lock()
	b.service.NotBefore = time.Now().Add(time.Minute)
	b.service.Mu.Unlock()
	b.wants(b.worker(nc, "d"), "team/env", 2)
}
