package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/testkit"
)

// signingKey returns a setting with a new key that signs images.
func signingKey(t testing.TB) settings {
	t.Helper()
	key, err := attest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return settings{"signing_key_file": keyFile(t, key)}
}

// keyFile stores a key that signs images.
func keyFile(t testing.TB, key []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "signing-key")
	if err := os.WriteFile(path, key, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A statementFile is a signed statement as a registry serves it.
type statementFile struct {
	digest           string
	manifest, bundle []byte
}

// statementsOf returns the signed statements about a manifest at one server.
func statementsOf(t testing.TB, base, subject string) (out []statementFile) {
	t.Helper()
	var x struct {
		Manifests []struct{ Digest, ArtifactType string }
	}
	r := request(t, http.MethodGet, base+"/referrers/"+subject+"?artifactType="+url.QueryEscape(attest.BundleType), nil)
	mustJSON(t, r.body, &x)
	for _, m := range x.Manifests {
		out = append(out, statementOf(t, base, m.Digest))
	}
	return out
}

func statementOf(t testing.TB, base, d string) statementFile {
	t.Helper()
	m := request(t, http.MethodGet, base+"/manifests/"+d, nil)
	if sha(m.body) != d {
		t.Fatalf("the manifest %s: %d %s", d, m.status, m.body)
	}
	var manifest struct {
		Config struct{ Digest string }
		Layers []struct{ Digest string }
	}
	mustJSON(t, m.body, &manifest)
	if c := request(t, http.MethodGet, base+"/blobs/"+manifest.Config.Digest, nil); string(c.body) != "{}" {
		t.Errorf("the config: %d %s", c.status, c.body)
	}
	b := request(t, http.MethodGet, base+"/blobs/"+manifest.Layers[0].Digest, nil)
	if sha(b.body) != manifest.Layers[0].Digest {
		t.Fatalf("the bundle: %d %s", b.status, b.body)
	}
	return statementFile{d, m.body, b.body}
}

// verified returns the provenance about a manifest, after verifying all statements with the key
// that the server publishes.
func verified(t testing.TB, p *program, subject string, list []statementFile) *attest.Provenance {
	t.Helper()
	keys, err := attest.ParsePublicKeys(request(t, http.MethodGet, p.url+"/.well-known/slipway/cosign.pub", nil).body)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	var out *attest.Provenance
	for _, f := range list {
		if _, err := attest.BundleOf(f.manifest, digest.Digest(subject)); err != nil {
			t.Error(err)
		}
		s, err := attest.Verify(f.bundle, digest.Digest(subject), keys...)
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, s.PredicateType)
		if s.PredicateType == attest.ProvenancePredicate {
			if out, err = s.Provenance(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !slices.Contains(kinds, attest.SignaturePredicate) || out == nil {
		t.Fatalf("the statements are %v", kinds)
	}
	return out
}

// TestAttestations checks that an augmented image is signed, with the same bytes by every replica,
// and that the secret parts of a request are not in its provenance.
func TestAttestations(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	index := testkit.Index(t, true, "amd64", "arm64")
	image := up.Push(t, "lib/tool:v1", index)
	plain := up.Push(t, "lib/plain:v1", testkit.Image(t, "amd64", true))
	eachShape(t, []string{up.Host}, signingKey(t), func(t *testing.T, p *program) {
		base := v2(p.submit(map[string]any{"containerImage": image, "containerConfig": map[string]any{
			"env": []string{"GREETING=hello"}, "layers": []any{dataLayer(t, "added.txt", "x")},
		}}))
		root := request(t, http.MethodGet, base+"/manifests/v1", nil)
		subject := sha(root.body)
		first := statementsOf(t, base, subject)
		made := verified(t, p, subject, first)
		deps, err := json.Marshal(made.BuildDefinition.ResolvedDependencies)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(deps), digestOf(t, index)[len("sha256:"):]) || made.RunDetails.Builder.ID == "" || made.BuildDefinition.BuildType != attest.BuildTypeAugmented {
			t.Errorf("the provenance is %+v", made)
		}
		for _, replica := range p.replicas {
			at := "http://" + replica + base[len(p.url):]
			// The other replica has not listed the statements.
			if again := statementOf(t, at, first[1].digest); !bytes.Equal(again.bundle, first[1].bundle) {
				t.Errorf("the replica %s returns another bundle:\n%s\n%s", replica, first[1].bundle, again.bundle)
			}
			if again := statementsOf(t, at, subject); !slices.EqualFunc(first, again, func(a, b statementFile) bool { return a.digest == b.digest }) {
				t.Errorf("the replica %s lists other statements", replica)
			}
		}
		// The changed platform is signed, the other one is not.
		var x struct{ Manifests []struct{ Digest string } }
		mustJSON(t, root.body, &x)
		verified(t, p, x.Manifests[0].Digest, statementsOf(t, base, x.Manifests[0].Digest))
		if list := statementsOf(t, base, x.Manifests[1].Digest); len(list) != 0 {
			t.Errorf("a manifest that is passed through has %d statements", len(list))
		}
		tag := request(t, http.MethodGet, base+"/manifests/"+strings.Replace(subject, ":", "-", 1), nil)
		mustJSON(t, tag.body, &x)
		if len(x.Manifests) != len(first) {
			t.Errorf("the tag of the fallback: %d %s", tag.status, tag.body)
		}
		base = v2(p.submit(map[string]any{"containerImage": plain}))
		if list := statementsOf(t, base, sha(request(t, http.MethodGet, base+"/manifests/v1", nil).body)); len(list) != 0 {
			t.Errorf("an image that is passed through has %d statements", len(list))
		}
	})
}
