package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/internal/attest"
)

// TestGenuineCosign verifies images that were made a moment ago with the genuine cosign, and
// lists their signatures with the genuine oras.
func TestGenuineCosign(t *testing.T) {
	t.Parallel()
	dir := genuine(t)
	for _, program := range []string{"cosign", "oras"} {
		if _, err := os.Stat(filepath.Join(dir, "bin", program)); err != nil {
			t.Fatalf("SLIPWAY_TEST_CLIENTS: %v", err)
		}
	}
	l := newLaboratory(t, nil, nil)
	w := newDesk(t, "COSIGN_EXPERIMENTAL=0")
	w.write(t, "cosign.pub", string(request(t, http.MethodGet, l.url+"/.well-known/slipway/cosign.pub", nil).body))
	images := map[string]string{
		"augmented": l.submit(map[string]any{"containerImage": l.base, "containerConfig": map[string]any{"env": []string{"GREETING=hello"}}}),
		"conda": l.submit(map[string]any{"packages": map[string]any{"type": "CONDA", "entries": []string{"samtools=1.20"},
			"channels": []string{"bioconda", "conda-forge"}}}),
	}
	offline := []string{"--key", "cosign.pub", "--insecure-ignore-tlog=true", "--allow-http-registry"}
	for kind, image := range images {
		t.Run(kind, func(t *testing.T) {
			subject := sha(request(t, http.MethodGet, v2(image)+"/manifests/"+image[strings.LastIndex(image, ":")+1:], nil).body)
			name := image[:strings.LastIndex(image, ":")] + "@" + subject
			t.Log(w.must(t, []string{"The signatures were verified against the specified public key", subject}, "cosign", append([]string{"verify"}, append(offline, image)...)...))
			printed := w.must(t, []string{"The signatures were verified against the specified public key", "payloadType"}, "cosign",
				append([]string{"verify-attestation", "--type", "slsaprovenance1"}, append(offline, name)...)...)
			t.Log(tail(printed, 400))
			t.Log(w.must(t, []string{attest.BundleType, subject}, "oras", "discover", "--plain-http", name))
			out, log, err := l.slipway("verify", image, "--layers")
			if err != nil || !strings.Contains(out, subject) {
				t.Errorf("slipway verify: %v\n%s%s", err, out, log)
			}
			t.Log(out)
		})
	}
	other, err := attest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := attest.ParseKey(other)
	if err != nil {
		t.Fatal(err)
	}
	public, err := attest.PublicPEM(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, "other.pub", string(public))
	w.fails(t, nil, "cosign", "verify", "--key", "other.pub", "--insecure-ignore-tlog=true", "--allow-http-registry", images["augmented"])
}
