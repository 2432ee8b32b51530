package e2e

import (
	"net/http"
	"strconv"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"

	"slipway.dev/gateway/contracttest"

	"slipway.dev/services/internal/testkit"
)

// firstLayer returns the digest of the lowest layer of an index's first image.
func firstLayer(t *testing.T, index v1.ImageIndex) string {
	t.Helper()
	images, err := partial.Manifests(index)
	if err != nil {
		t.Fatal(err)
	}
	img, ok := images[0].(v1.Image)
	if !ok {
		t.Fatal("the index has no image")
	}
	return digestsOf(t, img)[0]
}

// contractKey signs images in the examples; signing-keys.txtar has its public key.
const contractKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgS0Fa8vxC8ik1X1jU
bCPp/Agobq52mRx419b1SLr+WO6hRANCAAQ1dhrWxNKjcegTfob0/x5Va1nlGoDd
wcwcodmC+YpFbzMwLSxx8ktPzPWZwZbBGTakvMHdvZP/leSfLzOWgh3U
-----END PRIVATE KEY-----
`

// TestContract replays the documented examples with the whole program.
func TestContract(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Basic)
	index := testkit.Index(t, true, "amd64", "arm64")
	up.Push(t, "library/tool:v1", index)
	up.Push(t, "library/tool:signature", referring(t, "signature", index))
	layer := firstLayer(t, index)
	auth := settings{"registry_auth_file": dockerConfig(t, map[string]string{up.Host: testkit.User + ":" + testkit.Password})}
	auth["admin_registry_auth_file"] = auth["registry_auth_file"]
	auth["signing_key_file"] = keyFile(t, []byte(contractKey))
	eachShape(t, []string{up.Host}, auth, func(t *testing.T, p *program) {
		request := p.submit(map[string]any{
			"containerImage": up.Host + "/library/tool:v1", "platformAccessToken": p.token,
			"containerConfig": map[string]any{"env": []string{"SECRET=hidden"}},
		})
		spare := p.submit(map[string]any{"containerImage": up.Host + "/library/tool:v1"})
		examples, err := contracttest.Load("../../gateway/testdata/contract", map[string]string{
			"registry": up.Host, "request": idOf(request), "token": tokenOf(request), "spare": tokenOf(spare), "layer": layer,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range examples {
			t.Run(e.Name, func(t *testing.T) {
				r := p.call(e.Method, e.Path, e.Body)
				if strconv.Itoa(r.status) != e.Status {
					t.Errorf("status %d, want %s: %s", r.status, e.Status, r.body)
				}
				for k, v := range e.Header {
					if r.header.Get(k) != v {
						t.Errorf("%s: %q, want %q", k, r.header.Get(k), v)
					}
				}
				if d := e.Differ(r.body); d != "" {
					t.Error(d)
				}
				if r.status != http.StatusNoContent && r.header.Get("X-Request-Id") == "" {
					t.Error("no X-Request-Id")
				}
			})
		}
	})
}
