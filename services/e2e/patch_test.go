package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"slipway.dev/services/internal/testkit"
)

// patchedChannel is a channel with versions of ssl, of which 3.0.14 fits everything, 3.1 requires another
// version of certs, and 4.0 does not fit the tools. The platform linux-aarch64 has no ssl 3.1 and no more 2.0.
func patchedChannel(t testing.TB, tools int) string {
	t.Helper()
	var all []madePackage
	add := func(subdir, name, version string, depends ...string) {
		all = append(all, madePackage{name: name, version: version, subdir: subdir, depends: depends, files: []packedFile{
			{path: "share/" + name, content: name + " " + version + " " + subdir, mode: 0o644},
		}})
	}
	for _, subdir := range []string{"linux-64", "linux-aarch64"} {
		add(subdir, "more", "1.0")
		add(subdir, "certs", "1.0")
		add(subdir, "certs", "2.0")
		add(subdir, "ssl", "3.0.13", "certs")
		add(subdir, "ssl", "3.0.14", "certs")
		add(subdir, "ssl", "4.0", "certs")
		if subdir == "linux-64" {
			add(subdir, "ssl", "3.1", "certs >=2")
			add(subdir, "more", "2.0")
		}
		for i := range tools {
			add(subdir, fmt.Sprintf("tool-%d", i), "1.0", "ssl >=3,<4")
		}
	}
	return madeChannel(t, all...).URL
}

// outdated lists the ids of a user's images with an outdated ssl.
func (p *program) outdated(t testing.TB, query, below, token string) (ids []string) {
	t.Helper()
	r := p.call(http.MethodGet, "/v1alpha1/images/outdated?package=ssl&below="+url.QueryEscape(below)+query, nil, "Authorization", "Bearer "+token)
	if r.status != http.StatusOK {
		t.Fatalf("the list is %d %s", r.status, r.body)
	}
	images, _ := r.json(t)["images"].([]any)
	for _, i := range images {
		of, _ := i.(map[string]any)
		ids = append(ids, text(of, "requestId"))
	}
	slices.Sort(ids)
	return ids
}

// patch sends a patch.
func (p *program) patch(body map[string]any, header ...string) reply {
	return p.call(http.MethodPost, "/v1alpha1/images/patch", body, header...)
}

// TestPatch finds and patches images: of one platform and of two, with additions, frozen in a
// repository, and of other users; and checks which patches are rejected.
func TestPatch(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	more := bare(patchedChannel(t, 2))
	eachCopyShape(t, []string{up.Host}, more, func(t *testing.T, p *program) {
		base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
		mine := []string{"Authorization", "Bearer " + p.token}
		order := func(tool, version string, more map[string]any) map[string]any {
			t.Helper()
			body := environment(base, tool, "more=1.0", "certs=1.0", "ssl="+version)
			for k, v := range more {
				body[k] = v
			}
			a := p.order(body, mine...)
			if s := p.finished(t, a); s["succeeded"] != true {
				t.Fatalf("the build ended as %v:\n%s", s, p.logOf(a))
			}
			return a
		}
		old := order("tool-0", "3.0.13", map[string]any{"containerConfig": map[string]any{
			"env": []string{"GREETING=hello"}, "layers": []any{dataLayer(t, "opt/added", "of the request")},
		}})
		both := order("tool-1", "3.0.13", map[string]any{"containerPlatform": "linux/amd64,linux/arm64", "nameStrategy": "imageSuffix"})
		frozen := order("tool-0", "3.0.13", map[string]any{"freeze": true, "buildRepository": up.Host + "/team/" + testkit.FreePort(t), "containerConfig": map[string]any{"env": []string{"FROZEN=1"}}})
		order("tool-1", "3.0.14", nil)
		want := []string{text(old, "requestId"), text(both, "requestId"), text(frozen, "requestId")}
		slices.Sort(want)
		if got := p.outdated(t, "", "3.0.14", p.token); !slices.Equal(got, want) {
			t.Errorf("outdated are %v, want %v", got, want)
		}
		if got := p.outdated(t, "&all=true&max=2", "3.0.9999", p.token); len(got) != 2 {
			t.Errorf("the page has %v", got)
		}
		if got := p.outdated(t, "", "3.0.13", p.token); len(got) != 0 {
			t.Errorf("outdated are %v", got)
		}
		p.rejectsPatches(t, base, old, both, frozen)

		answer := p.patch(map[string]any{"image": text(old, "targetImage"), "packages": []string{"ssl>=3.0.14"}}, mine...)
		if answer.status != http.StatusOK {
			t.Fatalf("the patch is %d %s", answer.status, answer.body)
		}
		made := answer.json(t)
		if s := p.finished(t, made); s["succeeded"] != true {
			t.Fatalf("the build ended as %v:\n%s", s, p.logOf(made))
		}
		if !strings.Contains(text(made, "containerImage"), "tool-0") || text(made, "patchedFrom") != text(old, "requestId") {
			t.Errorf("the response is %s", answer.body)
		}
		was, now := pull(t, text(old, "targetImage"), "amd64"), pull(t, text(made, "targetImage"), "amd64")
		if in := files(t, now); in["opt/conda/share/ssl"] != "ssl 3.0.14 linux-64" || in["opt/added"] != "of the request" || in["opt/conda/share/certs"] != "certs 1.0 linux-64" {
			t.Errorf("the image has %q", in)
		}
		c, err := now.ConfigFile()
		if err != nil || !slices.Contains(c.Config.Env, "GREETING=hello") {
			t.Errorf("the configuration is %v, %v", c, err)
		}
		differInOnePackage(t, was, now)

		out, errs, err := p.slipway("patch", text(both, "requestId"), "ssl>=3.0.14", "--await")
		if err != nil || !strings.Contains(errs, "ssl 3.0.13") {
			t.Fatalf("slipway patch: %v %s", err, errs)
		}
		for arch, subdir := range map[string]string{"amd64": "linux-64", "arm64": "linux-aarch64"} {
			if in := files(t, pull(t, out, arch)); in["opt/conda/share/ssl"] != "ssl 3.0.14 "+subdir {
				t.Errorf("%s has %q", arch, in["opt/conda/share/ssl"])
			}
		}
		if !strings.Contains(out, "/certs_more_ssl_tool-1:") {
			t.Errorf("the name is %s", out)
		}
		again, errs, err := p.slipway("patch", out, "certs=2.0", "--await")
		if err != nil || !strings.Contains(again, "/certs_more_ssl_tool-1:") {
			t.Errorf("the patch of a patch is %s: %v %s", again, err, errs)
		}
		record := p.call(http.MethodGet, "/v1alpha1/builds/"+text(made, "buildId"), nil)
		if record.status != http.StatusOK || strings.Contains(string(record.body), "sha256:") && strings.Contains(text(record.json(t), "condaFile"), "://") {
			t.Errorf("the record shows the lock: %s", record.body)
		}
		out, errs, err = p.slipway("patch", "--all", "ssl<3.0.14", "--await")
		if err != nil || strings.Count(out, "patched") != 1 || !strings.Contains(out, text(frozen, "requestId")) {
			t.Fatalf("slipway patch --all: %v %s\n%s", err, errs, out)
		}
		target := strings.Fields(out[strings.Index(out, text(frozen, "requestId")):])[2]
		image := ownImage(t, target)
		if c, err := image.ConfigFile(); err != nil || !slices.Contains(c.Config.Env, "FROZEN=1") || !strings.HasPrefix(target, up.Host+"/team/") || files(t, image)["opt/conda/share/ssl"] != "ssl 3.0.14 linux-64" {
			t.Errorf("the frozen image %s has %v, %v", target, c, err)
		}
		if out, errs, err = p.slipway("patch", "--all", "ssl<3.0.14"); err != nil || out != "" || !strings.Contains(errs, "No image has to be patched") {
			t.Errorf("slipway patch --all again: %v %s\n%s", err, errs, out)
		}
		if out, errs, err = p.slipway("outdated", "ssl<3.0.14"); err != nil || strings.Count(out, "yes") != 3 || !strings.Contains(out, "3.0.13") {
			t.Errorf("slipway outdated: %v %s\n%s", err, errs, out)
		}
		if out, errs, err = p.slipway("patch", text(made, "targetImage"), "ssl=3.1", "--also", "certs", "--dry-run"); err != nil || !strings.Contains(out, "certs") || !strings.Contains(out, "3.1 ") {
			t.Errorf("slipway patch --also: %v %s\n%s", err, errs, out)
		}
		if r := p.call(http.MethodDelete, "/v1alpha2/container/"+text(made, "requestId"), nil, mine...); r.status != http.StatusNoContent {
			t.Fatalf("revoking: %d %s", r.status, r.body)
		}
		if r := p.patch(map[string]any{"image": text(made, "targetImage"), "packages": []string{"certs"}}, mine...); r.status != http.StatusNotFound {
			t.Errorf("a revoked name: %d %s", r.status, r.body)
		}
		if out, errs, err = p.slipway("outdated", "ssl<3.0.14"); err != nil || strings.Count(out, "yes") != 2 { // its patch was revoked
			t.Errorf("slipway outdated: %v %s\n%s", err, errs, out)
		}
	})
}

// rejectsPatches checks which patches are rejected, and that the errors give advice.
func (p *program) rejectsPatches(t *testing.T, base string, old, both, frozen map[string]any) {
	t.Helper()
	other := []string{"Authorization", "Bearer " + p.newUser("other"+testkit.FreePort(t))}
	mine := []string{"Authorization", "Bearer " + p.token}
	id := text(old, "requestId")
	for name, c := range map[string]struct {
		body   map[string]any
		header []string
		status int
		want   string
	}{
		"another package must change":     {map[string]any{"image": id, "packages": []string{"ssl=3.1"}}, mine, 409, "certs 1.0 → 2.0"},
		"nothing would change":            {map[string]any{"image": id, "packages": []string{"ssl=3.0.13"}}, mine, 409, "patch.unchanged"},
		"no such version":                 {map[string]any{"image": id, "packages": []string{"ssl=9"}}, mine, 400, "conda.conflict"},
		"a conflict with others":          {map[string]any{"image": id, "packages": []string{"ssl=4.0"}}, mine, 400, "tool-0"},
		"a package that is not there":     {map[string]any{"image": id, "packages": []string{"bwa"}}, mine, 400, "does not have the Conda package"},
		"a name and no package":           {map[string]any{"image": id, "packages": []string{"https://example.org/x"}}, mine, 400, "not the name of a Conda package"},
		"twice":                           {map[string]any{"image": id, "packages": []string{"ssl", "ssl>3"}}, mine, 400, "listed twice"},
		"not for a platform":              {map[string]any{"image": text(both, "requestId"), "packages": []string{"ssl=3.1"}, "allowChanges": true}, mine, 400, "linux/arm64: "},
		"an older one for a platform":     {map[string]any{"image": text(both, "requestId"), "packages": []string{"more"}}, mine, 409, "more would become 2.0 for linux/amd64, but 1.0 for linux/arm64"},
		"no packages":                     {map[string]any{"image": id}, mine, 400, "packages is missing"},
		"no image":                        {map[string]any{"packages": []string{"ssl"}}, mine, 400, "image is missing"},
		"another user's":                  {map[string]any{"image": id, "packages": []string{"ssl"}}, other, 403, "made by another user"},
		"another user's, by name":         {map[string]any{"image": text(old, "targetImage"), "packages": []string{"ssl"}}, other, 403, "for that user alone"},
		"without a token":                 {map[string]any{"image": id, "packages": []string{"ssl"}}, nil, 401, "gives no access"},
		"an unknown id":                   {map[string]any{"image": strings.Repeat("0", 64), "packages": []string{"ssl"}}, mine, 404, "no such container request"},
		"an image of another registry":    {map[string]any{"image": "ubuntu:24.04", "packages": []string{"ssl"}}, mine, 400, "not an image name that this server issued"},
		"the name of a frozen image":      {map[string]any{"image": text(frozen, "targetImage"), "packages": []string{"ssl"}}, mine, 400, "send the id of its request"},
		"an image without Conda packages": {map[string]any{"image": text(p.order(map[string]any{"containerImage": base}, mine...), "requestId"), "packages": []string{"ssl"}}, mine, 400, "was not made of Conda packages"},
	} {
		if r := p.patch(c.body, c.header...); r.status != c.status || !strings.Contains(string(r.body), c.want) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	if got := p.outdated(t, "", "3.0.14", strings.TrimPrefix(other[1], "Bearer ")); len(got) != 0 {
		t.Errorf("another user's list has %v", got)
	}
	for query, status := range map[string]int{"package=ssl&below=3&all=true": 403, "package=ssl": 400, "package=ssl&below=x!": 400, "package=ssl&below=3&max=1001": 400, "package=ssl&below=3&pageToken=x": 400} {
		if r := p.call(http.MethodGet, "/v1alpha1/images/outdated?"+query, nil, other...); r.status != status {
			t.Errorf("%s: %d %s", query, r.status, r.body)
		}
	}
	if r := p.call(http.MethodGet, "/v1alpha1/images/outdated?package=ssl&below=3", nil); r.status != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s", r.status, r.body)
	}
}

// differInOnePackage checks that two images differ in the layer of one package and in that of the
// environment.
func differInOnePackage(t *testing.T, was, now v1.Image) {
	t.Helper()
	digests := func(i v1.Image) (out []string) {
		m, err := i.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range m.Layers {
			out = append(out, l.Digest.String())
		}
		return out
	}
	old, fresh := digests(was), digests(now)
	different := slices.DeleteFunc(slices.Clone(fresh), func(d string) bool { return slices.Contains(old, d) })
	if len(old) != len(fresh) || len(different) > 2 || len(different) == 0 {
		t.Errorf("the layers %v became %v", old, fresh)
	}
}

// TestPatchUploads patches ten images, and counts what is uploaded: the layer of the new package
// once, and for each image its own layer and documents.
func TestPatchUploads(t *testing.T) {
	t.Parallel()
	const images = 10
	up, own := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Open)
	s := bare(patchedChannel(t, images))
	s["build_repository"] = own.Host + "/slipway/builds"
	p := oneProcess(t, common(t, []string{up.Host, own.Host}, s))
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	mine := []string{"Authorization", "Bearer " + p.token}
	var orders []map[string]any
	for i := range images {
		orders = append(orders, p.order(environment(base, fmt.Sprintf("tool-%d", i), "ssl=3.0.13"), mine...))
	}
	for _, o := range orders {
		if s := p.finished(t, o); s["succeeded"] != true {
			t.Fatalf("the build ended as %v:\n%s", s, p.logOf(o))
		}
	}
	var mu sync.Mutex
	uploads := map[string]int{}
	own.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if d := r.URL.Query().Get("digest"); d != "" && (r.Method == http.MethodPut || r.Method == http.MethodPost) && strings.Contains(r.URL.Path, "/blobs/uploads/") {
			mu.Lock()
			defer mu.Unlock()
			uploads[d]++
		}
		return false
	})
	out, errs, err := p.slipway("patch", "--all", "ssl<3.0.14", "--await")
	if err != nil || strings.Count(out, " patched ") != images {
		t.Fatalf("slipway patch --all: %v %s\n%s", err, errs, out)
	}
	layers := map[string]int{}
	for _, line := range strings.Split(out, "\n")[1:] {
		m, err := pull(t, strings.Fields(line)[2], "amd64").Manifest()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range m.Layers {
			layers[l.Digest.String()]++
		}
	}
	mu.Lock()
	defer mu.Unlock()
	shared, single := 0, 0
	for d, n := range layers { // other blobs are configurations and signatures
		switch {
		case uploads[d] > 1:
			t.Errorf("%s was uploaded %d times", d, uploads[d])
		case uploads[d] == 1 && n > 1: // a layer of several images
			shared++
		case uploads[d] == 1:
			single++
		}
	}
	if shared != 1 || single > images { // the layer of the package, and of each image that of the environment
		t.Errorf("%d layers of several images and %d of one were uploaded: %v", shared, single, uploads)
	}
}

// TestPatchEvent checks that a webhook gets the event of a patch.
func TestPatchEvent(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	s := bare(patchedChannel(t, 1))
	s["egress_allow"], s["master_key_file"] = "127.0.0.0/8", newMasterKey(t)
	p := oneProcess(t, common(t, []string{up.Host}, s))
	base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
	mine := []string{"Authorization", "Bearer " + p.token}
	old := p.order(environment(base, "tool-0", "ssl=3.0.13"), mine...)
	if s := p.finished(t, old); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(old))
	}
	r := testkit.NewHookReceiver(t)
	hook := p.platformCall(http.MethodPost, "/webhooks", p.token, map[string]any{"url": r.URL, "events": []string{"container.patched"}})
	r.Verify(text(hook, "secret"))
	body := map[string]any{"image": text(old, "requestId"), "packages": []string{"ssl"}, "dryRun": true}
	if answer := p.patch(body, mine...); answer.status != http.StatusOK || strings.Contains(string(answer.body), "requestId") {
		t.Fatalf("the dry run is %d %s", answer.status, answer.body)
	}
	delete(body, "dryRun")
	answer := p.patch(body, mine...)
	if answer.status != http.StatusOK {
		t.Fatalf("the patch is %d %s", answer.status, answer.body)
	}
	awaitMessages(t, r, "container.patched "+text(answer.json(t), "requestId"))
	var hooked struct {
		Webhook struct{ ID string }
	}
	raw, err := json.Marshal(hook)
	if err != nil || json.Unmarshal(raw, &hooked) != nil {
		t.Fatal(err)
	}
	list, errs, err := p.slipway("webhooks", "deliveries", hooked.Webhook.ID, "-o", "name")
	if err != nil {
		t.Fatal(err, errs)
	}
	if out, errs, err := p.slipway("webhooks", "message", hooked.Webhook.ID, strings.Fields(list)[0]); err != nil || !strings.Contains(out, `"patchedFrom":"`+text(old, "requestId")) || !strings.Contains(out, "ssl 3.0.13 → 3.1") {
		t.Errorf("the message is %s %s %v", out, errs, err)
	}
}

// TestPatchWheels exchanges a package of an image with wheels, which remain, and checks that a
// package that depends on Python is not exchanged.
func TestPatchWheels(t *testing.T) {
	t.Parallel()
	up, site := testkit.NewRegistry(t, testkit.Open), newWheelSite(t)
	base := up.Push(t, "base/one:1", testkit.Image(t, "amd64", true))
	with := bare(site.channel)
	with["conda_pypi_hosts"] = site.host
	p := oneProcess(t, common(t, []string{up.Host}, with))
	address := site.channel + "/lab/linux-64/mended-1.0-h0_0.conda"
	lock := site.pixi("      linux-64:\n", "      linux-64:\n      - conda: "+address+"\n", "\npackages:\n", "\npackages:\n- conda: "+address+"\n  sha256: "+site.sumOfPackage("mended-1.0-h0_0.conda")+"\n")
	image, errs, err := p.slipway("conda", "--await", "--base-image", base, "--platform", "linux/amd64", "--file", lock)
	if err != nil {
		t.Fatal(errs, err)
	}
	if out, errs, err := p.slipway("outdated", "demo-pkg", "2"); err != nil || !strings.Contains(out, "1.5 (wheel)") {
		t.Errorf("slipway outdated: %v %s\n%s", err, errs, out)
	}
	patched, errs, err := p.slipway("patch", image, "mended=1.1", "--await")
	if err != nil {
		t.Fatal(errs, err)
	}
	content := files(t, pull(t, patched, "amd64"))
	if content["opt/conda/share/mended"] != "1.1" {
		t.Errorf("the image has %q", content["opt/conda/share/mended"])
	}
	judgeWheels(t, content)
	for packages, want := range map[string]string{"mended=2.0": "wheels of PyPI", "demo-pkg": "does not have the Conda package"} {
		if out, errs, err := p.slipway("patch", image, packages); err == nil || !strings.Contains(errs, want) {
			t.Errorf("%s: %v %s\n%s", packages, err, errs, out)
		}
	}
}
