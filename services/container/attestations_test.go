package container_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/prometheus/client_golang/prometheus"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container"
	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/pullthrough"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

func newSigner(t *testing.T) *attest.Signer {
	t.Helper()
	raw, err := attest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := attest.ParseKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	s, err := attest.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestOnlyOwnImagesAreSigned checks that a caller cannot choose what is signed.
func TestOnlyOwnImagesAreSigned(t *testing.T) {
	t.Parallel()
	signer := newSigner(t)
	h := newHarnessWith(t, testkit.SQLite(t), func(d *container.Deps, _ *testkit.Registry) { d.Signing.Signer = signer })
	config := &containerv1.ContainerConfig{Env: []string{"A=b"}}
	token := h.submit(t, config).GetContainerToken()
	plan, err := h.ResolveToken(t.Context(), &containerv1.ResolveTokenRequest{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	source := digest.Digest(plan.GetPlan().GetDigests()[0])
	made := h.augmented(t, source, config)
	list := func(token string, d digest.Digest) []*containerv1.Attestation {
		t.Helper()
		out, err := h.ListAttestations(t.Context(), &containerv1.ListAttestationsRequest{Token: token, Digest: d.String(), MediaType: ocispec.MediaTypeImageManifest, Size: 100})
		if err != nil {
			t.Fatal(err)
		}
		return out.GetAttestations()
	}
	all := list(token, made)
	if len(all) != 2 {
		t.Fatalf("the augmented image has %d statements", len(all))
	}
	for _, a := range all {
		if _, err := attest.Verify(a.GetBundle(), made, signer.Public()); err != nil {
			t.Error(err)
		}
	}
	plain := h.submit(t, nil).GetContainerToken()
	for _, c := range []struct {
		name, token string
		digest      digest.Digest
	}{
		{"the source", token, source}, {"another image", token, digest.FromString("other")},
		{"an image that is passed through", plain, source}, {"the image of another request", plain, made},
	} {
		if got := list(c.token, c.digest); len(got) != 0 {
			t.Errorf("%s: %d statements", c.name, len(got))
		}
	}
	for _, req := range []*containerv1.ListAttestationsRequest{
		{Token: token, Digest: "x", MediaType: ocispec.MediaTypeImageManifest, Size: 1}, {Token: token, Digest: made.String(), MediaType: "text/plain", Size: 1},
		{Token: token, Digest: made.String(), MediaType: ocispec.MediaTypeImageManifest},
	} {
		if _, err := h.ListAttestations(t.Context(), req); !errors.Is(err, fault.Invalid) {
			t.Errorf("%v: got %v", req, err)
		}
	}
	if _, err := h.RevokeContainer(t.Context(), &containerv1.RevokeContainerRequest{RequestId: token}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.ListAttestations(t.Context(), &containerv1.ListAttestationsRequest{Token: token, Digest: made.String(), MediaType: ocispec.MediaTypeImageManifest, Size: 100}); !errors.Is(err, fault.NotFound) {
		t.Errorf("a revoked name: got %v", err)
	}
}

// augmented returns the digest of the harness's image with a configuration.
func (r *harness) augmented(t *testing.T, source digest.Digest, config *containerv1.ContainerConfig) digest.Digest {
	t.Helper()
	egress, err := upstream.NewEgress([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	client := upstream.New(upstream.Options{Egress: egress, Plain: []string{r.up.Host}, Metrics: prometheus.NewRegistry()})
	src := pullthrough.Direct(client).Source(upstream.Repository{Host: r.up.Host, Name: "lib/tool"}, upstream.Access{})
	root, err := src.Manifest(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	out, err := oci.Augment(t.Context(), src, root, oci.NewAugmentation(config))
	if err != nil {
		t.Fatal(err)
	}
	return out.Root.Digest
}

// TestUnchangedImagesAreNotSigned checks that an augmentation which changes nothing does not make
// this service sign the manifest of another registry.
func TestUnchangedImagesAreNotSigned(t *testing.T) {
	t.Parallel()
	h := newHarnessWith(t, testkit.SQLite(t), func(d *container.Deps, _ *testkit.Registry) { d.Signing.Signer = newSigner(t) })
	gz, tar := testkit.Tar(t, "a.txt", "a")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(gz) }))
	defer server.Close()
	size := int64(len(gz))
	for _, image := range []string{h.image, h.up.Push(t, "lib/both:v1", testkit.Index(t, true, "amd64", "arm64"))} {
		token := h.submitImage(t, image, &containerv1.ContainerConfig{Layers: []*containerv1.Layer{{
			Location: server.URL + "/layer-arm64.tar.gz", GzipDigest: digest.FromBytes(gz).String(), TarDigest: digest.FromBytes(tar).String(), GzipSize: &size,
		}}})
		plan, err := h.ResolveToken(t.Context(), &containerv1.ResolveTokenRequest{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		out, err := h.ListAttestations(t.Context(), &containerv1.ListAttestationsRequest{Token: token, Digest: plan.GetPlan().GetDigests()[0], MediaType: ocispec.MediaTypeImageManifest, Size: 100})
		if err != nil || len(out.GetAttestations()) != 0 {
			t.Errorf("%s: %d statements, %v", image, len(out.GetAttestations()), err)
		}
	}
}

func (r *harness) submitImage(t *testing.T, image string, config *containerv1.ContainerConfig) (token string) {
	t.Helper()
	resp, err := r.SubmitContainer(t.Context(), &containerv1.SubmitContainerRequest{Request: &containerv1.ContainerRequest{ContainerImage: image, ContainerConfig: config}})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetContainerToken()
}

// TestProvenanceHasNoSecrets checks that values of variables and the addresses of layers are left
// out as far as they may be secret.
func TestProvenanceHasNoSecrets(t *testing.T) {
	t.Parallel()
	signer := newSigner(t)
	h := newHarnessWith(t, testkit.SQLite(t), func(d *container.Deps, _ *testkit.Registry) { d.Signing.Signer = signer })
	gz, tar := testkit.Tar(t, "a.txt", "a")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(gz) }))
	defer server.Close()
	at := server.URL + "/layer.tar.gz"
	size := int64(len(gz))
	config := &containerv1.ContainerConfig{Env: []string{"TOKEN=m4rker"}, Cmd: []string{"--password=m4rker"}, Layers: []*containerv1.Layer{{Location: at + "?X-Amz-Signature=s3cret", GzipDigest: digest.FromBytes(gz).String(), TarDigest: digest.FromBytes(tar).String(), GzipSize: &size}}}
	token := h.submit(t, config).GetContainerToken()
	plan, err := h.ResolveToken(t.Context(), &containerv1.ResolveTokenRequest{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	made := h.augmented(t, digest.Digest(plan.GetPlan().GetDigests()[0]), config)
	out, err := h.ListAttestations(t.Context(), &containerv1.ListAttestationsRequest{Token: token, Digest: made.String(), MediaType: ocispec.MediaTypeImageManifest, Size: 100})
	if err != nil || len(out.GetAttestations()) != 2 {
		t.Fatalf("%d statements, %v", len(out.GetAttestations()), err)
	}
	s, err := attest.Verify(out.GetAttestations()[1].GetBundle(), made, signer.Public())
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := json.NewEncoder(&text).Encode(s); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "s3cret") || strings.Contains(text.String(), "m4rker") || strings.Contains(text.String(), token) || !strings.Contains(text.String(), at) {
		t.Errorf("the provenance is %s", text.String())
	}
}

func TestServerWithoutKey(t *testing.T) {
	t.Parallel()
	h := newHarness(t, testkit.SQLite(t))
	if _, err := h.GetSigningKeys(t.Context(), &containerv1.GetSigningKeysRequest{}); !errors.Is(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
}
