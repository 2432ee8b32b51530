package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/olareg/olareg"
	"github.com/olareg/olareg/config"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/testkit"
)

// TestSignaturesInTheRegistry checks that the statements about a built image are pushed to its
// registry, as referrers or, without the referrers API, by the fallback tag, and that the image is
// verified there without the server.
func TestSignaturesInTheRegistry(t *testing.T) {
	t.Parallel()
	public, own, channel := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Basic), newArtifacts(t)
	source := public.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	base := public.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	old := withoutReferrers(t)
	more := bare(channel.URL)
	more["admin_registry_auth_file"] = dockerConfig(t, map[string]string{own.Host: testkit.User + ":" + testkit.Password})
	for k, v := range signingKey(t) {
		more[k] = v
	}
	eachCopyShape(t, []string{public.Host, own.Host, old}, more, func(t *testing.T, p *program) {
		build := func(body map[string]any) (answer map[string]any, document []byte) {
			t.Helper()
			answer = p.order(body, "Authorization", "Bearer "+p.token)
			if s := p.finished(t, answer); s["succeeded"] != true {
				t.Fatalf("the build ended as %v\n%s", s, p.logOf(answer))
			}
			host, path, _ := strings.Cut(strings.TrimPrefix(text(answer, "targetImage"), "oras://"), "/")
			repository, tag, _ := strings.Cut(path, ":")
			return answer, request(t, http.MethodGet, registryURL(host, host == own.Host)+"/v2/"+repository+"/manifests/"+tag, nil).body
		}

		at := "team/signed" + testkit.FreePort(t)
		body := environment(base, "libcurl")
		body["containerPlatform"], body["freeze"], body["buildRepository"] = "linux/amd64,linux/arm64", true, own.Host+"/"+at
		_, index := build(body)
		if len(parts(t, index)) != 2 {
			t.Fatalf("the image is %s", index)
		}
		registry := registryURL(own.Host, true) + "/v2/" + at
		for _, subject := range append(parts(t, index), sha(index)) {
			list := attachedTo(t, 3, func() []statementFile { return statementsOf(t, registry, subject) })
			made := verified(t, p, subject, list)
			if n := len(made.BuildDefinition.ResolvedDependencies); n < map[bool]int{true: 7, false: 4}[subject == sha(index)] {
				t.Errorf("the provenance of %s has %d dependencies", subject, n)
			}
			want := map[bool]int{true: 6, false: 3}[subject == sha(index)]
			if bill := signedBill(t, subject, list); strings.Count(bill, "pkg:conda/") != want || !strings.Contains(bill, subject) {
				t.Errorf("the SBOM of %s: %s", subject, bill)
			}
		}

		at = "team/signed" + testkit.FreePort(t)
		body = frozen(source, own.Host+"/"+at, map[string]any{"env": []string{"GREETING=hello"}, "layers": []any{dataLayer(t, "added.txt", "x")}})
		body["format"] = "sif"
		_, file := build(body)
		registry = registryURL(own.Host, true) + "/v2/" + at
		made := verified(t, p, sha(file), attachedTo(t, 2, func() []statementFile { return statementsOf(t, registry, sha(file)) }))
		var read []string
		for _, d := range made.BuildDefinition.ResolvedDependencies {
			read = append(read, d.Name+" sha256:"+d.Digest["sha256"]+" "+d.URI)
		}
		converted := manifestAt(t, source)
		img, err := converted.Image()
		if err != nil {
			t.Fatal(err)
		}
		layers, err := img.Layers()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(read, "\n"); len(read) != 2+len(layers) || !strings.Contains(got, "image "+converted.Digest.String()+" pkg:oci/tool@") || made.BuildDefinition.ExternalParameters.Omitted != nil {
			t.Errorf("the Singularity image was made from\n%s", got)
		}
		for _, l := range layers {
			if d, err := l.Digest(); err != nil || !slices.Contains(read, "layer "+d.String()+" ") {
				t.Errorf("the layer %s is missing: %v, %q", d, err, read)
			}
		}

		at = "team/signed" + testkit.FreePort(t)
		answer, image := build(frozen(source, old+"/"+at, map[string]any{"env": []string{"GREETING=hello"}}))
		registry = registryURL(old, false) + "/v2/" + at
		verified(t, p, sha(image), attachedTo(t, 2, func() (out []statementFile) {
			r := request(t, http.MethodGet, registry+"/manifests/"+strings.Replace(sha(image), ":", "-", 1), nil)
			if r.status == http.StatusOK {
				for _, d := range parts(t, r.body) {
					out = append(out, statementOf(t, registry, d))
				}
			}
			return out
		}))
		key := filepath.Join(t.TempDir(), "cosign.pub")
		if err := os.WriteFile(key, request(t, http.MethodGet, p.url+"/.well-known/slipway/cosign.pub", nil).body, 0o600); err != nil {
			t.Fatal(err)
		}
		out, errs, err := p.slipway("verify", text(answer, "targetImage"), "--key", key, "--layers")
		if err != nil || !strings.Contains(out, sha(image)) {
			t.Errorf("slipway verify: %v\n%s%s", err, out, errs)
		}
	})
}

// TestRetiredKeys replaces the key of a server: images that were signed before are verified with the
// public keys that the server returns now, as long as the earlier key is one of them.
func TestRetiredKeys(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	source := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	first := oneProcess(t, common(t, []string{up.Host}, signingKey(t)))
	answer := first.order(frozen(source, up.Host+"/team/signed", map[string]any{"env": []string{"GREETING=hello"}}), "Authorization", "Bearer "+first.token)
	if s := first.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v\n%s", s, first.logOf(answer))
	}
	image := text(answer, "targetImage")
	_, tag, _ := strings.Cut(strings.TrimPrefix(image, up.Host), ":")
	base := registryURL(up.Host, false) + "/v2/team/signed"
	subject := sha(request(t, http.MethodGet, base+"/manifests/"+tag, nil).body)
	attachedTo(t, 2, func() []statementFile { return statementsOf(t, base, subject) })
	retired := filepath.Join(t.TempDir(), "retired.pub")
	if err := os.WriteFile(retired, request(t, http.MethodGet, first.url+"/.well-known/slipway/cosign.pub", nil).body, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, keeps := range []bool{true, false} {
		more := signingKey(t)
		if keeps {
			more["signing_retired_keys"] = retired
		}
		next := oneProcess(t, common(t, []string{up.Host}, more))
		out, errs, err := next.slipway("verify", image)
		if keeps && (err != nil || !strings.Contains(out, subject)) || !keeps && (err == nil || !strings.Contains(errs, "another key")) {
			t.Errorf("with the earlier key %v: %v\n%s%s", keeps, err, out, errs)
		}
	}
}

// signedBill returns the SBOM of a manifest, whose signature is verified already; "" for none.
func signedBill(t testing.TB, subject string, list []statementFile) string {
	t.Helper()
	for _, f := range list {
		var bundle struct{ DSSEEnvelope struct{ Payload []byte } }
		mustJSON(t, f.bundle, &bundle)
		var s attest.Statement
		mustJSON(t, bundle.DSSEEnvelope.Payload, &s)
		if s.PredicateType == attest.SPDXPredicate && strings.Contains(string(bundle.DSSEEnvelope.Payload), strings.TrimPrefix(subject, "sha256:")) {
			return string(s.Predicate)
		}
	}
	return ""
}

// registryURL returns the address of a registry, with the login of testkit if it requires one.
func registryURL(host string, login bool) string {
	u := url.URL{Scheme: "http", Host: host}
	if login {
		u.User = url.UserPassword(testkit.User, testkit.Password)
	}
	return u.String()
}

// parts returns the digests in an index.
func parts(t testing.TB, index []byte) (out []string) {
	t.Helper()
	var x struct{ Manifests []struct{ Digest string } }
	mustJSON(t, index, &x)
	for _, m := range x.Manifests {
		out = append(out, m.Digest)
	}
	return out
}

// attachedTo waits for n statements about an image.
func attachedTo(t testing.TB, n int, list func() []statementFile) (out []statementFile) {
	t.Helper()
	err := within(time.Minute, func() error {
		if out = list(); len(out) < n {
			return fmt.Errorf("the registry has %d statements", len(out))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// withoutReferrers starts a registry without the referrers API and returns its host.
func withoutReferrers(t testing.TB) string {
	t.Helper()
	off := false
	store := olareg.New(config.Config{
		Storage: config.ConfigStorage{StoreType: config.StoreMem},
		API:     config.ConfigAPI{Referrer: config.ConfigAPIReferrer{Enabled: &off}},
	})
	server := httptest.NewServer(store)
	t.Cleanup(func() {
		server.Close()
		_ = store.Close()
	})
	return strings.TrimPrefix(server.URL, "http://")
}
