package e2e

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/testkit"
)

// TestGenuineCosign verifies images that were made a moment ago with the genuine cosign, and
// lists their signatures with the genuine oras.
func TestGenuineCosign(t *testing.T) {
	t.Parallel()
	genuine(t, "cosign", "oras")
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
			if kind == "conda" {
				w.must(t, []string{"The signatures were verified against the specified public key", "payloadType"}, "cosign",
					append([]string{"verify-attestation", "--type", "spdxjson"}, append(offline, name)...)...)
			}
			t.Log(w.must(t, []string{attest.BundleType, subject}, "oras", "discover", "--plain-http", name))
			out, log, err := l.slipway("verify", image, "--layers")
			if err != nil || !strings.Contains(out, subject) {
				t.Errorf("slipway verify: %v\n%s%s", err, out, log)
			}
			t.Log(out)
		})
	}
	t.Run("mirrored", func(t *testing.T) {
		made := func(request map[string]any) map[string]any {
			answer := l.order(request, "Authorization", "Bearer "+l.token)
			if s := l.finished(t, answer); s["succeeded"] != true {
				t.Fatalf("it ended as %v\n%s", s, l.logOf(answer))
			}
			return answer
		}
		mirror := func(image string) string {
			answer := made(mirrored(image, l.registry.Host+"/mirror"))
			l.provenance(t, text(answer, "buildId"), "ATTACHED", "")
			return text(answer, "targetImage")
		}
		signed := text(made(frozen(l.base, l.registry.Host+"/team", map[string]any{"env": []string{"GREETING=hello"}})), "targetImage")
		testkit.Until(t, "the image is signed", func() error {
			if _, ok := w.run(t, "cosign", slices.Concat([]string{"verify"}, offline, []string{signed})...); !ok {
				return errors.New("it is not")
			}
			return nil
		})
		foreign, ours := mirror(l.base), mirror(signed)
		for kind, args := range map[string][]string{"verify": nil, "verify-attestation": {"--type", "slsaprovenance1"}} {
			args = slices.Concat([]string{kind}, args, offline)
			w.fails(t, nil, "cosign", append(slices.Clone(args), foreign)...)
			w.must(t, []string{"The signatures were verified against the specified public key"}, "cosign", append(slices.Clone(args), ours)...)
		}
	})
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
