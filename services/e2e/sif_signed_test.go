package e2e

import (
	"crypto"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sylabs/sif/v2/pkg/integrity"
	native "github.com/sylabs/sif/v2/pkg/sif"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/testkit"
)

// verifySif verifies the signature in a Singularity image with the package that Singularity and
// Apptainer use.
func verifySif(t *testing.T, path string, key crypto.PublicKey) error {
	t.Helper()
	image, err := native.LoadContainerFromPath(path, native.OptLoadWithFlag(os.O_RDONLY))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = image.UnloadContainer() }()
	by, err := signature.LoadVerifier(key, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	v, err := integrity.NewVerifier(image, integrity.OptVerifyWithVerifier(by))
	if err != nil {
		return err
	}
	return v.Verify()
}

// TestSignedSif makes signed Singularity images of an image, of Conda packages and of an
// issued name. With another key the same request makes another image.
func TestSignedSif(t *testing.T) {
	t.Parallel()
	needSif(t)
	up, own := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Basic)
	raw, err := attest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := attest.ParseKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	more := settings{
		"admin_registry_auth_file": dockerConfig(t, map[string]string{own.Host: testkit.User + ":" + testkit.Password}),
		"signing_key_file":         keyFile(t, raw), "sign_sif": "true",
	}
	eachBuildShape(t, []string{up.Host, own.Host}, more, func(t *testing.T, p *program) {
		channel, mamba, base := condaWorld(t, up)
		conda := map[string]any{
			"packages": map[string]any{
				"type": "CONDA", "entries": []string{"zlib=1.2.11"}, "channels": []string{channel},
				"condaOpts": map[string]any{"mambaImage": mamba, "baseImage": base, "basePackages": ""},
			},
			"freeze": true, "buildRepository": own.Host + "/team/conda" + testkit.FreePort(t),
		}
		copied := frozen(up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true)), own.Host+"/team/frozen"+testkit.FreePort(t), nil)
		issued := map[string]any{"containerImage": up.Host + "/lib/tool:v1", "containerConfig": map[string]any{"env": []string{"A=b"}}}
		for name, body := range map[string]map[string]any{"packages": conda, "copy": copied, "issued": issued} {
			body["format"] = "sif"
			answer := p.order(body, "Authorization", "Bearer "+p.token)
			if s := p.finished(t, answer); s["succeeded"] != true {
				t.Fatalf("%s: the build ended as %v\n%s", name, s, p.logOf(answer))
			}
			path, digest := pulledSif(t, text(answer, "targetImage"))
			if err := verifySif(t, path, key.Public()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			again := p.order(body, "Authorization", "Bearer "+p.token)
			if _, same := pulledSif(t, text(again, "targetImage")); same != digest {
				t.Errorf("%s: the same request has the digest %s and then %s", name, digest, same)
			}
			tamper(t, path, key.Public())
		}
	})
}

// tamper changes a byte of the file system, and of the signature, and expects that each is
// detected.
func tamper(t *testing.T, path string, key crypto.PublicKey) {
	t.Helper()
	image, err := native.LoadContainerFromPath(path, native.OptLoadWithFlag(os.O_RDONLY))
	if err != nil {
		t.Fatal(err)
	}
	all, err := image.GetDescriptors()
	if err == nil {
		err = image.UnloadContainer()
	}
	if err != nil || len(all) != 2 {
		t.Fatalf("the image has %d objects, %v", len(all), err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range all {
		at := object.Offset() + object.Size()/2
		whole[at] ^= 1
		changed := filepath.Join(t.TempDir(), "changed.sif")
		if err := os.WriteFile(changed, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		whole[at] ^= 1
		if err := verifySif(t, changed, key); err == nil {
			t.Errorf("a change of the object %d was not detected", object.ID())
		}
	}
}

// TestGenuineSignedSif verifies a signed Singularity image with the genuine Apptainer and the key
// that the server publishes.
func TestGenuineSignedSif(t *testing.T) {
	genuine(t)
	apptainer := filepath.Join(genuine(t), "bin", "apptainer")
	up := testkit.NewRegistry(t, testkit.Open)
	raw, err := attest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	p := oneProcess(t, common(t, []string{up.Host}, settings{"signing_key_file": keyFile(t, raw), "sign_sif": "true"}))
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	answer := p.order(map[string]any{"containerImage": image, "format": "sif"})
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v\n%s", s, p.logOf(answer))
	}
	path, _ := pulledSif(t, text(answer, "targetImage"))
	public := filepath.Join(t.TempDir(), "cosign.pub")
	if err := os.WriteFile(public, request(t, http.MethodGet, p.url+"/.well-known/slipway/cosign.pub", nil).body, 0o600); err != nil {
		t.Fatal(err)
	}
	verify := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), apptainer, append([]string{"verify"}, args...)...).CombinedOutput()
		return string(out), err
	}
	out, err := verify("--key", public, "--json", path)
	if err != nil || !json.Valid([]byte(out[strings.IndexByte(out, '{'):strings.LastIndexByte(out, '}')+1])) {
		t.Fatalf("apptainer verify: %v\n%s", err, out)
	}
	t.Log(out)
	other, err := attest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := attest.ParseKey(other)
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := attest.PublicPEM(&key.PublicKey)
	if err == nil {
		err = os.WriteFile(public, wrong, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := verify("--key", public, path); err == nil {
		t.Errorf("apptainer accepts another key:\n%s", out)
	}
}
