package e2e

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/testkit"
)

// TestEnvironmentWithoutImage runs programs of an environment that has no image, by its packages and by its name, and checks that
// everything that shows results of builds works with it.
func TestEnvironmentWithoutImage(t *testing.T) {
	needClients(t)
	t.Parallel()
	channel := madeChannel(t, greet(t, "amd64"), debianPython(t), helloPython())
	eachCopyShape(t, nil, unraced(bare(channel.URL)), func(t *testing.T, p *program) {
		order := standalone("greet", "hello")
		answer := p.order(order)
		ended := p.finished(t, answer)
		if ended["succeeded"] != true {
			t.Fatalf("the build ended as %v:\n%s", ended, p.logOf(answer))
		}
		m, name := newMounter(t, p), text(answer, "targetImage")
		const programs = "greet && tool && hello && shout"
		const greeting = "/opt/conda/share/greeting: hello of a package\n"
		const want = greeting + greeting + "hello /opt/conda of the package /opt/conda/lib/python3.11/site-packages/hello/say.py\nSHOUT /opt/conda\n"
		for _, args := range [][]string{{"run", "--channel", "lab", "--base-packages", "", "greet", "hello"}, {"run", name}, {"run", name}, {"run", "--offline", name}} {
			if out, errs, err := m.slipway(append(args, "--", "sh", "-c", programs)...); err != nil || out != want {
				t.Fatalf("%v printed %q, %v: %s", args, out, err, errs)
			}
		}
		var build map[string]any
		mustJSON(t, p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId"), nil).body, &build)
		if build["digest"] != build["environment"] || build["digest"] == nil {
			t.Errorf("the record of the build is %v", build)
		}
		var doc struct {
			ArtifactType string
			Subject      any
			Layers       []struct{ MediaType string }
		}
		mustJSON(t, request(t, http.MethodGet, manifest(name), nil).body, &doc)
		if doc.ArtifactType != "application/vnd.slipway.environment.v1" || doc.Subject != nil || len(doc.Layers) != 4 {
			t.Errorf("the manifest is %+v", doc)
		}
		for _, l := range doc.Layers {
			if strings.Contains(l.MediaType, "tar") {
				t.Errorf("the environment has a layer of the type %s", l.MediaType)
			}
		}
	})
}

// standalone returns a request for an environment without an image.
func standalone(entries ...string) map[string]any {
	return map[string]any{"format": "environment", "packages": map[string]any{"type": "CONDA", "entries": entries, "channels": []string{"lab"}, "condaOpts": map[string]any{"basePackages": ""}}}
}

// TestEnvironmentIsAResult checks that what shows, signs, keeps and copies the results of builds does so with an environment that has no
// image, and that nothing is built on it.
func TestEnvironmentIsAResult(t *testing.T) {
	needClients(t)
	t.Parallel()
	images, own, channel := testkit.NewRegistry(t, testkit.Basic), testkit.NewRegistry(t, testkit.Basic), madeChannel(t, greet(t, "amd64"))
	more := keeping(channel.URL, "all")
	more["admin_registry_auth_file"] = dockerConfig(t, map[string]string{own.Host: testkit.User + ":" + testkit.Password})
	p := oneProcess(t, pushingTo(t, images, common(t, []string{own.Host}, more)))
	answer := p.order(standalone("greet"))
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	name, build := text(answer, "targetImage"), text(answer, "buildId")
	if again := p.order(standalone("greet")); again["cached"] != true || again["buildId"] != build {
		t.Errorf("the environment is not cached: %v", again)
	}
	fresh := p.call(http.MethodPost, "/v1alpha2/container/"+build+"/name", nil).json(t)
	m := newMounter(t, p)
	for _, args := range [][]string{{"run", text(fresh, "targetImage")}, {"run", "--verify", name}} {
		if out, errs, err := m.slipway(append(args, "--", "greet")...); err != nil || out != "/opt/conda/share/greeting: hello of a package\n" {
			t.Errorf("%v printed %q, %v: %s", args, out, err, errs)
		}
	}
	printed, log, err := p.slipway("conda", "greet", "--channel", "lab", "--base-packages", "", "--format", "environment", "--await")
	if again := p.call(http.MethodGet, "/v1alpha1/builds/"+build, nil).json(t); err != nil || !strings.HasPrefix(printed, p.host+"/wt/") || !strings.Contains(log, text(again, "digest")) {
		t.Errorf("slipway conda printed %q, %v: %s", printed, err, log)
	}
	if _, errs, err := p.slipway("conda", "greet", "--format", "zip"); err == nil || !strings.Contains(errs, "--format must be oci, sif or environment") {
		t.Errorf("another format: %v, %s", err, errs)
	}
	if out, log, err := p.slipway("verify", name); err != nil || !strings.Contains(out, "Provenance") {
		t.Errorf("%s%s%v", out, log, err)
	}
	p.inspectsEnvironment(t, name)
	p.buildsNothingOn(t, name)
	p.freezesEnvironment(t, m, own)
	revoked := text(p.order(standalone("greet")), "targetImage")
	if out, errs, err := p.slipway("revoke", revoked); err != nil {
		t.Fatalf("%v: %s%s", err, out, errs)
	}
	forged := strings.Replace(name, "/wt/", "/wt/x", 1)
	for _, name := range []string{revoked, forged} {
		if out, errs, err := m.slipway("run", name, "--", "greet"); err == nil {
			t.Errorf("%s, which is not valid, printed %q: %s", name, out, errs)
		}
	}
	p.keepsEnvironment(t, m)
}

// inspectsEnvironment checks what is shown of an environment: its variables, and the packages of its lock.
func (p *program) inspectsEnvironment(t *testing.T, name string) {
	t.Helper()
	query := map[string]any{"containerImage": name}
	if r := p.call(http.MethodPost, "/v1alpha1/inspect", query); r.status != http.StatusOK || !strings.Contains(string(r.body), "PATH=/opt/conda/bin") || !strings.Contains(string(r.body), `"amd64"`) {
		t.Errorf("inspect: %d %s", r.status, r.body)
	}
	var list struct {
		Platforms []struct {
			Platform, Source string
			Packages         []struct{ Name, Layer string }
		}
	}
	mustJSON(t, p.call(http.MethodPost, "/v1alpha1/inspect/packages", query).body, &list)
	if len(list.Platforms) != 1 || list.Platforms[0].Platform != "linux/amd64" || list.Platforms[0].Source != "lock" || len(list.Platforms[0].Packages) == 0 || list.Platforms[0].Packages[0].Layer == "" {
		t.Errorf("the packages are %+v", list)
	}
	if r := p.call(http.MethodGet, "/v1alpha1/images/sbom?image="+url.QueryEscape(name), nil); r.status != http.StatusOK || !strings.Contains(string(r.body), "pkg:conda/greet@") {
		t.Errorf("the SBOM: %d %s", r.status, r.body)
	}
}

// buildsNothingOn checks that the name of an environment cannot be used like that of an image, apart from another name for it.
func (p *program) buildsNothingOn(t *testing.T, name string) {
	t.Helper()
	another := text(p.order(map[string]any{"containerImage": name}), "targetImage")
	if was, is := request(t, http.MethodGet, manifest(name), nil), request(t, http.MethodGet, manifest(another), nil); another == name || is.status != http.StatusOK || string(was.body) != string(is.body) {
		t.Errorf("the name %s has %d %s", another, is.status, is.body)
	}
	for what, body := range map[string]map[string]any{
		"additions":   {"containerImage": name, "containerConfig": map[string]any{"env": []string{"A=b"}}},
		"Singularity": {"containerImage": name, "format": "sif"},
		"inclusion":   {"containerImage": "docker.io/library/debian:12", "containerIncludes": []string{name}},
		"Dockerfile":  {"containerFile": base64.StdEncoding.EncodeToString([]byte("FROM " + name + "\n"))},
		"base image":  environment(name, "greet"),
	} {
		if r := p.call(http.MethodPost, "/v1alpha2/container", body); r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "is an environment without an image") {
			t.Errorf("%s: %d %s", what, r.status, r.body)
		}
	}
}

// keepsEnvironment keeps an environment, and runs it by its permanent name.
func (p *program) keepsEnvironment(t *testing.T, m mounter) {
	t.Helper()
	order := standalone("greet")
	order["keep"] = true
	answer := p.order(order)
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	id, name := text(answer, "keptId"), text(answer, "targetImage")
	p.knownDigest(t, id)
	if kept := p.call(http.MethodGet, "/v1alpha1/catalog/"+id, nil).json(t); kept["format"] != "environment" || kept["targetImage"] != name || kept["packageCount"] == nil {
		t.Errorf("the catalogue has %v", kept)
	}
	if out, errs, err := m.slipway("run", name, "--", "greet"); err != nil || out != "/opt/conda/share/greeting: hello of a package\n" {
		t.Errorf("the kept environment printed %q, %v: %s", out, err, errs)
	}
	if r := p.call(http.MethodGet, "/v1alpha1/catalog/"+id+"/citation?format=bibtex", nil); !strings.Contains(string(r.body), "Mounted environment") {
		t.Errorf("the citation is %s", r.body)
	}
	p.change(t, `DELETE FROM container_requests`, `DELETE FROM container_digests`, `DELETE FROM build_builds`)
	m.cache = filepath.Join(filepath.Dir(m.cache), "later")
	if out, errs, err := m.slipway("run", name, "--", "greet"); err != nil || out != "/opt/conda/share/greeting: hello of a package\n" {
		t.Errorf("without records, the kept environment printed %q, %v: %s", out, err, errs)
	}
}

// freezesEnvironment pushes an environment to a repository of a user, mirrors it from there, and copies it into a bundle.
func (p *program) freezesEnvironment(t *testing.T, m mounter, own *testkit.Registry) {
	t.Helper()
	order := standalone("greet")
	order["freeze"], order["buildRepository"] = true, own.Host+"/team/env"
	answer := p.order(order, "Authorization", "Bearer "+p.token)
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	name := text(answer, "targetImage")
	mirrored := p.order(map[string]any{"containerImage": name, "mirror": true, "buildRepository": own.Host + "/copies"}, "Authorization", "Bearer "+p.token)
	if s := p.finished(t, mirrored); s["succeeded"] != true {
		t.Fatalf("the mirror ended as %v:\n%s", s, p.logOf(mirrored))
	}
	login := filepath.Join(filepath.Dir(m.cache), ".docker")
	auth := base64.StdEncoding.EncodeToString([]byte(testkit.User + ":" + testkit.Password))
	if err := errors.Join(os.MkdirAll(login, 0o755), os.WriteFile(filepath.Join(login, "config.json"), []byte(`{"auths": {"`+own.Host+`": {"auth": "`+auth+`"}}}`), 0o644)); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(filepath.Dir(m.cache), "bundle")
	if out, errs, err := p.slipway("bundle", "--to", folder, "--timeout", "2m", text(p.order(standalone("greet")), "targetImage")); err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	if list, _, err := p.slipway("bundle", "list", folder, "--verify"); err != nil || !strings.Contains(list, ":greet-1.0--") {
		t.Errorf("the bundle has %s, %v", list, err)
	}
	for _, name := range []string{name, text(mirrored, "targetImage")} {
		if out, errs, err := m.slipway("run", "--plain-http", own.Host, name, "--", "greet"); err != nil || out != "/opt/conda/share/greeting: hello of a package\n" {
			t.Errorf("%s printed %q, %v: %s", name, out, err, errs)
		}
	}
}

// TestEnvironmentIsMadeAgain checks that another worker makes the same environment again.
func TestEnvironmentIsMadeAgain(t *testing.T) {
	t.Parallel()
	channel := madeChannel(t, greet(t, "amd64"))
	p, _ := buildersPerRole(t, common(t, nil, rebuilding(t, channel.URL)))
	answer := p.order(standalone("greet"))
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	p.rebuild(t, text(answer, "buildId"), "SAME")
}

// TestEnvironmentOfLock looks up an environment by the digest of its lock, before and after it is made, and on another server
// with the same lock.
func TestEnvironmentOfLock(t *testing.T) {
	t.Parallel()
	channel := madeChannel(t, greet(t, "amd64"))
	eachCopyShape(t, nil, unraced(bare(channel.URL)), func(t *testing.T, p *program) {
		another := oneProcess(t, common(t, nil, bare(channel.URL)))
		lock := p.madeEnvironment(t)
		path := "/v1alpha1/environments/" + lock
		if r := another.call(http.MethodGet, path, nil); r.status != http.StatusNotFound || !strings.Contains(string(r.body), "format environment") {
			t.Errorf("on a server without it: %d %s", r.status, r.body)
		}
		if other := another.madeEnvironment(t); other != lock {
			t.Fatalf("the locks are %s and %s", lock, other)
		}
		one, two := p.call(http.MethodGet, path, nil).json(t), another.call(http.MethodGet, "/v1alpha1/environments/"+strings.TrimPrefix(lock, "sha256:"), nil).json(t)
		if one["status"] != "COMPLETED" || one["lockDigest"] != lock || one["platform"] != "linux/amd64" || one["digest"] == nil || one["packages"] == nil {
			t.Errorf("the environment is %v", one)
		}
		for _, part := range []string{"lockDigest", "index", "packages", "platform"} {
			if diff := cmp.Diff(one[part], two[part]); diff != "" {
				t.Errorf("%s of two servers differs:\n%s", part, diff)
			}
		}
		for _, bad := range []string{"x", "sha256:x", lock + "0"} {
			if r := p.call(http.MethodGet, "/v1alpha1/environments/"+bad, nil); r.status != http.StatusBadRequest {
				t.Errorf("%s: %d %s", bad, r.status, r.body)
			}
		}
	})
}

// madeEnvironment makes an environment, and returns the digest of its lock. The parts of the environment are those that its
// name has.
func (p *program) madeEnvironment(t *testing.T) (lock string) {
	t.Helper()
	answer := p.order(standalone("greet"))
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	raw := request(t, http.MethodGet, manifest(text(answer, "targetImage")), nil).body
	var doc ocispec.Manifest
	mustJSON(t, raw, &doc)
	lock = doc.Annotations["dev.slipway.conda.lock"]
	var got struct {
		BuildID, Digest string
		Index           struct{ Digest, MediaType string }
		Packages        []struct {
			Name, Digest string
			Size         int64
		}
	}
	mustJSON(t, p.call(http.MethodGet, "/v1alpha1/environments/"+lock, nil).body, &got)
	if got.BuildID != text(answer, "buildId") || got.Digest != digest.FromBytes(raw).String() || got.Index.Digest != doc.Layers[0].Digest.String() || got.Index.MediaType != doc.Layers[0].MediaType || len(got.Packages) != len(doc.Layers)-1 {
		t.Fatalf("the environment of the manifest %s is %+v", raw, got)
	}
	for i, l := range doc.Layers[1:] {
		if got.Packages[i].Digest != l.Digest.String() || got.Packages[i].Size != l.Size || got.Packages[i].Name == "" {
			t.Errorf("the package of the layer %v is %+v", l, got.Packages[i])
		}
	}
	return lock
}

// TestEnvironmentOfPrivateRepository checks that the environment in the repository of a user is only found by that user.
func TestEnvironmentOfPrivateRepository(t *testing.T) {
	t.Parallel()
	own, channel := testkit.NewRegistry(t, testkit.Basic), madeChannel(t, greet(t, "amd64"))
	more := bare(channel.URL)
	more["admin_registry_auth_file"] = dockerConfig(t, map[string]string{own.Host: testkit.User + ":" + testkit.Password})
	p := oneProcess(t, common(t, []string{own.Host}, more))
	order := standalone("greet")
	order["freeze"], order["buildRepository"] = true, own.Host+"/team/env"
	answer := p.order(order, "Authorization", "Bearer "+p.token)
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	login := "Basic " + base64.StdEncoding.EncodeToString([]byte(testkit.User+":"+testkit.Password))
	var doc ocispec.Manifest
	mustJSON(t, request(t, http.MethodGet, manifest(text(answer, "targetImage")), nil, "Authorization", login, "Accept", ocispec.MediaTypeImageManifest).body, &doc)
	path := "/v1alpha1/environments/" + doc.Annotations["dev.slipway.conda.lock"]
	if got := p.call(http.MethodGet, path, nil, "Authorization", "Bearer "+p.token).json(t); got["status"] != "COMPLETED" || got["buildId"] != answer["buildId"] {
		t.Errorf("its user has %v", got)
	}
	for who, header := range map[string][]string{"a client without a user": nil, "another user": {"Authorization", "Bearer " + p.user(t, "grace")}} {
		if r := p.call(http.MethodGet, path, nil, header...); r.status != http.StatusNotFound {
			t.Errorf("%s has %d %s", who, r.status, r.body)
		}
	}
}
