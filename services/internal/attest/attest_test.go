package attest_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/attest"
)

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	raw, err := attest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := attest.ParseKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newSigner(t testing.TB, key crypto.Signer) *attest.Signer {
	t.Helper()
	s, err := attest.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var (
	subject    = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("image"), Size: 5}
	provenance = attest.Provenance{
		BuildDefinition: attest.BuildDefinition{BuildType: attest.BuildTypeImage, ResolvedDependencies: []attest.Resource{{URI: "https://example.org/a?b=<c>&d", Digest: map[string]string{"sha256": "00", "md5": "11"}}}},
		RunDetails:      attest.RunDetails{Builder: attest.Builder{ID: "https://slipway.example.org"}},
	}
)

func TestSignaturesAreDeterministic(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	one, err := newSigner(t, key).Sign(t.Context(), subject, attest.ProvenancePredicate, provenance)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newSigner(t, key).Sign(t.Context(), subject, attest.ProvenancePredicate, provenance)
	if err != nil || !bytes.Equal(one.Bundle, other.Bundle) || !bytes.Equal(one.Manifest, other.Manifest) {
		t.Errorf("two signers with the same key returned different bytes, %v", err)
	}
	if s, err := attest.VerifyArtifact(one, subject.Digest, &key.PublicKey); err != nil || s.PredicateType != attest.ProvenancePredicate {
		t.Errorf("the artifact: %v, %v", s, err)
	}
	if _, err := attest.VerifyArtifact(attest.Artifact{Manifest: bytes.Replace(one.Manifest, []byte("provenance/v1"), []byte("provenance/v2"), 1), Bundle: one.Bundle}, subject.Digest, &key.PublicKey); err == nil {
		t.Error("a manifest with another predicate type was accepted")
	}
	layer, err := attest.BundleOf(one.Manifest, subject.Digest)
	if err != nil || layer.Digest != digest.FromBytes(one.Bundle) {
		t.Errorf("the layer is %v, %v", layer, err)
	}
	s, err := attest.Verify(one.Bundle, subject.Digest, &newKey(t).PublicKey, &key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := s.Provenance(); err != nil || p.RunDetails.Builder.ID != provenance.RunDetails.Builder.ID {
		t.Errorf("the provenance is %v, %v", p, err)
	}
}

// TestChangedBundles verifies bundles after one thing was changed.
func TestChangedBundles(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	a, err := newSigner(t, key).SignImage(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	change := func(f func(b, envelope map[string]any)) []byte {
		var b map[string]any
		if err := json.Unmarshal(a.Bundle, &b); err != nil {
			t.Fatal(err)
		}
		envelope, ok := b["dsseEnvelope"].(map[string]any)
		if !ok {
			t.Fatal("the bundle has no envelope")
		}
		f(b, envelope)
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	other, err := newSigner(t, key).SignImage(t.Context(), ocispec.Descriptor{MediaType: subject.MediaType, Digest: digest.FromString("other"), Size: 5})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		bundle []byte
		want   string
	}{
		"payload":     {change(func(_, e map[string]any) { e["payload"] = "e30=" }), "another key"},
		"signature":   {change(func(_, e map[string]any) { e["signatures"] = []any{map[string]any{"sig": "AAAA"}} }), "another key"},
		"unsigned":    {change(func(_, e map[string]any) { e["signatures"] = nil }), "0 signatures"},
		"type":        {change(func(_, e map[string]any) { e["payloadType"] = "text/plain" }), "payload type"},
		"no envelope": {change(func(b, _ map[string]any) { delete(b, "dsseEnvelope") }), "no DSSE envelope"},
		"media type":  {change(func(b, _ map[string]any) { b["mediaType"] = "x" }), "media type"},
		"two keys":    {bytes.Replace(a.Bundle, []byte(`{"mediaType"`), []byte(`{"MediaType":"x","mediaType"`), 1), "occurs twice"},
		"not JSON":    {[]byte("x"), "malformed"},
		"other image": {other.Bundle, "another image"},
	} {
		if _, err := attest.Verify(c.bundle, subject.Digest, &key.PublicKey); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := attest.Verify(a.Bundle, subject.Digest, &newKey(t).PublicKey); !errors.Is(err, attest.ErrOtherKey) {
		t.Errorf("another key: got %v", err)
	}
	if _, err := attest.BundleOf(a.Manifest, digest.FromString("other")); err == nil {
		t.Error("the artifact of another image was accepted")
	}
}

// A randomSigner signs with random nonces, like most hardware.
type randomSigner struct{ *ecdsa.PrivateKey }

func (s randomSigner) Sign(_ io.Reader, d []byte, opts crypto.SignerOpts) ([]byte, error) {
	return s.PrivateKey.Sign(rand.Reader, d, opts)
}

// memory stores signatures.
type memory map[string][]byte

func (m memory) Signature(_ context.Context, key, message string, sign func() ([]byte, error)) (out []byte, err error) {
	if out = m[key+message]; out == nil {
		out, err = sign()
		m[key+message] = out
	}
	return out, err
}

// TestRandomSignatures checks that signatures of a key that does not sign deterministically are
// stored, or not made.
func TestRandomSignatures(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	s := newSigner(t, randomSigner{key})
	if _, err := s.SignImage(t.Context(), subject); s.IsDeterministic() || err == nil || !strings.Contains(err.Error(), "deterministically") {
		t.Errorf("without a store: got %v", err)
	}
	in := memory{}
	one, err := s.Storing(in).SignImage(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newSigner(t, randomSigner{key}).Storing(in).SignImage(t.Context(), subject)
	if err != nil || !bytes.Equal(one.Bundle, other.Bundle) || len(in) != 1 {
		t.Errorf("the bundles differ, or %d signatures were stored, %v", len(in), err)
	}
	if _, err := attest.Verify(one.Bundle, subject.Digest, &key.PublicKey); err != nil {
		t.Error(err)
	}
}

func TestUnsuitableKeys(t *testing.T) {
	t.Parallel()
	large, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []crypto.Signer{large, other} {
		if _, err := attest.NewSigner(key); err == nil || !strings.Contains(err.Error(), "P-256") {
			t.Errorf("%T: got %v", key, err)
		}
	}
	public, err := attest.PublicPEM(&newKey(t).PublicKey, &newKey(t).PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := attest.ParsePublicKeys(public); err != nil || len(keys) != 2 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	for _, text := range []string{"", "x", string(public), "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if _, err := attest.ParseKey([]byte(text)); err == nil {
			t.Errorf("%.30q was accepted as a private key", text)
		}
	}
	damaged := bytes.Replace(public, []byte("MFkw"), []byte("M!kw"), 1)
	if _, err := attest.ParsePublicKeys(damaged); err == nil || !strings.Contains(err.Error(), "1 of 2") {
		t.Errorf("a damaged key: got %v", err)
	}
	if _, err := attest.Verify([]byte("{}"), "latest"); err == nil {
		t.Error("a subject without digest was accepted")
	}
	if _, err := attest.ParsePublicKeys(bytes.Repeat(public, 20)); err == nil {
		t.Error("40 keys were accepted")
	}
}

// FuzzVerify checks that no bundle causes a panic, and that only the signed statement is accepted.
func FuzzVerify(f *testing.F) {
	key := newKey(f)
	a, err := newSigner(f, key).SignImage(f.Context(), subject)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(a.Bundle, a.Manifest)
	f.Add([]byte("{}"), []byte("{}"))
	f.Fuzz(func(t *testing.T, raw, manifest []byte) {
		_, _ = attest.BundleOf(manifest, subject.Digest) // must not panic
		s, err := attest.Verify(raw, subject.Digest, &key.PublicKey)
		if err == nil && s.PredicateType != attest.SignaturePredicate {
			t.Errorf("accepted a statement that was not signed: %s", raw)
		}
	})
}

// FuzzPublicKeys checks that no file causes a panic.
func FuzzPublicKeys(f *testing.F) {
	public, err := attest.PublicPEM(&newKey(f).PublicKey)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(public)
	f.Fuzz(func(t *testing.T, raw []byte) {
		keys, err := attest.ParsePublicKeys(raw)
		if err == nil && len(keys) == 0 {
			t.Error("accepted a file without keys")
		}
		_, _ = attest.ParseKey(raw) // must not panic
	})
}

func BenchmarkSign(b *testing.B) {
	s := newSigner(b, newKey(b))
	for b.Loop() {
		if _, err := s.Sign(b.Context(), subject, attest.ProvenancePredicate, provenance); err != nil {
			b.Fatal(err)
		}
	}
}

// TestSignMirror checks that the signature of a copy's provenance is not valid for any other kind of
// statement, and that such a statement has the build type of a mirror.
func TestSignMirror(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	subject := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("copy"), Size: 4}
	of := func(buildType string) attest.Artifact {
		t.Helper()
		p := attest.Provenance{BuildDefinition: attest.BuildDefinition{BuildType: buildType}, RunDetails: attest.RunDetails{Builder: attest.Builder{ID: "https://slipway.example.org"}}}
		a, err := newSigner(t, key).SignMirror(t.Context(), subject, p)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := of(attest.BuildTypeMirrored)
	s, err := attest.VerifyArtifact(a, subject.Digest, &key.PublicKey)
	if err != nil || !s.IsMirror {
		t.Fatalf("the provenance of a copy was read as %+v: %v", s, err)
	}
	const kind = "application/vnd.slipway.mirror+json"
	if !bytes.Contains(a.Bundle, []byte(kind)) {
		t.Fatalf("%s has no %s", a.Bundle, kind)
	}
	other := bytes.Replace(a.Bundle, []byte(kind), []byte("application/vnd.in-toto+json"), 1)
	if _, err := attest.Verify(other, subject.Digest, &key.PublicKey); !errors.Is(err, attest.ErrOtherKey) {
		t.Errorf("as another statement: %v", err)
	}
	if _, err := attest.Verify(of("https://example.org/other").Bundle, subject.Digest, &key.PublicKey); err == nil || !strings.Contains(err.Error(), "build type") {
		t.Errorf("another build type: %v", err)
	}
}
