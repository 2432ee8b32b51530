package e2e

import (
	"crypto/ecdsa"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/testkit"
)

// TestSigningAgent signs images with a key in a PKCS#11 token, by OpenSSH's agent. Its signatures
// differ each time, so that all replicas must return the stored ones, also while it is stopped.
func TestSigningAgent(t *testing.T) {
	t.Parallel()
	agent, public := newTokenAgent(t)
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	eachShape(t, []string{up.Host}, settings{"signing_agent": agent, "signing_key_file": public}, func(t *testing.T, p *program) {
		base := v2(p.submit(map[string]any{"containerImage": image, "containerConfig": map[string]any{"env": []string{"AT=" + time.Now().String()}}}))
		subject := sha(request(t, http.MethodGet, base+"/manifests/v1", nil).body)
		first := statementsOf(t, base, subject)
		verified(t, p, subject, first)
		for _, replica := range p.replicas {
			again := statementsOf(t, "http://"+replica+base[len(p.url):], subject)
			if !slices.EqualFunc(first, again, func(a, b statementFile) bool { return a.digest == b.digest }) {
				t.Errorf("the replica %s lists other statements", replica)
			}
		}
	})
}

// newTokenAgent starts an agent with a new key in a PKCS#11 token, and stores the public key in a file.
func newTokenAgent(t testing.TB) (socket, public string) {
	t.Helper()
	raw, err := attest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := attest.ParseKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	return testkit.TokenAgent(t, raw), publicFile(t, &key.PublicKey)
}

// publicFile stores a public key.
func publicFile(t testing.TB, key *ecdsa.PublicKey) string {
	t.Helper()
	pem, err := attest.PublicPEM(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cosign.pub")
	if err := os.WriteFile(path, pem, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSigningAgentStops checks that listed statements remain available while the agent is stopped,
// that others are an error then, and that they are signed when it runs again.
func TestSigningAgentStops(t *testing.T) {
	t.Parallel()
	agent, public := newTokenAgent(t)
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	s := common(t, []string{up.Host}, settings{"signing_agent": agent, "signing_key_file": public})
	p := oneProcess(t, s)
	signed := func(variable string) (base, subject string) {
		base = v2(p.submit(map[string]any{"containerImage": image, "containerConfig": map[string]any{"env": []string{variable}}}))
		return base, sha(request(t, http.MethodGet, base+"/manifests/v1", nil).body)
	}
	old, subject := signed("A=1")
	first := statementsOf(t, old, subject)
	verified(t, p, subject, first)
	hidden := agent + ".hidden"
	if err := os.Rename(agent, hidden); err != nil {
		t.Fatal(err)
	}
	added, other := signed("A=2")
	if r := request(t, http.MethodGet, added+"/referrers/"+other, nil); r.status != http.StatusServiceUnavailable {
		t.Errorf("without the agent: %d %s", r.status, r.body)
	}
	if again := statementsOf(t, old, subject); len(again) != len(first) || again[0].digest != first[0].digest {
		t.Errorf("without the agent: %d statements", len(again))
	}
	if err := os.Rename(hidden, agent); err != nil {
		t.Fatal(err)
	}
	verified(t, p, other, statementsOf(t, added, other))
}
