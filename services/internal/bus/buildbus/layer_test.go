package buildbus_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"testing"
	"time"

	"slipway.dev/services/internal/bus/buildbus"
)

// TestLayerRecord verifies that a record is valid for its layer, repository and key only,
// and invalid after any change.
func TestLayerRecord(t *testing.T) {
	t.Parallel()
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Truncate(time.Microsecond)
	raw := buildbus.SignLayer(key, "repository.layer", at, []byte("content"))
	r, err := buildbus.ParseLayer(raw)
	if err != nil || r.KeyID != buildbus.KeyID(public) || !r.SignedAt.Equal(at) || string(r.Content) != "content" {
		t.Fatalf("the record was parsed as %+v, %v", r, err)
	}
	if err := r.Verify(public, "repository.layer", at); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"another layer": r.Verify(public, "repository.other", at), "another repository": r.Verify(public, "other.layer", at),
		"another key": r.Verify(other, "repository.layer", at), "no key": r.Verify(nil, "repository.layer", at),
		"expired": r.Verify(public, "repository.layer", at.Add(time.Microsecond)),
	} {
		if !errors.Is(err, buildbus.ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range raw {
		changed := bytes.Clone(raw)
		changed[i] ^= 1
		if r, err := buildbus.ParseLayer(changed); err == nil && r.Verify(public, "repository.layer", time.Time{}) == nil {
			t.Errorf("a record with a changed byte %d is valid", i)
		}
	}
	for n := range len(raw) - len("content") + 1 {
		if _, err := buildbus.ParseLayer(raw[:n]); !errors.Is(err, buildbus.ErrRecord) {
			t.Errorf("the first %d bytes are accepted as a record: %v", n, err)
		}
	}
}

// TestWorkerKeyProof verifies that a proof is valid for its key and worker only.
func TestWorkerKeyProof(t *testing.T) {
	t.Parallel()
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	proof := buildbus.ProveKey(key, "worker-1")
	if !buildbus.HasKey(public, "worker-1", proof) {
		t.Error("a valid proof was rejected")
	}
	if buildbus.HasKey(public, "worker-2", proof) || buildbus.HasKey(other, "worker-1", proof) || buildbus.HasKey(nil, "worker-1", proof) || buildbus.HasKey(public, "worker-1", nil) {
		t.Error("the proof is valid for another worker or key")
	}
}
