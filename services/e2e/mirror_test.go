package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/testkit"
)

// mirrored returns a request that mirrors an image.
func mirrored(image, repository string) map[string]any {
	return map[string]any{"containerImage": image, "mirror": true, "buildRepository": repository}
}

// manifestAt returns the manifest at a registry of the test.
func manifestAt(t testing.TB, image string) *remote.Descriptor {
	t.Helper()
	ref, err := name.ParseReference(image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	d, err := remote.Get(ref, remote.WithAuth(&authn.Basic{Username: testkit.User, Password: testkit.Password}))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestMirror copies an image with two platforms, a signature, an SBOM of one platform and the tag
// of a signature.
func TestMirror(t *testing.T) {
	t.Parallel()
	from, to := testkit.NewRegistry(t, testkit.Bearer), testkit.NewRegistry(t, testkit.Basic)
	index := testkit.Index(t, true, "amd64", "arm64")
	children, err := partial.Manifests(index)
	if err != nil {
		t.Fatal(err)
	}
	image := from.Push(t, "lab/tool:v1", index)
	signature, sbom := referring(t, "signature", index), referring(t, "sbom", children[1])
	from.Push(t, "lab/tool@"+digestOf(t, signature), signature)
	from.Push(t, "lab/tool@"+digestOf(t, sbom), sbom)
	tag := strings.ReplaceAll(digestOf(t, index), ":", "-") + ".sig"
	attached, err := random.Image(500, 1)
	if err != nil {
		t.Fatal(err)
	}
	from.Push(t, "lab/tool:"+tag, attached)
	more := signingKey(t)
	more["admin_registry_auth_file"] = dockerConfig(t, map[string]string{
		from.Host: testkit.User + ":" + testkit.Password, to.Host: testkit.User + ":" + testkit.Password,
	})
	eachCopyShape(t, []string{from.Host, to.Host}, more, func(t *testing.T, p *program) {
		repository := to.Host + "/mirror" + testkit.FreePort(t)
		answer := p.order(mirrored(image, repository), "Authorization", "Bearer "+p.token)
		target := repository + "/lab/tool:v1"
		if text(answer, "targetImage") != target || answer["mirror"] != true || answer["freeze"] != false || answer["containerToken"] != nil || answer["cached"] != false {
			t.Errorf("the request returned %v", answer)
		}
		s := p.finished(t, answer)
		id := text(answer, "buildId")
		if s["succeeded"] != true || text(s, "mirrorId") != id {
			t.Fatalf("the mirror ended as %v\n%s", s, p.logOf(answer))
		}
		for name, want := range map[string]string{
			target: digestOf(t, index), repository + "/lab/tool:" + tag: digestOf(t, attached),
			repository + "/lab/tool@" + digestOf(t, children[0]): digestOf(t, children[0]),
			repository + "/lab/tool@" + digestOf(t, children[1]): digestOf(t, children[1]),
		} {
			if got := manifestAt(t, name).Digest.String(); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
		made := p.copied(t, registryURL(to.Host, true)+"/v2/"+strings.TrimPrefix(repository, to.Host+"/")+"/lab/tool", digestOf(t, index), id)
		params := made.BuildDefinition.ExternalParameters
		if deps := made.BuildDefinition.ResolvedDependencies; params.Source+params.Target != "" || len(deps) != 1 || deps[0].URI != "" {
			t.Errorf("the provenance names the source, or the target, which require a login: %+v", made)
		}
		if !slices.Equal(params.Platforms, []string{"linux/amd64", "linux/arm64"}) || params.ContentDigest == "" {
			t.Errorf("the provenance is %+v", made)
		}
		for of, referrer := range map[string]v1.Image{digestOf(t, index): signature, digestOf(t, children[1]): sbom} {
			ref, err := name.NewDigest(repository+"/lab/tool@"+of, name.Insecure)
			if err != nil {
				t.Fatal(err)
			}
			list, err := remote.Referrers(ref, remote.WithAuth(&authn.Basic{Username: testkit.User, Password: testkit.Password}))
			if err != nil {
				t.Fatal(err)
			}
			m, err := list.IndexManifest()
			if err == nil {
				m.Manifests = slices.DeleteFunc(m.Manifests, func(d v1.Descriptor) bool { return d.ArtifactType == attest.BundleType })
			}
			if err != nil || len(m.Manifests) != 1 || m.Manifests[0].Digest.String() != digestOf(t, referrer) {
				t.Errorf("the referrers of %s are %v, %v", of, m, err)
			}
		}
		record := p.call(http.MethodGet, "/v1alpha1/mirrors/"+id, nil).json(t)
		if text(record, "sourceImage") != image || text(record, "targetImage") != target || text(record, "digest") != digestOf(t, index) || record["succeeded"] != true {
			t.Errorf("the record is %v", record)
		}
		if log := string(p.call(http.MethodGet, "/v1alpha1/mirrors/"+id+"/logs", nil).body); !strings.Contains(log, "bytes were copied") {
			t.Errorf("the log is %s", log)
		}

		to.Requests()
		again := p.order(mirrored(image, repository), "Authorization", "Bearer "+p.token)
		if again["cached"] != true || again["succeeded"] != true || text(again, "buildId") != id {
			t.Errorf("the repeated request returned %v", again)
		}
		if requests := to.Requests(); slices.ContainsFunc(requests, func(r string) bool { return strings.HasPrefix(r, "P") }) {
			t.Errorf("the image was pushed again: %q", requests)
		}
		byDigest := p.order(mirrored(from.Host+"/lab/tool@"+digestOf(t, index), repository), "Authorization", "Bearer "+p.token)
		if want := repository + "/lab/tool@" + digestOf(t, index); text(byDigest, "targetImage") != want {
			t.Errorf("a mirror by digest returned %v, want %s", byDigest, want)
		}
		if s := p.finished(t, byDigest); s["succeeded"] != true || !strings.Contains(p.logOf(byDigest), "0 bytes were copied, 0 bytes were mounted") {
			t.Errorf("the mirror by digest ended as %v\n%s", s, p.logOf(byDigest))
		}

		// The owner of the copy signs it; the next mirror must keep that signature.
		own, err := random.Image(300, 1)
		if err != nil {
			t.Fatal(err)
		}
		to.Push(t, strings.TrimPrefix(repository, to.Host+"/")+"/lab/tool:"+tag, own)
		from.Push(t, "lab/tool:v2", index)
		second := p.order(mirrored(from.Host+"/lab/tool:v2", repository), "Authorization", "Bearer "+p.token)
		if s := p.finished(t, second); s["succeeded"] != true {
			t.Errorf("the mirror of another tag ended as %v\n%s", s, p.logOf(second))
		}
		if got := manifestAt(t, repository+"/lab/tool:"+tag).Digest.String(); got != digestOf(t, own) {
			t.Errorf("the signature of the copy's owner was replaced by %s", got)
		}
	})
}

// copied returns the provenance of a copy, after verifying it, and that it is the only statement of the
// server. The argument base is the address of the target's repository, and id that of the mirror.
func (p *program) copied(t testing.TB, base, subject, id string) *attest.Provenance {
	t.Helper()
	keys, err := attest.ParsePublicKeys(request(t, http.MethodGet, p.url+"/.well-known/slipway/cosign.pub", nil).body)
	if err != nil {
		t.Fatal(err)
	}
	p.provenance(t, id, "ATTACHED", "")
	var out []*attest.Provenance
	for _, f := range statementsOf(t, base, subject) {
		s, err := attest.Verify(f.bundle, digest.Digest(subject), keys...)
		if err != nil {
			t.Fatal(err)
		}
		made, err := s.Provenance()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, made)
	}
	if len(out) != 1 || out[0].BuildDefinition.BuildType != attest.BuildTypeMirrored {
		t.Fatalf("the statements are %+v", out)
	}
	run := out[0].RunDetails
	if run.Builder.ID == "" || run.Metadata.InvocationID != id || run.Metadata.StartedOn == "" || run.Metadata.FinishedOn == "" || "sha256:"+out[0].BuildDefinition.ResolvedDependencies[0].Digest["sha256"] != subject {
		t.Errorf("the provenance is %+v", out[0])
	}
	return out[0]
}

// provenance waits until the record of a mirror has a state of its provenance, and a message.
func (p *program) provenance(t testing.TB, id, state, message string) {
	t.Helper()
	err := within(time.Minute, func() error {
		record := p.call(http.MethodGet, "/v1alpha1/mirrors/"+id, nil).json(t)
		if text(record, "provenance") != state || !strings.Contains(text(record, "provenanceMessage"), message) {
			return fmt.Errorf("the mirror is %v", record)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestMirrorDenied checks requests that are rejected, copies that fail, and what `slipway verify` says of
// copies.
func TestMirrorDenied(t *testing.T) {
	t.Parallel()
	from, to := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Open)
	image := from.Push(t, "lab/tool:v1", testkit.Index(t, true, "amd64", "arm64"))
	eachCopyShape(t, []string{from.Host, to.Host}, signingKey(t), func(t *testing.T, p *program) {
		repository := to.Host + "/mirror" + testkit.FreePort(t)
		for what, body := range map[string]map[string]any{
			"without a token": mirrored(image, repository),
			"onto itself":     mirrored(image, from.Host+"/lab/tool"),
			"unknown image":   mirrored(from.Host+"/lab/absent:v1", repository),
		} {
			var header []string
			if what != "without a token" {
				header = []string{"Authorization", "Bearer " + p.token}
			}
			if r := p.call(http.MethodPost, "/v1alpha2/container", body, header...); r.status != http.StatusBadRequest {
				t.Errorf("%s: %d %s", what, r.status, r.body)
			}
		}

		fails := func(what, reason, message string) {
			t.Helper()
			answer := p.order(mirrored(image, repository+"/"+reason), "Authorization", "Bearer "+p.token)
			s := p.finished(t, answer)
			if s["succeeded"] != false || text(s, "reasonCode") != reason || !strings.Contains(text(s, "message"), message) {
				t.Errorf("%s: the mirror ended as %v\n%s", what, s, p.logOf(answer))
			}
			requests := to.Requests()
			if slices.ContainsFunc(requests, func(r string) bool { return strings.HasPrefix(r, "PUT ") && strings.HasSuffix(r, "/manifests/v1") }) {
				t.Errorf("%s: the target got its tag: %q", what, requests)
			}
		}
		to.Requests()
		manifests := 0
		to.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/") {
				if manifests++; manifests > 1 {
					http.Error(w, "quota exceeded", http.StatusForbidden)
					return true
				}
			}
			return false
		})
		fails("a target that refuses half way", "push", to.Host)
		to.Intercept(nil)
		from.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/blobs/") {
				return false
			}
			fmt.Fprint(w, "other content")
			return true
		})
		fails("a source that lies about a digest", "build", "A blob of the image cannot be used")
		from.Intercept(nil)

		copies := func(image, repository string) (target, id string) {
			t.Helper()
			answer := p.order(mirrored(image, repository), "Authorization", "Bearer "+p.token)
			if s := p.finished(t, answer); s["succeeded"] != true {
				t.Fatalf("the mirror ended as %v\n%s", s, p.logOf(answer))
			}
			return text(answer, "targetImage"), text(answer, "buildId")
		}
		to.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/manifests/") {
				return false
			}
			body, err := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if err == nil && bytes.Contains(body, []byte(attest.BundleType)) {
				http.Error(w, "no statements here", http.StatusForbidden)
				return true
			}
			return false
		})
		target, id := copies(image, repository+"/refused")
		p.provenance(t, id, "FAILED", to.Host)
		if got := manifestAt(t, target).Digest; got != manifestAt(t, image).Digest {
			t.Errorf("the copy is %s", got)
		}
		to.Intercept(nil)
		if _, errs, err := p.slipway("verify", target, "--mirrored"); err == nil || !strings.Contains(errs, "no signature") {
			t.Errorf("a copy without a statement: %v\n%s", err, errs)
		}

		target, id = copies(image, repository)
		if made := p.copied(t, "http://"+to.Host+"/v2/"+strings.TrimPrefix(repository, to.Host+"/")+"/lab/tool", manifestAt(t, image).Digest.String(), id).BuildDefinition.ExternalParameters; made.Source != image || made.Target != target {
			t.Errorf("the provenance does not name %s and %s: %+v", image, target, made)
		}
		if _, errs, err := p.slipway("verify", target); err == nil || !strings.Contains(errs, "mirrored it from "+image+", and does not vouch for its content") {
			t.Errorf("a copy: %v\n%s", err, errs)
		}
		if out, errs, err := p.slipway("verify", target, "--mirrored", "--layers"); err != nil || !strings.Contains(out, "from "+image) || !strings.Contains(out, "does not vouch for its content") || strings.Contains(out, "made by") {
			t.Errorf("a copy: %v\n%s%s", err, out, errs)
		}

		// An image that the server has made keeps its signature and its own provenance.
		answer := p.order(frozen(image, from.Host+"/team/signed"+testkit.FreePort(t), map[string]any{"env": []string{"GREETING=hello"}}), "Authorization", "Bearer "+p.token)
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("the build ended as %v\n%s", s, p.logOf(answer))
		}
		own := text(answer, "targetImage")
		path, _, _ := strings.Cut(strings.TrimPrefix(own, from.Host), ":")
		attachedTo(t, 2, func() []statementFile {
			return statementsOf(t, "http://"+from.Host+"/v2"+path, manifestAt(t, own).Digest.String())
		})
		target, id = copies(own, repository)
		p.provenance(t, id, "ATTACHED", "")
		if out, errs, err := p.slipway("verify", target); err != nil || !strings.Contains(out, "made by") || !strings.Contains(out, "from "+own) {
			t.Errorf("a copy of an image that the server has made: %v\n%s%s", err, out, errs)
		}
	})
}

// TestMirrorContinues kills the server while a mirror copies a blob. The mirror must end after the
// next start, without sending the other blobs again, and also survive a target that disconnects.
func TestMirrorContinues(t *testing.T) {
	t.Parallel()
	from, to := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Open)
	img, err := random.Image(50_000, 6)
	if err != nil {
		t.Fatal(err)
	}
	image := from.Push(t, "lab/tool:v1", img)
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	held, err := layers[5].Digest()
	if err != nil {
		t.Fatal(err)
	}
	p := oneProcess(t, common(t, []string{from.Host, to.Host}, nil))
	reached, killed, broken := make(chan struct{}), make(chan struct{}), 0
	from.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, held.String()) {
			return false
		}
		select {
		case <-killed:
			return false
		default:
			close(reached)
			<-killed
			return true
		}
	})
	answer := p.order(mirrored(image, to.Host+"/mirror"), "Authorization", "Bearer "+p.token)
	<-reached
	if err := within(time.Minute, func() error {
		sent := 0
		for _, l := range layers[:5] {
			d, err := l.Digest()
			if err != nil {
				return err
			}
			if r := request(t, http.MethodHead, "http://"+to.Host+"/v2/mirror/lab/tool/blobs/"+d.String(), nil); r.status == http.StatusOK {
				sent++
			}
		}
		if sent < 5 {
			return fmt.Errorf("%d blobs were sent", sent)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	p.procs[0].kill()
	close(killed)
	to.Requests()
	to.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/blobs/") || broken == 1 {
			return false
		}
		broken++
		panic(http.ErrAbortHandler)
	})
	p.procs[0].start()
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the mirror ended as %v\n%s", s, p.logOf(answer))
	}
	puts := 0
	for _, r := range to.Requests() {
		if strings.HasSuffix(r, "/manifests/v1") && strings.HasPrefix(r, "PUT ") {
			break // the statement about the copy follows
		}
		if strings.HasPrefix(r, "PUT ") && strings.Contains(r, "/blobs/") {
			puts++
		}
	}
	if got := manifestAt(t, text(answer, "targetImage")).Digest.String(); got != digestOf(t, img) || puts > 2 || broken != 1 {
		t.Errorf("the copy is %s, want %s; %d blobs were sent after the kill, %d broke\n%s", got, digestOf(t, img), puts, broken, p.logOf(answer))
	}
}

// TestMirrorInOnePart copies a layer to a registry that accepts no parts of layers. The log of the
// mirror must say that the upload does not continue.
func TestMirrorInOnePart(t *testing.T) {
	t.Parallel()
	from, to := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Open)
	img, err := random.Image(9<<20, 1)
	if err != nil {
		t.Fatal(err)
	}
	to.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			http.NotFound(w, r)
		}
		return r.Method == http.MethodPatch
	})
	p := oneProcess(t, common(t, []string{from.Host, to.Host}, nil))
	answer := p.order(mirrored(from.Push(t, "lab/tool:v1", img), to.Host+"/mirror"), "Authorization", "Bearer "+p.token)
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the mirror ended as %v\n%s", s, p.logOf(answer))
	}
	if log := p.logOf(answer); !strings.Contains(log, "is uploaded as a whole, and from its start after an interruption") {
		t.Errorf("the log is %s", log)
	}
	if got := manifestAt(t, text(answer, "targetImage")).Digest.String(); got != digestOf(t, img) {
		t.Errorf("the copy is %s, want %s", got, digestOf(t, img))
	}
}
