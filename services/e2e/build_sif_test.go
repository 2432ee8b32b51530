package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	native "github.com/sylabs/sif/v2/pkg/sif"

	"slipway.dev/services/internal/testkit"
)

// TestSifWithoutPrograms builds a Singularity image without any installed program.
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
		t.Fatalf("the build ended as %v\n%s", s, p.logOf(answer))
	}
	path, _ := pulledSif(t, text(answer, "targetImage"))
	image, err := native.LoadContainerFromPath(path, native.OptLoadWithFlag(os.O_RDONLY))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = image.UnloadContainer() }()
	if part, err := image.GetDescriptor(native.WithPartitionType(native.PartPrimSys)); err != nil || part.Size() == 0 {
		t.Errorf("the image has no file system: %v", err)
	}
}

// TestSifOfConda builds a Singularity image of Conda packages.
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
			t.Fatalf("the build ended as %v\n%s", s, p.logOf(answer))
		}
		path, _ := pulledSif(t, text(answer, "targetImage"))
		delete(body, "format") // the image that was converted
		plain := p.order(body, "Authorization", "Bearer "+p.token)
		dir := unpackSif(t, path)
		sameTree(t, dir, mutate.Extract(ownImage(t, text(plain, "targetImage"))))
		if _, err := os.Stat(filepath.Join(dir, "opt/conda/include/zlib.h")); err != nil || plain["cached"] != true {
			t.Errorf("the Singularity image lacks the package: %v; the OCI image is %v", err, plain)
		}
	})
}

// TestSifOfABuild builds an image whose layers delete, replace and restore files, and converts
// it to a Singularity image.
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
			t.Fatalf("the build ended as %v\n%s", s, p.logOf(answer))
		}
		path, _ := pulledSif(t, text(answer, "targetImage"))
		delete(body, "format") // the image that was converted
		plain := p.order(body, "Authorization", "Bearer "+p.token)
		if plain["cached"] != true {
			t.Errorf("the OCI image is %v", plain)
		}
		dir := unpackSif(t, path)
		sameTree(t, dir, mutate.Extract(ownImage(t, text(plain, "targetImage"))))
	})
}

// TestSifDenied requests a Singularity image for a registry that denies the push with the
// caller's own login. The image must not be built or pushed.
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
		if s["succeeded"] != false || text(s, "reasonCode") != "push" || !strings.Contains(text(record, "message"), own.Host) {
			t.Errorf("the build ended as %v, %v", s, record)
		}
		if requests := own.Requests(); slices.ContainsFunc(requests, func(r string) bool { return strings.HasPrefix(r, "PUT ") }) {
			t.Errorf("the image was pushed: %q", requests)
		}
		if log := p.logOf(answer); strings.Contains(log, "Making a Singularity image") {
			t.Errorf("the image was built although it could not be pushed: %s", log)
		}
	})
}

// definitionFile uses every section that the service supports.
const definitionFile = `Bootstrap: docker
From: BASE

%files
    hello.txt /opt/hello.txt
%environment
    export GREETING=hello
%post
    echo "made of $(cat /opt/hello.txt)" > /opt/made
    echo 'export LATER=again' >> $APPTAINER_ENVIRONMENT
%labels
    Author ada
%runscript
    echo "$GREETING $LATER $(cat /opt/made) $*"
%test
    [ "$GREETING$LATER" = helloagain ]
%help
    Greets.
`

// TestSifOfADefinition builds a Singularity definition as a Singularity image and as an OCI
// image, and runs the scripts of the former.
func TestSifOfADefinition(t *testing.T) {
	t.Parallel()
	needSif(t)
	up := testkit.NewRegistry(t, testkit.Open)
	eachBuildShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		base := up.Push(t, "base/busybox:1", busybox(t, true))
		body := recipe(strings.Split(strings.Replace(definitionFile, "BASE", base, 1), "\n")...)
		body["buildContext"], body["format"] = dataLayer(t, "hello.txt", "of the context"), "sif"
		answer := p.order(body)
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("the build ended as %v\n%s", s, p.logOf(answer))
		}
		path, _ := pulledSif(t, text(answer, "targetImage"))
		dir := unpackSif(t, path)
		for file, want := range map[string]string{
			"opt/hello.txt": "of the context", "opt/made": "made of of the context\n",
			".singularity.d/runscript.help":               "    Greets.\n",
			".singularity.d/env/90-environment.sh":        "#!/bin/sh\n    export GREETING=hello\n",
			".singularity.d/env/91-environment.sh":        "#!/bin/sh\nexport LATER=again\n",
			".singularity.d/env/10-docker2singularity.sh": "#!/bin/sh\n",
		} {
			if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !strings.HasPrefix(string(got), want) {
				t.Errorf("%s is %q, want %q: %v", file, got, want, err)
			}
		}
		if labels, err := os.ReadFile(filepath.Join(dir, ".singularity.d/labels.json")); err != nil || !strings.Contains(string(labels), `"Author": "ada"`) {
			t.Errorf("the labels are %s, %v", labels, err)
		}
		run := exec.Command("chroot", dir, "/.singularity.d/actions/run", "you")
		run.Env = []string{"PATH=/bin"}
		if out, err := run.CombinedOutput(); string(out) != "hello again made of of the context you\n" {
			t.Errorf("it printed %q, %v", out, err)
		}
		again := p.order(body)
		if again["cached"] != true || again["buildId"] != answer["buildId"] {
			t.Errorf("the same request is another build: %v", again)
		}
		delete(body, "format")
		plain := p.order(body)
		config, err := ownImage(t, text(plain, "targetImage")).ConfigFile()
		if err != nil || plain["cached"] != true || !slices.Equal(config.Config.Entrypoint, []string{"/.singularity.d/entrypoint"}) {
			t.Errorf("the OCI image is %v, %+v, %v", plain, config, err)
		}
		// An issued name can be the base of another definition; an arbitrary name of the
		// service cannot.
		_, issued, _ := strings.Cut(text(plain, "targetImage"), "://")
		if issued == "" {
			issued = text(plain, "targetImage")
		}
		next := p.order(recipe("Bootstrap: localimage", "From: "+issued, "%post", "    echo next >> /opt/made"))
		if s := p.finished(t, next); s["succeeded"] != true {
			t.Errorf("on an issued name the build ended as %v\n%s", s, p.logOf(next))
		}
		// A Singularity image can be the base too, by its issued name or from a registry.
		sif := strings.TrimPrefix(text(answer, "targetImage"), "oras://")
		for _, head := range [][]string{{"Bootstrap: localimage", "From: oras://" + sif}, {"Bootstrap: oras", "From: " + sif}} {
			next := p.order(recipe(append(head, "%post", "    cat /opt/made /.singularity.d/env/91-environment.sh > /opt/next", "%environment", "    export NEXT=1")...))
			if s := p.finished(t, next); s["succeeded"] != true {
				t.Errorf("%s: on a Singularity image the build ended as %v\n%s", head[0], s, p.logOf(next))
				continue
			}
			if got := files(t, ownImage(t, text(next, "targetImage")))["opt/next"]; !strings.HasPrefix(got, "made of of the context\n") {
				t.Errorf("%s: the build used another base file system: %q", head[0], got)
			}
		}
		if r := p.call(http.MethodPost, "/v1alpha2/container", recipe("Bootstrap: localimage", "From: "+base)); r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "that this service issued") {
			t.Errorf("localimage of another name: %d %s", r.status, r.body)
		}
	})
}
