package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestEnvironmentWithoutImage runs programs of an environment that has no image, by its packages and by its name, and checks that
// everything that shows results of builds works with it.
func TestEnvironmentWithoutImage(t *testing.T) {
	needClients(t)
	t.Parallel()
	channel := madeChannel(t, greet(t, "amd64"), debianPython(t), helloPython())
	eachCopyShape(t, nil, unraced(bare(channel.URL)), func(t *testing.T, p *program) {
		order := environment("", "greet", "hello")
		order["packages"].(map[string]any)["condaOpts"] = map[string]any{"basePackages": ""}
		order["format"] = "environment"
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
