package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/testkit"
)

// refused checks that a rule refuses a request, and that the message names it.
func (p *program) refused(t *testing.T, what string, body map[string]any, code, setting string) {
	t.Helper()
	r := p.call(http.MethodPost, "/v1alpha2/container", body)
	if r.status != http.StatusForbidden || text(r.json(t), "code") != code || !strings.Contains(text(r.json(t), "message"), setting) {
		t.Errorf("%s: %d %s, want %s by %s", what, r.status, r.body, code, setting)
	}
}

// violations returns the counted violations of a rule by all processes.
func (p *program) violations(t *testing.T, rule, mode string) int {
	t.Helper()
	total := 0
	for _, proc := range p.procs {
		for line := range strings.Lines(string(request(t, http.MethodGet, proc.admin+"/metrics", nil).body)) {
			n := 0
			if _, err := fmt.Sscanf(line, `slipway_policy_violations_total{mode="`+mode+`",rule="`+rule+`"} %d`, &n); err == nil {
				total += n
			}
		}
	}
	return total
}

// warned checks that a request succeeds, and that its message names a rule.
func (p *program) warned(t *testing.T, what string, body map[string]any, setting string) string {
	t.Helper()
	before := p.violations(t, setting, "warn")
	made := p.order(body)
	if !strings.Contains(text(made, "message"), setting) {
		t.Errorf("%s: the response is %v", what, made)
	}
	if after := p.violations(t, setting, "warn"); after <= before {
		t.Errorf("%s: %d violations were counted, before it were %d", what, after, before)
	}
	return text(made, "targetImage")
}

func TestPolicyRegistries(t *testing.T) {
	t.Parallel()
	good, bad := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Open)
	allowed, nearby := good.Push(t, "lab/tool:1", testkit.Image(t, "amd64", true)), good.Push(t, "lab2/tool:1", testkit.Image(t, "amd64", true))
	other := bad.Push(t, "lab/tool:1", testkit.Image(t, "amd64", true))
	requests := map[string]map[string]any{
		"another registry":  {"containerImage": other},
		"another path":      {"containerImage": nearby},
		"an included image": {"containerImage": allowed, "containerIncludes": []string{other}},
		"FROM":              recipe("FROM " + other),
		"an argument":       recipe("ARG B="+other, "FROM $B"),
		"COPY --from":       recipe("FROM "+allowed, "COPY --from="+other+" / /x"),
		"RUN --mount":       recipe("FROM "+allowed, "RUN --mount=from="+other+",target=/x true"),
		"a definition":      {"containerFile": base64.StdEncoding.EncodeToString([]byte("Bootstrap: docker\nFrom: " + other + "\n")), "format": "sif"},
		"a base image":      {"packages": map[string]any{"type": "CONDA", "entries": []string{"a"}, "condaOpts": map[string]any{"baseImage": other}}},
		"a cache":           {"containerFile": recipe("FROM " + allowed)["containerFile"], "buildRepository": good.Host + "/lab/x", "cacheRepository": bad.Host + "/cache"},
		"a dry run":         {"containerFile": recipe("FROM " + other)["containerFile"], "dryRun": true},
		"an installer":      {"packages": map[string]any{"type": "CONDA", "entries": []string{"a"}, "condaOpts": map[string]any{"mambaImage": other}}},
	}
	more := settings{"policy_registries": good.Host + "/lab,quay.io"}
	eachShape(t, []string{good.Host, bad.Host}, more, func(t *testing.T, p *program) {
		pull(t, p.submit(map[string]any{"containerImage": allowed}), "amd64")
		for what, body := range requests {
			p.refused(t, what, body, "policy.registry", "policy_registries")
		}
		if n := p.violations(t, "policy_registries", "enforce"); n < len(requests) {
			t.Errorf("%d violations were counted", n)
		}
		r := p.call(http.MethodPost, "/v1alpha2/containers", map[string]any{"requests": []any{map[string]any{"containerImage": allowed}, map[string]any{"containerImage": other}}})
		if r.status != http.StatusOK || !strings.Contains(string(r.body), "policy.registry") || !strings.Contains(string(r.body), "targetImage") {
			t.Errorf("a batch: %d %s", r.status, r.body)
		}
	})
	more["policy_mode"] = "warn"
	eachShape(t, []string{good.Host, bad.Host}, more, func(t *testing.T, p *program) {
		pull(t, p.warned(t, "another registry", map[string]any{"containerImage": other}, "policy_registries"), "amd64")
	})
}

// TestPolicyEarlierName sets a rule after a name was issued.
func TestPolicyEarlierName(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lab/tool:1", testkit.Image(t, "amd64", true))
	p := oneProcess(t, common(t, []string{up.Host}, nil))
	made := p.order(map[string]any{"containerImage": image})
	target := text(made, "targetImage")
	pull(t, target, "amd64")
	proc := p.procs[0]
	proc.kill()
	proc.env["policy_registries"] = "quay.io"
	proc.start()
	if r := request(t, http.MethodGet, v2(target)+"/manifests/1", nil); r.status != http.StatusForbidden || !strings.Contains(string(r.body), "policy_registries") {
		t.Errorf("the pull: %d %s", r.status, r.body)
	}
	p.refused(t, "the name", map[string]any{"containerImage": target, "containerConfig": map[string]any{"env": []string{"A=b"}}}, "policy.registry", "policy_registries")
	r := p.call(http.MethodPost, "/v1alpha2/container/"+text(made, "containerToken")+"/name", nil)
	if r.status != http.StatusForbidden || !strings.Contains(string(r.body), "policy_registries") {
		t.Errorf("a fresh name: %d %s", r.status, r.body)
	}
}

func TestPolicyPackages(t *testing.T) {
	t.Parallel()
	free, gpl, either := scriptPackage("free", "1.0", "exit 0"), scriptPackage("copyleft", "1.0", "exit 0"), scriptPackage("either", "1.0", "exit 0")
	free.license, gpl.license, either.license = "MIT", "GPL-3.0-or-later", "MIT OR GPL-3.0-only"
	unknown := scriptPackage("unknown", "1.0", "exit 0")
	dependent := scriptPackage("dependent", "1.0", "exit 0")
	dependent.license, dependent.depends = "MIT", []string{"copyleft"}
	list := []madePackage{free, gpl, either, unknown, dependent}
	procps := scriptPackage("procps-ng", "4.0.4", "exit 0")
	procps.license = "MIT"
	tools := madeChannel(t, append(list, procps)...)
	up := testkit.NewRegistry(t, testkit.Open)
	s := bare(tools.URL)
	s["conda_base_image"] = up.Push(t, "base/debian:1", testkit.Image(t, "amd64", true))
	s["policy_licenses_refused"], s["policy_channels"] = "GPL-3.0*,UNKNOWN", "good,conda-forge"
	conda := func(channel string, entries ...string) map[string]any {
		return map[string]any{"packages": map[string]any{"type": "CONDA", "entries": entries, "channels": []string{channel}}}
	}
	file, _ := gpl.write(t)
	lock := func(channel, file string) map[string]any {
		text := "@EXPLICIT\n" + tools.URL + "/" + channel + "/linux-64/" + file + "#" + strings.Repeat("0", 32) + "\n"
		return map[string]any{"packages": map[string]any{"type": "CONDA", "environment": base64.StdEncoding.EncodeToString([]byte(text))}}
	}
	const license, channel = "policy.license", "policy.channel"
	scenario := func(t *testing.T, p *program) {
		p.order(conda("good", "free", "either"))
		p.refused(t, "a license", conda("good", "copyleft"), license, "copyleft 1.0 has the license GPL-3.0-or-later")
		p.refused(t, "the license of a dependency", conda("good", "dependent"), license, "policy_licenses_refused")
		p.refused(t, "an unknown license", conda("good", "unknown"), license, "(unknown), refused by UNKNOWN")
		p.refused(t, "a channel", conda("bad", "free"), channel, "policy_channels")
		p.refused(t, "the channel of a package", conda("good", "bad::free"), channel, "policy_channels")
		p.refused(t, "the default channels", map[string]any{"packages": map[string]any{"type": "CONDA", "entries": []string{"free"}}}, channel, "policy_channels")
		p.refused(t, "the channel of a lock", lock("bad", file), channel, "policy_channels")
		p.refused(t, "the license of a lock, which does not state it", lock("good", file), license, "policy_licenses_refused")
		p.refused(t, "pip", conda("good", "free", "pip:numpy"), channel, "pypi")
	}
	eachCopyShape(t, []string{up.Host}, s, scenario)
	w := settings{}
	for k, v := range s {
		w[k] = v
	}
	w["policy_mode"], w["conda_min_age"] = "warn", "87600h"
	eachCopyShape(t, []string{up.Host}, w, func(t *testing.T, p *program) {
		p.warned(t, "a license", conda("good", "copyleft"), "policy_licenses_refused")
		p.warned(t, "a channel", conda("bad", "either"), "policy_channels")
		p.warned(t, "the age", conda("good", "free"), "conda_min_age")
	})
}

func TestPolicyAge(t *testing.T) {
	t.Parallel()
	tools := madeChannel(t, scriptPackage("free", "1.0", "exit 0"), scriptPackage("procps-ng", "4.0.4", "exit 0"))
	s := bare(tools.URL)
	s["conda_min_age"] = "87600h" // the packages are of 2023
	eachCopyShape(t, nil, s, func(t *testing.T, p *program) {
		r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"packages": map[string]any{"type": "CONDA", "entries": []string{"free"}, "channels": []string{"good"}}})
		if r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "(conda_min_age): request earlier versions") {
			t.Errorf("a solution: %d %s", r.status, r.body)
		}
		if n := p.violations(t, "conda_min_age", "enforce"); n == 0 {
			t.Error("the violation was not counted")
		}
	})
}

// newSigner returns a key, and the path of its public key.
func newSigner(t testing.TB) (*attest.Signer, *ecdsa.PrivateKey, string) {
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
	public, err := attest.PublicPEM(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key.pub")
	if err := os.WriteFile(path, public, 0o600); err != nil {
		t.Fatal(err)
	}
	return s, key, path
}

// signBundle pushes a signature in the format of cosign 3. change may change the bundle; nil leaves it.
func signBundle(t testing.TB, up *testkit.Registry, repo string, s *attest.Signer, to partial.Describable, predicate string, change func([]byte) []byte) {
	t.Helper()
	d, err := partial.Descriptor(to)
	if err != nil {
		t.Fatal(err)
	}
	made, err := s.Sign(t.Context(), ocispec.Descriptor{MediaType: string(d.MediaType), Digest: digest.Digest(d.Digest.String()), Size: d.Size}, predicate, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	var m ocispec.Manifest
	mustJSON(t, made.Manifest, &m)
	if change != nil {
		made.Bundle = change(made.Bundle)
		m.Layers[0].Digest, m.Layers[0].Size = digest.FromBytes(made.Bundle), int64(len(made.Bundle))
		if made.Manifest, err = json.Marshal(m); err != nil {
			t.Fatal(err)
		}
	}
	reference, err := name.NewRepository(up.Host+"/"+repo, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	for kind, raw := range map[string][]byte{attest.BundleType: made.Bundle, m.Config.MediaType: []byte("{}")} {
		if err := remote.WriteLayer(reference, static.NewLayer(raw, types.MediaType(kind))); err != nil {
			t.Fatal(err)
		}
	}
	put(t, up, repo, digest.FromBytes(made.Manifest).String(), ocispec.MediaTypeImageManifest, made.Manifest)
}

// put pushes a manifest.
func put(t testing.TB, up *testkit.Registry, repo, reference, kind string, raw []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+up.Host+"/v2/"+repo+"/manifests/"+reference, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("pushing %s: %s", reference, resp.Status)
	}
}

// simpleSigning pushes count signatures in the format of earlier cosigns, of a payload about a digest.
// Several signatures are invalid.
func simpleSigning(t testing.TB, up *testkit.Registry, repo string, key *ecdsa.PrivateKey, of, about string, count int) {
	t.Helper()
	payload := fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":"x"},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`, about)
	sum := sha256.Sum256(payload)
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	if count > 1 { // many invalid signatures
		signature[len(signature)-1] ^= 1
	}
	layer := static.NewLayer(payload, types.MediaType(attest.SimpleSigningType))
	reference, err := name.NewRepository(up.Host+"/"+repo, name.Insecure)
	if err == nil {
		err = remote.WriteLayer(reference, layer)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest}
	m.SchemaVersion = 2
	m.Config = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromBytes(payload), Size: int64(len(payload))}
	for range count {
		m.Layers = append(m.Layers, ocispec.Descriptor{
			MediaType: attest.SimpleSigningType, Digest: m.Config.Digest, Size: m.Config.Size,
			Annotations: map[string]string{attest.SimpleSigningAnnotation: base64.StdEncoding.EncodeToString(signature)},
		})
	}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	put(t, up, repo, attest.SimpleSigningTag(digest.Digest(of)), ocispec.MediaTypeImageManifest, raw)
}

func TestPolicySignatures(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	signer, key, public := newSigner(t)
	otherSigner, otherKey, _ := newSigner(t)
	fresh := func(tag string) (v1.Image, string) {
		img := with(t, testkit.Image(t, "amd64", true), map[string]string{"etc/tag": tag})
		return img, up.Push(t, "lab/tool:"+tag, img)
	}
	const signs = attest.SignaturePredicate
	valid := map[string]string{}
	img, image := fresh("bundle")
	signBundle(t, up, "lab/tool", signer, img, signs, nil)
	valid["a bundle"] = image
	img, image = fresh("simple")
	simpleSigning(t, up, "lab/tool", key, digestOf(t, img), digestOf(t, img), 1)
	valid["a tag"] = image
	img, image = fresh("both")
	signBundle(t, up, "lab/tool", otherSigner, img, signs, nil)
	signBundle(t, up, "lab/tool", signer, img, signs, nil)
	valid["two keys"] = image

	invalid := map[string]string{}
	unsigned, image := fresh("unsigned")
	invalid["no signature"] = image
	img, image = fresh("wrong-key")
	signBundle(t, up, "lab/tool", otherSigner, img, signs, nil)
	invalid["another key"] = image
	img, image = fresh("wrong-key-simple")
	simpleSigning(t, up, "lab/tool", otherKey, digestOf(t, img), digestOf(t, img), 1)
	invalid["another key, by tag"] = image
	img, image = fresh("tampered")
	signBundle(t, up, "lab/tool", signer, img, signs, func(raw []byte) []byte { return bytes.Replace(raw, []byte(`"sig":"M`), []byte(`"sig":"N`), 1) })
	invalid["a tampered bundle"] = image
	img, image = fresh("other-image")
	simpleSigning(t, up, "lab/tool", key, digestOf(t, img), digestOf(t, unsigned), 1)
	invalid["the signature of another image"] = image
	img, image = fresh("sbom")
	signBundle(t, up, "lab/tool", signer, img, attest.SPDXPredicate, nil)
	invalid["another statement"] = image
	img, image = fresh("many")
	simpleSigning(t, up, "lab/tool", key, digestOf(t, img), digestOf(t, img), 10_000)
	invalid["10,000 signatures"] = image
	elsewhere := up.Push(t, "free/tool:1", testkit.Image(t, "amd64", true))

	more := settings{"policy_signatures": up.Host + "/lab=" + public}
	eachCopyShape(t, []string{up.Host}, more, func(t *testing.T, p *program) {
		pull(t, p.submit(map[string]any{"containerImage": elsewhere}), "amd64")
		for what, image := range valid {
			pull(t, p.submit(map[string]any{"containerImage": image}), "amd64")
			if r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": elsewhere, "containerIncludes": []string{image}}); r.status != http.StatusOK {
				t.Errorf("%s, included: %d %s", what, r.status, r.body)
			}
		}
		for what, image := range invalid {
			start := time.Now()
			p.refused(t, what, map[string]any{"containerImage": image}, "policy.signature", "policy_signatures")
			p.refused(t, what+", included", map[string]any{"containerImage": elsewhere, "containerIncludes": []string{image}}, "policy.signature", "policy_signatures")
			if took := time.Since(start); took > 15*time.Second {
				t.Errorf("%s took %s", what, took)
			}
		}
		if n := p.violations(t, "policy_signatures", "enforce"); n < len(invalid) {
			t.Errorf("%d violations were counted", n)
		}
		// The tag moves to another image after the request.
		tag := "moves" + testkit.FreePort(t)
		img, image := fresh(tag)
		signBundle(t, up, "lab/tool", signer, img, signs, nil)
		target := p.submit(map[string]any{"containerImage": image})
		pull(t, target, "amd64")
		up.Push(t, "lab/tool:"+tag, unsigned)
		for _, ref := range []string{tag, digestOf(t, unsigned)} {
			if r := request(t, http.MethodGet, v2(target)+"/manifests/"+ref, nil); r.status != http.StatusForbidden && r.status != http.StatusNotFound {
				t.Errorf("the moved tag, %s: %d %s", ref, r.status, r.body)
			}
		}
		if r := request(t, http.MethodGet, v2(target)+"/manifests/"+tag, nil); r.status != http.StatusForbidden || !strings.Contains(string(r.body), "policy_signatures") {
			t.Errorf("the moved tag: %d %s", r.status, r.body)
		}
		if r := request(t, http.MethodGet, v2(target)+"/manifests/"+digestOf(t, img), nil); r.status != http.StatusOK {
			t.Errorf("the signed image by digest: %d %s", r.status, r.body)
		}
		signBundle(t, up, "lab/tool", signer, img, signs, nil)
		up.Push(t, "lab/tool:"+tag, img)
		pull(t, target, "amd64")
	})
	more["policy_mode"] = "warn"
	eachShape(t, []string{up.Host}, more, func(t *testing.T, p *program) {
		pull(t, p.warned(t, "no signature", map[string]any{"containerImage": invalid["no signature"]}, "policy_signatures"), "amd64")
	})
}

// TestPolicyBuilds checks that workers apply the rules to images that only a base image names. Workers in processes
// of their own have no settings of rules.
func TestPolicyBuilds(t *testing.T) {
	t.Parallel()
	testPolicyBuilds(t, "enforce")
}

// TestPolicyBuildsWarn is TestPolicyBuilds with warnings.
func TestPolicyBuildsWarn(t *testing.T) {
	t.Parallel()
	testPolicyBuilds(t, "warn")
}

func testPolicyBuilds(t *testing.T, mode string) {
	t.Helper()
	good, bad := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Open)
	signer, _, public := newSigner(t)
	signed := func(path string, img v1.Image) string {
		repo, _, _ := strings.Cut(path, ":")
		image := good.Push(t, path, img)
		signBundle(t, good, repo, signer, img, attest.SignaturePredicate, nil)
		return image
	}
	base := signed("lab/base:1", busybox(t, true))
	unsigned := good.Push(t, "lab/unsigned:1", with(t, busybox(t, true), map[string]string{"etc/unsigned": "1"}))
	elsewhere := bad.Push(t, "lab/tool:1", busybox(t, true))
	far := signed("lab/far:1", onBuild(t, busybox(t, true), "COPY --from="+elsewhere+" /bin/busybox /far"))
	near := signed("lab/near:1", onBuild(t, busybox(t, true), "COPY --from="+unsigned+" /bin/busybox /near"))
	own := signed("lab/own:1", onBuild(t, busybox(t, true), "COPY --from="+base+" /bin/busybox /own"))
	more := settings{"policy_registries": good.Host, "policy_signatures": "*=" + public, "policy_mode": mode}
	builds := func(p *program, image string) map[string]any {
		return p.finished(t, p.order(recipe("FROM "+image, "RUN echo "+testkit.FreePort(t)+" > /built")))
	}
	eachBuildShape(t, []string{good.Host, bad.Host}, more, func(t *testing.T, p *program) {
		if mode == "enforce" {
			p.refused(t, "an unsigned base", recipe("FROM "+unsigned), "policy.signature", "policy_signatures")
		}
		if got := builds(p, own); got["succeeded"] != true {
			t.Errorf("signed images: %v", got)
		}
		for image, setting := range map[string]string{far: "policy_registries", near: "policy_signatures"} {
			got := builds(p, image)
			if isBuilt := got["succeeded"] == true; isBuilt != (mode == "warn") || !isBuilt && !strings.Contains(text(got, "message"), setting) {
				t.Errorf("a base image that names an image against %s: %v", setting, got)
			}
			if n := p.violations(t, setting, mode); n == 0 {
				t.Errorf("no violation of %s was counted", setting)
			}
		}
	})
}

// TestPolicyQueued sets a rule while a build is queued.
func TestPolicyQueued(t *testing.T) {
	t.Parallel()
	needBuilds(t)
	up := testkit.NewRegistry(t, testkit.Open)
	base := up.Push(t, "lab/base:1", busybox(t, true))
	p, _ := buildersPerRole(t, common(t, []string{up.Host}, nil))
	var workers, services []*process
	for _, proc := range p.procs {
		switch {
		case strings.HasPrefix(proc.name, "builder"):
			workers = append(workers, proc)
			proc.kill()
		case strings.HasPrefix(proc.name, "build"):
			services = append(services, proc)
		}
	}
	made := p.order(recipe("FROM "+base, "RUN true"))
	for _, proc := range services {
		proc.kill()
		proc.env["policy_registries"] = "quay.io"
		proc.start()
	}
	for _, proc := range workers {
		proc.start()
	}
	if got := p.finished(t, made); got["succeeded"] != false || !strings.Contains(text(got, "message"), "policy_registries") {
		t.Errorf("the build ended as %v", got)
	}
}

// TestPolicySlowRegistry checks that a registry without responses about signatures refuses its image, and delays no
// other one.
func TestPolicySlowRegistry(t *testing.T) {
	t.Parallel()
	slow, fast := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Open)
	signer, _, public := newSigner(t)
	image, img := slow.Push(t, "lab/tool:1", testkit.Image(t, "amd64", true)), testkit.Image(t, "amd64", true)
	signed := fast.Push(t, "lab/tool:1", img)
	signBundle(t, fast, "lab/tool", signer, img, attest.SignaturePredicate, nil)
	released := make(chan struct{})
	slow.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, ".sig") || strings.Contains(r.URL.Path, "/referrers/") {
			select {
			case <-released:
			case <-r.Context().Done():
			}
		}
		return false
	})
	p := oneProcess(t, common(t, []string{slow.Host, fast.Host}, settings{"policy_signatures": "*=" + public}))
	done := make(chan reply, 1)
	go func() {
		done <- request(t, http.MethodPost, p.url+"/v1alpha2/container", map[string]any{"containerImage": image})
	}()
	pull(t, p.submit(map[string]any{"containerImage": signed}), "amd64")
	select {
	case r := <-done:
		t.Errorf("the slow registry did not delay its own image: %d %s", r.status, r.body)
	default:
	}
	if r := <-done; r.status != http.StatusServiceUnavailable || !strings.Contains(string(r.body), "policy_signatures") {
		t.Errorf("the slow registry: %d %s", r.status, r.body)
	}
	close(released)
}

// TestGenuineCosignSigns signs with the genuine cosign in both formats.
func TestGenuineCosignSigns(t *testing.T) {
	t.Parallel()
	dir := genuine(t)
	if _, err := os.Stat(filepath.Join(dir, "bin", "cosign")); err != nil {
		t.Fatalf("SLIPWAY_TEST_CLIENTS: %v", err)
	}
	up := testkit.NewRegistry(t, testkit.Open)
	w := newDesk(t, "COSIGN_PASSWORD=", "COSIGN_EXPERIMENTAL=0")
	w.must(t, nil, "cosign", "generate-key-pair")
	p := oneProcess(t, common(t, []string{up.Host}, settings{"policy_signatures": up.Host + "=" + filepath.Join(w.dir, "cosign.pub")}))
	for format, flags := range map[string][]string{"bundle": nil, "simple": {"--new-bundle-format=false", "--use-signing-config=false"}} {
		img := with(t, testkit.Image(t, "amd64", true), map[string]string{"etc/format": format})
		image := up.Push(t, "lab/tool:"+format, img)
		p.refused(t, format, map[string]any{"containerImage": image}, "policy.signature", "policy_signatures")
		args := append([]string{"sign", "--key", "cosign.key", "--tlog-upload=false", "--allow-http-registry", "--yes"}, flags...)
		if format == "bundle" {
			args = append(args, "--use-signing-config=false")
		}
		w.must(t, nil, "cosign", append(args, up.Host+"/lab/tool@"+digestOf(t, img))...)
		if err := within(time.Minute, func() error {
			if r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image}); r.status != http.StatusOK {
				return fmt.Errorf("%d %s", r.status, r.body)
			}
			return nil
		}); err != nil {
			t.Errorf("%s: %v", format, err)
		}
	}
}
