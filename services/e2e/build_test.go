package e2e

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// leaveToServers skips slow tests without real servers, so that `make test` is fast.
func leaveToServers(t testing.TB) {
	t.Helper()
	if !testkit.Real() {
		t.Skip("takes long: SLIPWAY_TEST_REAL is not set")
	}
}

// needBuilds skips the test if builds cannot run, and links the programs of `make builder` to
// the test's programs.
func needBuilds(t testing.TB) {
	t.Helper()
	if !testkit.Real() {
		t.Skip("needs real builds: SLIPWAY_TEST_REAL is not set")
	}
	if os.Getuid() != 0 {
		t.Fatal("builds need root")
	}
	if err := linkDaemon(); err != nil {
		t.Fatal(err)
	}
}

var linkDaemon = sync.OnceValue(func() error {
	made, err := filepath.Abs("../../bin")
	if err != nil {
		return err
	}
	for _, name := range []string{"buildkitd", "runc"} {
		switch _, err := os.Stat(filepath.Join(made, name)); {
		case err == nil:
			if err := os.Symlink(filepath.Join(made, name), filepath.Join(binaries, name)); err != nil {
				return err
			}
		case name == "buildkitd":
			return fmt.Errorf("run `make builder` first: %w", err)
		}
	}
	return nil // without bin/runc, the runc of the machine is used
})

// eachBuildShape is eachShape with a place to push to: the embedded store, or a registry with a
// login.
func eachBuildShape(t *testing.T, plain []string, more settings, scenario func(t *testing.T, p *program)) {
	t.Helper()
	needBuilds(t)
	eachCopyShape(t, plain, more, scenario)
}

// buildersPerRole is processPerRole with two builders, and the registry they push to.
func buildersPerRole(t testing.TB, s settings) (*program, *testkit.Registry) {
	t.Helper()
	images := testkit.NewRegistry(t, testkit.Basic)
	return processPerRole(t, pushingTo(t, images, s)), images
}

// pushingTo returns the settings of workers that push to a registry.
func pushingTo(t testing.TB, images *testkit.Registry, s settings) settings {
	t.Helper()
	out := maps.Clone(s)
	out["insecure_registries"] = strings.TrimPrefix(s["insecure_registries"]+","+images.Host, ",")
	out["build_repository"] = images.Host + "/slipway/builds"
	out["registry_auth_file"] = dockerConfig(t, map[string]string{images.Host: testkit.User + ":" + testkit.Password})
	return out
}

// recipe returns a request with a Dockerfile.
func recipe(lines ...string) map[string]any {
	return map[string]any{"containerFile": base64.StdEncoding.EncodeToString([]byte(strings.Join(lines, "\n") + "\n"))}
}

// order submits a request, which must be accepted.
func (p *program) order(body map[string]any, header ...string) map[string]any {
	p.t.Helper()
	r := p.call(http.MethodPost, "/v1alpha2/container", body, header...)
	if r.status != http.StatusOK {
		p.t.Fatalf("submitting: %d %s", r.status, r.body)
	}
	return r.json(p.t)
}

// stored returns the location of an image in the embedded store. Responses contain its public
// name instead.
func (p *program) stored(image string) string {
	store := p.procs[0].env["store_addr"]
	if store == "" {
		return image
	}
	return strings.Replace(image, p.host+"/", store+"/", 1)
}

// shown returns text as in logs and responses, which contain the public host instead of the
// embedded store.
func (p *program) shown(text, store string) string { return strings.ReplaceAll(text, store, p.host) }

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

// finished waits for the end of a request's build, and returns the status.
func (p *program) finished(t testing.TB, answer map[string]any) map[string]any {
	t.Helper()
	var last map[string]any
	err := within(5*time.Minute, func() error {
		last = p.call(http.MethodGet, "/v1alpha2/container/"+text(answer, "requestId")+"/status", nil).json(t)
		if text(last, "status") != "DONE" {
			return fmt.Errorf("the status is %v", last)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return last
}

var buildID = regexp.MustCompile(`^[0-9a-f]{16}_[1-9][0-9]*$`)

func TestBuildDockerfile(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	eachBuildShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		base := up.Push(t, "base/busybox:1", busybox(t, true))
		body := recipe("FROM "+base, "RUN echo printed by the step && echo built > /hello.txt", "ENV BAKED=yes")
		body["containerConfig"] = map[string]any{"env": []string{"GREETING=hello"}}
		first := p.order(body)
		if !buildID.MatchString(text(first, "buildId")) || first["cached"] != false || first["succeeded"] != nil {
			t.Errorf("a new build got %v", first)
		}
		img := pull(t, text(first, "targetImage"), "amd64") // waits for the build
		cf, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if env := strings.Join(cf.Config.Env, " "); !strings.Contains(env, "BAKED=yes") || !strings.Contains(env, "GREETING=hello") {
			t.Errorf("the variables are %s", env)
		}
		if got := files(t, img)["hello.txt"]; got != "built\n" {
			t.Errorf("hello.txt contains %q", got)
		}
		status := p.finished(t, first)
		if status["succeeded"] != true || text(status, "buildId") != text(first, "buildId") || text(status, "duration") == "" {
			t.Errorf("the status is %v", status)
		}
		path := "/v1alpha1/builds/" + text(first, "buildId")
		if b := p.call(http.MethodGet, path+"/status", nil).json(t); b["status"] != "COMPLETED" || b["succeeded"] != true || b["duration"] == nil {
			t.Errorf("the build's status is %v", b)
		}
		if b := p.call(http.MethodGet, path, nil).json(t); !strings.Contains(text(b, "containerFile"), "printed by the step") {
			t.Errorf("the build's record is %v", b)
		}
		if log := p.call(http.MethodGet, path+"/logs", nil); !strings.Contains(string(log.body), "printed by the step") || !strings.HasPrefix(log.header.Get("Content-Type"), "text/plain") {
			t.Errorf("the log is %s (%s)", log.body, log.header)
		}
		again := p.order(body)
		if again["cached"] != true || again["succeeded"] != true || again["buildId"] != first["buildId"] {
			t.Errorf("the repeated request returned %v", again)
		}
		pull(t, text(again, "targetImage"), "amd64")
	})
}

func TestBuildThatFails(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	eachBuildShape(t, []string{up.Host}, settings{"build_memory": "256MiB", "build_timeout_anonymous": "20s"}, func(t *testing.T, p *program) {
		base := up.Push(t, "base/busybox:1", busybox(t, true))
		for _, tc := range []struct{ name, step, reason, says string }{
			{"a step fails", "RUN echo going wrong && exit 3", "build", "going wrong"},
			{"a step exceeds the build timeout", "RUN busybox sleep 600", "timeout", ""},
			{"a step exceeds its memory", `RUN busybox dd if=/dev/zero of=/dev/shm/x bs=1M count=60; busybox awk 'BEGIN{s="x"; while(1) s = s s}'`, "memory", ""},
		} {
			t.Run(tc.name, func(t *testing.T) {
				answer := p.order(recipe("FROM "+base, tc.step))
				status := p.finished(t, answer)
				if status["succeeded"] != false || !strings.Contains(text(status, "reasonCode"), tc.reason) {
					t.Errorf("the status is %v", status)
				}
				id := text(answer, "buildId")
				if !strings.Contains(text(status, "detailsUri"), id) {
					t.Errorf("detailsUri is %v", status["detailsUri"])
				}
				r := request(t, http.MethodGet, manifest(text(answer, "targetImage")), nil)
				if r.status != http.StatusNotFound || !strings.Contains(string(r.body), id) || !strings.Contains(string(r.body), tc.reason) {
					t.Errorf("a pull got %d %s", r.status, r.body)
				}
				if log := p.call(http.MethodGet, "/v1alpha1/builds/"+id+"/logs", nil); !strings.Contains(string(log.body), tc.says) {
					t.Errorf("the log is %s", log.body)
				}
				again := p.order(recipe("FROM "+base, tc.step))
				if again["cached"] == true || text(again, "buildId") == id {
					t.Errorf("a failed build is reused: %v", again)
				}
				p.call(http.MethodDelete, "/v1alpha2/container/"+text(again, "containerToken"), nil)
			})
		}
	})
}

// event is a Server-Sent Event.
type event struct{ id, kind, data string }

// events reads at most n of a build's events, starting after an id.
func (p *program) events(t testing.TB, host, id, after string, n int) []event {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+host+"/v1alpha1/builds/"+id+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("events: %s", resp.Status)
	}
	var out []event
	var e event
	for lines := bufio.NewScanner(resp.Body); len(out) < n && lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch key {
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "data":
			e.data += value
		case "":
			if e.kind != "" {
				out = append(out, e)
			}
			e = event{}
		}
	}
	return out
}

func TestBuildEventsResume(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	eachBuildShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		base := up.Push(t, "base/busybox:1", busybox(t, true))
		steps := []string{"FROM " + base}
		for i := range 6 {
			steps = append(steps, fmt.Sprintf("RUN echo line %d && busybox sleep 0.3", i))
		}
		id := text(p.order(recipe(steps...)), "buildId")
		part := p.events(t, p.host, id, "", 5) // closes the connection then
		host := p.host
		if p.another != nil {
			host = strings.TrimPrefix(p.another(), "http://")
		}
		rest := p.events(t, host, id, part[len(part)-1].id, 100000)
		whole := p.events(t, p.host, id, "", 100000)
		if got := append(part, rest...); fmt.Sprint(got) != fmt.Sprint(whole) {
			t.Errorf("in two parts:\n%v\nin one part, after the end:\n%v", got, whole)
		}
		if last := whole[len(whole)-1]; last.kind != "done" || !strings.Contains(last.data, `"succeeded":true`) {
			t.Errorf("the last event is %v", last)
		}
	})
}
