package e2e

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// certifying returns the settings of a server whose keys an authority certifies, and the flags of
// `slipway verify` for its images.
func certifying(t testing.TB, a *testkit.Authority) (settings, []string) {
	t.Helper()
	return settings{
		"signing_fulcio": a.URL, "signing_timestamp": a.URL + "/timestamp", "signing_trusted_root": writeFile(t, "root.json", string(a.Root)),
		"signing_identity_token_file": writeFile(t, "token", "e30.eyJpc3MiOiJpIiwic3ViIjoicyJ9.AAAA"),
	}, []string{"--certificate-identity", testkit.AuthorityName, "--certificate-oidc-issuer", testkit.AuthorityIssuer}
}

// TestCertifiedSignatures signs images with short-lived keys. All replicas must return the same
// signatures, which `slipway verify` accepts of the certified identity only.
func TestCertifiedSignatures(t *testing.T) {
	t.Parallel()
	a := testkit.NewAuthority(t)
	s, flags := certifying(t, a)
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	eachShape(t, []string{up.Host}, s, func(t *testing.T, p *program) {
		name := p.submit(map[string]any{"containerImage": image, "containerConfig": map[string]any{"env": []string{"AT=" + time.Now().String()}}})
		base := v2(name)
		subject := sha(request(t, http.MethodGet, base+"/manifests/v1", nil).body)
		first := statementsOf(t, base, subject)
		if len(first) != 2 {
			t.Fatalf("%d statements", len(first))
		}
		for _, replica := range p.replicas {
			again := statementsOf(t, "http://"+replica+base[len(p.url):], subject)
			if !slices.EqualFunc(first, again, func(a, b statementFile) bool { return a.digest == b.digest }) {
				t.Errorf("the replica %s lists other statements", replica)
			}
		}
		out, log, err := p.slipway(append([]string{"verify", name, "--layers"}, flags...)...)
		if err != nil || !strings.Contains(out, subject) || !strings.Contains(out, "valid, by "+testkit.AuthorityName) {
			t.Fatalf("slipway verify: %v\n%s%s", err, out, log)
		}
		t.Log(out)
		if out, log, err := p.slipway(append([]string{"verify", name, "--trusted-root", s["signing_trusted_root"]}, flags...)...); err != nil {
			t.Errorf("with a file: %v\n%s%s", err, out, log)
		}
		other := testkit.NewAuthority(t)
		for want, args := range map[string][]string{
			`instead of "https://other"`:            {"--certificate-identity", "https://other", "--certificate-oidc-issuer", testkit.AuthorityIssuer},
			`instead of "https://issuer"`:           {"--certificate-identity", testkit.AuthorityName, "--certificate-oidc-issuer", "https://issuer"},
			"signs images with certificates":        nil,
			"require --certificate-identity":        {"--certificate-identity", testkit.AuthorityName},
			"is not valid":                          append(slices.Clone(flags), "--trusted-root", writeFile(t, "other.json", string(other.Root))),
			"--key is for signatures of a key, and": append(slices.Clone(flags), "--key", "cosign.pub"),
		} {
			if out, log, err := p.slipway(append([]string{"verify", name}, args...)...); err == nil || !strings.Contains(log, want) {
				t.Errorf("%v: %v\n%s%s", args, err, out, log)
			}
		}
		if r := request(t, http.MethodGet, p.url+"/.well-known/slipway/trusted-root.json", nil); !bytes.Equal(r.body, a.Root) || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("the trusted root: %d %s", r.status, r.body)
		}
		if r := request(t, http.MethodGet, p.url+"/.well-known/slipway/cosign.pub", nil); r.status != http.StatusNotFound {
			t.Errorf("the key: %d %s", r.status, r.body)
		}
	})
}

// TestCertifyingStops checks that listed statements remain available while the authorities are down,
// that others are an error then, and that they are signed when the authorities respond again.
func TestCertifyingStops(t *testing.T) {
	t.Parallel()
	a := testkit.NewAuthority(t)
	more, flags := certifying(t, a)
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	p := oneProcess(t, common(t, []string{up.Host}, more))
	down := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
	submit := func(variable string) (name, subject string) {
		name = p.submit(map[string]any{"containerImage": image, "containerConfig": map[string]any{"env": []string{variable}}})
		return name, sha(request(t, http.MethodGet, v2(name)+"/manifests/v1", nil).body)
	}
	a.Change(testkit.AuthorityChange{Certificates: down})
	old, subject := submit("A=1")
	if r := request(t, http.MethodGet, v2(old)+"/referrers/"+subject, nil); r.status != http.StatusServiceUnavailable {
		t.Errorf("without a certificate: %d %s", r.status, r.body)
	}
	a.Change(testkit.AuthorityChange{})
	first := statementsOf(t, v2(old), subject)
	a.Change(testkit.AuthorityChange{Certificates: down, Timestamps: down})
	added, other := submit("A=2")
	if r := request(t, http.MethodGet, v2(added)+"/referrers/"+other, nil); r.status != http.StatusServiceUnavailable || !strings.Contains(string(r.body), "cannot be signed right now") {
		t.Errorf("without timestamps: %d %s", r.status, r.body)
	}
	if again := statementsOf(t, v2(old), subject); len(first) != 2 || len(again) != 2 || again[0].digest != first[0].digest {
		t.Errorf("without authorities: %d statements instead of %d", len(again), len(first))
	}
	a.Change(testkit.AuthorityChange{})
	if out, log, err := p.slipway(append([]string{"verify", added}, flags...)...); err != nil {
		t.Errorf("slipway verify: %v\n%s%s", err, out, log)
	}
}

// TestGenuineSigstore signs images with certificates of the genuine Fulcio and timestamps of the genuine
// timestamp authority. The genuine cosign must accept the signatures.
func TestGenuineSigstore(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("SLIPWAY_TEST_CLIENTS")
	if dir == "" {
		t.Skip("NOT TESTED with Fulcio, timestamp-server and cosign: run services/tools/clients.sh DIR and set SLIPWAY_TEST_CLIENTS=DIR")
	}
	for _, program := range []string{"fulcio", "timestamp-server"} {
		if _, err := os.Stat(filepath.Join(dir, "bin", program)); err != nil {
			t.Fatalf("SLIPWAY_TEST_CLIENTS: %v", err)
		}
	}
	sigstore := testkit.StartSigstore(t, dir)
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	p := oneProcess(t, common(t, []string{up.Host}, settings{
		"signing_fulcio": sigstore.Fulcio.URL, "signing_timestamp": sigstore.TimestampURL, "signing_identity_token_file": sigstore.Token, "signing_trusted_root": sigstore.Root,
	}))
	submit := func(variable string) string {
		return p.submit(map[string]any{"containerImage": image, "containerConfig": map[string]any{"env": []string{variable}}})
	}
	name := submit("A=1")
	subject := sha(request(t, http.MethodGet, v2(name)+"/manifests/v1", nil).body)
	if list := statementsOf(t, v2(name), subject); len(list) != 2 {
		t.Fatalf("%d statements", len(list))
	}
	flags := []string{"--certificate-identity", testkit.AuthorityName, "--certificate-oidc-issuer", sigstore.Issuer.URL}
	out, log, err := p.slipway(append([]string{"verify", name, "--layers"}, flags...)...)
	if err != nil || !strings.Contains(out, subject) {
		t.Fatalf("slipway verify: %v\n%s%s", err, out, log)
	}
	t.Log(out)
	t.Run("cosign", func(t *testing.T) {
		w := desk{clients: dir, dir: t.TempDir(), env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}}
		common := []string{"--trusted-root", sigstore.Root, "--use-signed-timestamps", "--insecure-ignore-tlog=true", "--insecure-ignore-sct=true", "--allow-http-registry"}
		of := name[:strings.LastIndex(name, ":")] + "@" + subject
		t.Log(w.must(t, []string{subject, "code-signing certificate"}, "cosign", slices.Concat([]string{"verify"}, common, flags, []string{name})...))
		w.must(t, []string{"payloadType"}, "cosign", slices.Concat([]string{"verify-attestation", "--type", "slsaprovenance1"}, common, flags, []string{of})...)
		w.fails(t, nil, "cosign", slices.Concat([]string{"verify"}, common, []string{"--certificate-identity", "https://other", "--certificate-oidc-issuer", sigstore.Issuer.URL, name})...)
	})
	// The token is replaced, and Fulcio stops: the certificate is still used. A timestamp authority that
	// stops is an error.
	sigstore.WriteToken(t, 2*time.Hour)
	sigstore.Fulcio.Kill()
	if out, log, err := p.slipway(append([]string{"verify", submit("A=2")}, flags...)...); err != nil {
		t.Errorf("without Fulcio: %v\n%s%s", err, out, log)
	}
	sigstore.Timestamps.Kill()
	last := submit("A=3")
	subject = sha(request(t, http.MethodGet, v2(last)+"/manifests/v1", nil).body)
	if r := request(t, http.MethodGet, v2(last)+"/referrers/"+subject, nil); r.status != http.StatusServiceUnavailable {
		t.Errorf("without timestamps: %d %s", r.status, r.body)
	}
}
