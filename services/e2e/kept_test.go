package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// kept returns a request for packages whose image is kept.
func kept(base string, entries ...string) map[string]any {
	order := environment(base, entries...)
	order["keep"] = true
	return order
}

// keeping returns the settings of a server that keeps images of a channel.
func keeping(channel, who string) settings {
	s := bare(channel)
	s["conda_channels"], s["keep"] = "lab="+channel+"/lab", who
	return s
}

// change executes statements in the database of the server.
func (p *program) change(t *testing.T, statements ...string) {
	t.Helper()
	url := "sqlite:" + filepath.Join(p.procs[0].env["data_dir"], "slipway.db")
	if p.postgres != nil {
		url = p.postgres.URL
	}
	db, err := sqldb.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// catalogImage is a part of an image in the catalog.
type catalogImage struct {
	ID, Name, Tag, TargetImage, Digest, DeletionTime, DeletionReason, LastPull string
	Size, Pulls                                                                float64
	Packages                                                                   []struct {
		Name, Version, License string
		Requested              bool
	}
	PackageCount int
	Specs        []string
}

func (p *program) catalog(t testing.TB, query string) (out struct {
	Images        []catalogImage
	NextPageToken string
}) {
	t.Helper()
	r := p.call(http.MethodGet, "/v1alpha1/catalog?"+query, nil)
	if r.status != http.StatusOK {
		t.Fatalf("%s: %d %s", query, r.status, r.body)
	}
	mustJSON(t, r.body, &out)
	return out
}

func (p *program) keptImage(t testing.TB, id string) (out catalogImage) {
	t.Helper()
	r := p.call(http.MethodGet, "/v1alpha1/catalog/"+id, nil)
	if r.status != http.StatusOK {
		t.Fatalf("%s: %d %s", id, r.status, r.body)
	}
	mustJSON(t, r.body, &out)
	return out
}

// knownDigest returns when the catalog has the digest of a kept image. It records it shortly after the end of the build.
func (p *program) knownDigest(t testing.TB, id string) {
	t.Helper()
	testkit.Until(t, "the digest of a kept image", func() error {
		if got := p.keptImage(t, id); got.Digest == "" {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
}

// TestKeptImages keeps images. Their names must be those of their packages, be in the catalog, and work
// while requests, builds, images and packages are lost.
func TestKeptImages(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	channel := newArtifacts(t)
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	more := keeping(channel.URL, "all")
	more["operator_accounts_file"], more["limit_searches_anonymous"] = operatorsFile(t), "0"
	s := common(t, []string{up.Host}, more)
	var images *testkit.Registry
	inEach(t, s, func(t testing.TB, s settings) *program {
		images = testkit.NewRegistry(t, testkit.Basic)
		return processPerRole(t, pushingTo(t, images, s))
	}, func(t *testing.T, p *program) {
		order := kept(base, "libcurl", "lz4-c")
		order["containerPlatform"] = "linux/amd64,linux/arm64"
		answer := p.order(order)
		target, id := text(answer, "targetImage"), text(answer, "keptId")
		if want := regexp.MustCompile(`^` + regexp.QuoteMeta(p.host) + `/c/[0-9a-f]{16}/libcurl_lz4-c:8\.4\.0_1\.9\.4$`); !want.MatchString(target) || !strings.Contains(target, id) || answer["containerToken"] != nil || answer["expiration"] != nil {
			t.Fatalf("the answer is %v", answer)
		}
		if status := p.call(http.MethodGet, "/v1alpha1/catalog/"+id, nil); status.status != http.StatusOK {
			t.Errorf("while it is built: %d %s", status.status, status.body)
		}
		if s := p.finished(t, answer); s["succeeded"] != true || s["targetImage"] != target {
			t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
		}
		digest := p.manifestDigest(t, answer)
		if got := installed(t, files(t, pull(t, target, "amd64"))); !slices.Contains(got, "libcurl-8.4.0-h4e8248e_0") {
			t.Errorf("the image has %q", got)
		}
		if again := p.order(order); text(again, "targetImage") != target || again["succeeded"] != true {
			t.Errorf("the same request got %v", again)
		}
		p.inCatalog(t, id, target, digest)
		added := p.order(map[string]any{"containerImage": target, "containerConfig": map[string]any{"env": []string{"ADDED=yes"}}})
		if cf, err := pull(t, text(added, "targetImage"), "amd64").ConfigFile(); err != nil || !slices.Contains(cf.Config.Env, "ADDED=yes") || !strings.Contains(text(added, "targetImage"), "/wt/") {
			t.Errorf("with additions: %v, %v", added, err)
		}
		p.keepsNothingElse(t, base)

		lost := map[string]func(){
			"requests": func() { p.change(t, `DELETE FROM container_requests`, `DELETE FROM container_digests`) },
			"builds": func() {
				p.change(t, `DELETE FROM build_builds`)
			},
		}
		for _, what := range slices.Sorted(maps.Keys(lost)) {
			lost[what]()
			if got := p.manifestDigest(t, answer); got != digest {
				t.Errorf("without %s the image is %s instead of %s", what, got, digest)
			}
		}
		p.deletesKept(t, id, answer)
	})
}

// inCatalog checks what the catalog shows of an image.
func (p *program) inCatalog(t *testing.T, id, target, digest string) {
	t.Helper()
	p.knownDigest(t, id)
	testkit.Until(t, "the pulls to be counted", func() error {
		if got := p.keptImage(t, id); got.Pulls < 1 || got.LastPull == "" {
			return fmt.Errorf("%+v", got)
		}
		return nil
	})
	got := p.keptImage(t, id)
	if got.TargetImage != target || got.Digest != digest || got.Size < 10_000 || got.PackageCount < 4 || len(got.Packages) != got.PackageCount ||
		!got.Packages[0].Requested || got.Packages[0].Name != "libcurl" || !slices.Equal(got.Specs, []string{"libcurl", "lz4-c"}) {
		t.Errorf("the image is %+v", got)
	}
	for query, want := range map[string]int{
		"": 1, "q=libc": 1, "q=LIB+lz4": 1, "q=c-ares": 0, "package=c-ares": 1, "package=libcurl&version=8.4": 1, "package=libcurl&version=8": 1,
		"package=libcurl&version=8.40": 0, "package=libcurl&version=4.0": 0, "license=nothing": 0, "sort=pulls&max=1": 1, "sort=name": 1, "q=%25": 0, "q=_": 0, "sort=name&pageToken=" + id: 0,
	} {
		list := p.catalog(t, query)
		if len(list.Images) != want || want == 1 && (list.Images[0].ID != id || list.Images[0].Digest != digest) {
			t.Errorf("%q found %+v", query, list)
		}
	}
	for query, message := range map[string]string{"sort=size": "sort must be", "max=101": "max", "version=1": "version needs package", "pageToken=x": "pageToken", "q=" + strings.Repeat("a+", 99): "words"} {
		if r := p.call(http.MethodGet, "/v1alpha1/catalog?"+query, nil); r.status != http.StatusBadRequest || !strings.Contains(string(r.body), message) {
			t.Errorf("%q got %d %s", query, r.status, r.body)
		}
	}
	lock := p.call(http.MethodGet, "/v1alpha1/catalog/"+id+"/lock?format=conda-lock", nil)
	if lock.status != http.StatusOK || !strings.Contains(string(lock.body), "libcurl-8.4.0-h4e8248e_0.conda") {
		t.Errorf("the lock is %d %s", lock.status, lock.body)
	}
	sum := sha256.Sum256(lock.body)
	for format, want := range map[string]string{"bibtex": "@misc{slipway-" + id, "cff": "cff-version: 1.2.0", "ro-crate": hex.EncodeToString(sum[:])} {
		r := p.call(http.MethodGet, "/v1alpha1/catalog/"+id+"/citation?format="+format, nil)
		if r.status != http.StatusOK || !strings.Contains(string(r.body), want) || !strings.Contains(string(r.body), id) || !strings.Contains(string(r.body), strings.TrimPrefix(digest, "sha256:")) {
			t.Errorf("the citation as %s is %d %s", format, r.status, r.body)
		}
		if format == "ro-crate" && !json.Valid(r.body) {
			t.Errorf("the crate is %s", r.body)
		}
	}
}

// keepsNothingElse checks which requests cannot be kept.
func (p *program) keepsNothingElse(t *testing.T, base string) {
	t.Helper()
	for name, change := range map[string]func(map[string]any){
		"containerConfig": func(r map[string]any) { r["containerConfig"] = map[string]any{"env": []string{"SECRET=x"}} },
		"buildRepository": func(r map[string]any) { r["buildRepository"] = "registry.example.org/x" },
		"nameStrategy":    func(r map[string]any) { r["nameStrategy"] = "none" },
		"requires build":  func(r map[string]any) { r["buildTemplate"] = "conda/micromamba:v1" },
		"keep is for":     func(r map[string]any) { r["containerImage"] = base; delete(r, "packages") },
		"neither well known": func(r map[string]any) {
			r["packages"].(map[string]any)["channels"] = []string{p.procs[0].env["conda_channel_alias"] + "/other"}
		},
	} {
		order := kept(base, "c-ares")
		change(order)
		r := p.call(http.MethodPost, "/v1alpha2/container", order)
		if r.status/100 == 2 || !strings.Contains(string(r.body), name) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}

// deletesKept deletes a name as an operator.
func (p *program) deletesKept(t *testing.T, id string, answer map[string]any) {
	t.Helper()
	if r := p.call(http.MethodDelete, "/v1alpha1/catalog/"+id, nil); r.status != http.StatusUnauthorized {
		t.Errorf("without an account: %d %s", r.status, r.body)
	}
	p.deleteKept(t, id, answer)
	if got := p.keptImage(t, id); got.DeletionTime == "" || got.DeletionReason != "withdrawn by its authors" {
		t.Errorf("the image is %+v", got)
	}
	if list := p.catalog(t, ""); len(list.Images) != 0 {
		t.Errorf("the catalog has %+v", list)
	}
	if r := p.call(http.MethodGet, "/v1alpha1/catalog/"+id+"/lock?format=pixi", nil); r.status != http.StatusOK {
		t.Errorf("the lock: %d %s", r.status, r.body)
	}
}

// deleteKept deletes a name as an operator, and waits until it cannot be pulled.
func (p *program) deleteKept(t *testing.T, id string, answer map[string]any) {
	t.Helper()
	path := "/v1alpha1/catalog/" + id + "?reason=withdrawn+by+its+authors"
	req, err := http.NewRequest(http.MethodDelete, p.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("ops", "an operator's password")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("deleting: %s", resp.Status)
	}
	testkit.Until(t, "the registries to forget the name", func() error {
		if r := request(t, http.MethodGet, manifest(text(answer, "targetImage")), nil); r.status != http.StatusNotFound || !strings.Contains(string(r.body), "withdrawn by its authors") {
			return fmt.Errorf("a pull gets %d %s", r.status, r.body)
		}
		return nil
	})
}

// TestKeptImageIsMadeAgain deletes a kept image from its registry: while its channel has lost a package, then with the
// whole registry, and last with all layers while the channel has lost all packages. The image must be the same each time.
func TestKeptImageIsMadeAgain(t *testing.T) {
	t.Parallel()
	up, images, channel := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Basic), newArtifacts(t)
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	more := keeping(channel.URL, "users")
	more["keep_packages"] = "true"
	p := oneProcess(t, pushingTo(t, images, common(t, []string{up.Host}, more)))
	order := kept(base, "libcurl")
	order["containerPlatform"] = "linux/amd64,linux/arm64"
	if r := p.call(http.MethodPost, "/v1alpha2/container", order); r.status != http.StatusUnauthorized {
		t.Errorf("without a user: %d %s", r.status, r.body)
	}
	answer := p.order(order, "Authorization", "Bearer "+p.token)
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	digest := p.manifestDigest(t, answer)
	const curl = "libcurl-8.4.0-h4e8248e_0.conda"
	for _, loss := range []struct {
		what string
		lose func()
	}{
		{"the manifest, the record, and a package at the channel", func() {
			channel.answer(curl, http.NotFound)
			deleteFrom(t, images, "manifests/"+digest)
			p.change(t, `UPDATE build_builds SET id = 'deleted-' || id`) // a record that is deleted so soon after its build blocks another one for a minute
		}},
		{"the whole registry", func() {
			channel.answer(curl, nil)
			images.Empty(t)
		}},
		{"all layers, and all packages at the channel", func() {
			for _, file := range []string{curl, "libzlib-1.2.13-h31becfc_5.conda", "c-ares-1.21.0-h31becfc_0.conda"} {
				channel.answer(file, http.NotFound)
			}
			for _, part := range partsOf(t, answer) {
				deleteFrom(t, images, part)
			}
			deleteFrom(t, images, "manifests/"+digest)
			if err := p.procs[0].stop(); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(p.procs[0].env["data_dir"], "packages")); err != nil {
				t.Fatal(err)
			}
			p.procs[0].start()
		}},
	} {
		loss.lose()
		if got := p.manifestDigest(t, answer); got != digest {
			t.Errorf("after the loss of %s, the image is %s instead of %s", loss.what, got, digest)
		}
		pull(t, text(answer, "targetImage"), "amd64")
		pull(t, text(answer, "targetImage"), "amd64")
	}
}

// partsOf returns the manifests and the layers of all platforms of an image, each once.
func partsOf(t *testing.T, answer map[string]any) []string {
	t.Helper()
	var index struct{ Manifests []struct{ Digest string } }
	mustJSON(t, request(t, http.MethodGet, manifest(text(answer, "targetImage")), nil).body, &index)
	parts := map[string]bool{}
	for _, at := range index.Manifests {
		parts["manifests/"+at.Digest] = true
		var m struct{ Layers []struct{ Digest string } }
		mustJSON(t, request(t, http.MethodGet, v2(text(answer, "targetImage"))+"/manifests/"+at.Digest, nil).body, &m)
		for _, l := range m.Layers {
			parts["blobs/"+l.Digest] = true
		}
	}
	return slices.Sorted(maps.Keys(parts))
}

// deleteFrom deletes a manifest or a blob of kept images from a registry.
func deleteFrom(t *testing.T, images *testkit.Registry, what string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodDelete, "http://"+images.Host+"/v2/slipway/builds/kept/"+what, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(testkit.User, testkit.Password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusAccepted {
		t.Fatalf("deleting %s: %s, %v", what, resp.Status, err)
	}
}

// TestKeptAfterRestore restores a server from a backup whose images were lost. A kept image must be made
// again, with the same digest, when it is pulled.
func TestKeptAfterRestore(t *testing.T) {
	t.Parallel()
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64"))
	p := oneProcess(t, common(t, []string{up.Host}, keeping(channel.URL, "all")))
	answer := p.order(kept(base, "libcurl"))
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	digest := p.manifestDigest(t, answer)
	dir := filepath.Join(t.TempDir(), "backup")
	env := p.procs[0].env
	if out, err := env.run("backup", dir); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := p.procs[0].stop(); err != nil {
		t.Fatal(err)
	}
	elsewhere := maps.Clone(env)
	elsewhere["data_dir"] = filepath.Join(t.TempDir(), "data")
	if out, err := elsewhere.run("restore", dir); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(elsewhere["data_dir"], "images")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(elsewhere["data_dir"], "images")); err != nil {
		t.Fatal(err)
	}
	p.procs[0].env = elsewhere
	p.procs[0].start()
	if got := p.manifestDigest(t, answer); got != digest {
		t.Errorf("the image is %s instead of %s", got, digest)
	}
	if !testkit.Real() {
		return
	}
	needClients(t)
	docker := startDocker(t) // it has no images, like another machine
	if out := output(t, docker.home, "docker", "-H", docker.socket(), "pull", text(answer, "targetImage")); !strings.Contains(out, digest) {
		t.Errorf("docker pulled %s", out)
	}
}
