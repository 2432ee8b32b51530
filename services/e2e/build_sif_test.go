package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	native "github.com/sylabs/sif/v2/pkg/sif"

	"slipway.dev/services/internal/testkit"
)

// TestSifWithoutPrograms makes a Singularity image where nothing is installed.
func TestSifWithoutPrograms(t *testing.T) {
	t.Parallel()
	own := testkit.NewRegistry(t, testkit.Basic)
	p := oneProcess(t, common(t, []string{own.Host}, settings{
		"PATH": t.TempDir(), "admin_registry_auth_file": dockerConfig(t, map[string]string{own.Host: testkit.User + ":" + testkit.Password}),
	}))
	body := frozen(own.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true)), own.Host+"/team/frozen", nil)
	body["format"] = "sif"
	answer := p.order(body, "Authorization", "Bearer "+p.token)
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("it ends as %v\n%s", s, p.logOf(answer))
	}
	path, _ := pulledSif(t, text(answer, "targetImage"))
	image, err := native.LoadContainerFromPath(path, native.OptLoadWithFlag(os.O_RDONLY))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = image.UnloadContainer() }()
	if part, err := image.GetDescriptor(native.WithPartitionType(native.PartPrimSys)); err != nil || part.Size() == 0 {
		t.Errorf("it has no file system: %v", err)
	}
}

// TestSifOfConda makes a Singularity image of Conda packages.
func TestSifOfConda(t *testing.T) {
	t.Parallel()
	needSif(t)
	up, own := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Basic)
	more := settings{"admin_registry_auth_file": dockerConfig(t, map[string]string{own.Host: testkit.User + ":" + testkit.Password})}
	eachBuildShape(t, []string{up.Host, own.Host}, more, func(t *testing.T, p *program) {
		channel, mamba, base := condaWorld(t, up)
		body := map[string]any{
			"packages": map[string]any{
				"type": "CONDA", "entries": []string{"zlib=1.2.11"}, "channels": []string{channel},
				"condaOpts": map[string]any{"mambaImage": mamba, "baseImage": base, "basePackages": ""},
			},
			"freeze": true, "format": "sif", "buildRepository": own.Host + "/team/conda" + testkit.FreePort(t),
		}
		answer := p.order(body, "Authorization", "Bearer "+p.token)
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("it ends as %v\n%s", s, p.logOf(answer))
		}
		path, _ := pulledSif(t, text(answer, "targetImage"))
		delete(body, "format") // the image that it was made of
		plain := p.order(body, "Authorization", "Bearer "+p.token)
		dir := unpackSif(t, path)
		sameTree(t, dir, mutate.Extract(ownImage(t, text(plain, "targetImage"))))
		if _, err := os.Stat(filepath.Join(dir, "opt/conda/include/zlib.h")); err != nil || plain["cached"] != true {
			t.Errorf("the package is not in it: %v; the image itself is %v", err, plain)
		}
	})
}

// TestSifOfABuild builds an image whose layers delete, replace and add again, and
// makes a Singularity image of it.
func TestSifOfABuild(t *testing.T) {
	t.Parallel()
	needSif(t)
	up, own := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Basic)
	more := settings{"admin_registry_auth_file": dockerConfig(t, map[string]string{own.Host: testkit.User + ":" + testkit.Password})}
	eachBuildShape(t, []string{up.Host, own.Host}, more, func(t *testing.T, p *program) {
		base := up.Push(t, "base/busybox:1", busybox(t, true))
		body := recipe("FROM "+base,
			"RUN for d in a b c; do /bin/busybox mkdir -p /$d/in; echo one > /$d/in/f; done",
			"RUN /bin/busybox rm -r /a; /bin/busybox rm -r /b; /bin/busybox ln -s /c /b; /bin/busybox rm -r /c/in; /bin/busybox mkdir /c/in",
			"RUN /bin/busybox mkdir -m 750 /a; echo two > /a/again; /bin/busybox chown 12:34 /a/again; echo three > /c/in/g")
		body["freeze"], body["buildRepository"], body["format"] = true, own.Host+"/team/tools", "sif"
		answer := p.order(body, "Authorization", "Bearer "+p.token)
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("it ends as %v\n%s", s, p.logOf(answer))
		}
		path, _ := pulledSif(t, text(answer, "targetImage"))
		delete(body, "format") // the image that it was made of
		plain := p.order(body, "Authorization", "Bearer "+p.token)
		if plain["cached"] != true {
			t.Errorf("the image itself is %v", plain)
		}
		dir := unpackSif(t, path)
		sameTree(t, dir, mutate.Extract(ownImage(t, text(plain, "targetImage"))))
	})
}

// TestSifDenied is refused by the registry, with the caller's own login: nothing was
// made, nothing is there.
func TestSifDenied(t *testing.T) {
	t.Parallel()
	needSif(t)
	up, own := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Basic)
	more := settings{"admin_registry_auth_file": dockerConfig(t, map[string]string{own.Host: testkit.User + ":wrong"})}
	eachCopyShape(t, []string{up.Host, own.Host}, more, func(t *testing.T, p *program) {
		own.Requests()
		body := frozen(up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true)), own.Host+"/team/sif", nil)
		body["format"] = "sif"
		answer := p.order(body, "Authorization", "Bearer "+p.token)
		s := p.finished(t, answer)
		record := p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId"), nil).json(t)
		if s["succeeded"] != false || text(s, "reason") != "push" || !strings.Contains(text(record, "message"), own.Host) {
			t.Errorf("it ends as %v, %v", s, record)
		}
		if requests := own.Requests(); slices.ContainsFunc(requests, func(r string) bool { return strings.HasPrefix(r, "PUT ") }) {
			t.Errorf("it was pushed: %q", requests)
		}
		if log := p.logOf(answer); strings.Contains(log, "Making a Singularity image") {
			t.Errorf("it was made for nothing: %s", log)
		}
	})
}
