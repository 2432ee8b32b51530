package e2e

import (
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"slipway.dev/services/internal/testkit"
)

// TestBuildsAreContained runs steps that try to reach addresses and resources that they must
// not reach.
func TestBuildsAreContained(t *testing.T) {
	needBuilds(t)
	up := testkit.NewRegistry(t, testkit.Open)
	base := up.Push(t, "base/busybox:1", busybox(t, true))
	secret, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	reached := make(chan struct{}, 10)
	go func() {
		for {
			c, err := secret.Accept()
			if err != nil {
				return
			}
			reached <- struct{}{}
			_ = c.Close()
		}
	}()
	s := common(t, []string{up.Host}, settings{
		// Only the registry may be reached, not all ports of loopback.
		"egress_allow": up.Host, "build_pids": "64", "build_memory": "256MiB", "build_disk": "64MiB",
	})
	p := oneProcess(t, s)
	_, port, _ := net.SplitHostPort(secret.Addr().String())
	for _, tc := range []struct{ name, line, says string }{
		{"connecting to loopback", "RUN busybox nc -w 2 127.0.0.1 " + port + " < /dev/null", "refused"},
		{"loopback through the proxy", "RUN busybox wget -q -O - http://127.0.0.1:" + port + "/", "403 Forbidden"},
		{"the metadata address through the proxy", "RUN busybox wget -q -O - http://169.254.169.254/latest/meta-data", "403 Forbidden"},
		{"connecting to the metadata address", "RUN busybox nc -w 2 169.254.169.254 80 < /dev/null", "unreachable"},
		{"ADD of the metadata address", "ADD http://169.254.169.254/ /x", "403"},
		{"ADD of a loopback address", "ADD http://127.0.0.1:" + port + "/ /x", "refused"},
		{"fork bomb", "RUN for i in $(busybox seq 1 500); do busybox sleep 5 & done; wait", "can't fork"},
		{"more data than build_disk", "RUN busybox dd if=/dev/zero of=/big bs=1M count=4000 && busybox sleep 600", "more to disk"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answer := p.order(recipe("FROM "+base, tc.line))
			s := p.finished(t, answer)
			log := string(p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId")+"/logs", nil).body)
			answered := string(request(t, http.MethodGet, manifest(text(answer, "targetImage")), nil).body)
			if s["succeeded"] != false || !strings.Contains(log+answered, tc.says) {
				t.Errorf("the build ended as %v, the pull got %s, and the log is %s", s, answered, tail(log, 2000))
			}
		})
	}
	if len(reached) > 0 {
		t.Errorf("a step reached the host's loopback %d times", len(reached))
	}
	r := p.call(http.MethodPost, "/v1alpha2/container", recipe("FROM 10.0.0.1/x"))
	if r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "10.0.0.1") {
		t.Errorf("FROM a private address got %d %s", r.status, r.body)
	}
}

// TestBuildsGetTheirShareOfTheProcessors checks the processor share of a step that uses as much
// as it can.
func TestBuildsGetTheirShareOfTheProcessors(t *testing.T) {
	needBuilds(t)
	up := testkit.NewRegistry(t, testkit.Open)
	p := oneProcess(t, common(t, []string{up.Host}, settings{"build_cpus": "0.1"}))
	answer := p.order(recipe("FROM "+up.Push(t, "base/busybox:1", busybox(t, true)), "RUN while true; do true; done"))
	if err := within(2*time.Minute, func() error {
		for _, group := range groups() {
			raw, err := os.ReadFile(filepath.Join(group, "cpu.stat"))
			if err != nil {
				continue // the control group of another controller
			}
			if _, held, _ := strings.Cut(string(raw), "nr_throttled "); !strings.HasPrefix(held, "0") && held != "" {
				return nil
			}
		}
		return errors.New("the step is not held back")
	}); err != nil {
		t.Error(err)
	}
	p.call(http.MethodDelete, "/v1alpha2/container/"+text(answer, "containerToken"), nil)
}

// TestTenancy lets other users try to get an image that a user has built from a private base.
func TestTenancy(t *testing.T) {
	t.Parallel()
	private := testkit.NewRegistry(t, testkit.Basic)
	open := testkit.NewRegistry(t, testkit.Open)
	logins := dockerConfig(t, map[string]string{private.Host: testkit.User + ":" + testkit.Password})
	eachBuildShape(t, []string{private.Host, open.Host}, settings{"admin_registry_auth_file": logins}, func(t *testing.T, p *program) {
		base := private.Push(t, "base/busybox:1", busybox(t, true))
		body := recipe("FROM "+base, "RUN echo secret > /secret.txt")
		user := []string{"Authorization", "Bearer " + p.token}
		other := []string{"Authorization", "Bearer " + p.user(t, "bob")}
		stranger := func(when string) {
			t.Helper()
			for who, header := range map[string][]string{"a stranger": nil, "another user": other} {
				r := p.call(http.MethodPost, "/v1alpha2/container", body, header...)
				if r.status != http.StatusBadRequest || !strings.Contains(string(r.body), base) {
					t.Errorf("%s %s got %d %s", when, who, r.status, r.body)
				}
			}
		}
		stranger("before,")
		mine := p.order(body, user...)
		stranger("meanwhile,")
		if got := files(t, pull(t, text(mine, "targetImage"), "amd64"))["secret.txt"]; got != "secret\n" {
			t.Errorf("the user got %q", got)
		}
		stranger("afterwards,")
		// Direct access to the image behind the issued name.
		record := p.call(http.MethodGet, "/v1alpha1/builds/"+text(mine, "buildId"), nil).json(t)
		target := text(record, "targetImage")
		// A base image with a trigger that reads the image.
		trap := open.Push(t, "base/trap:1", onBuild(t, busybox(t, true), "COPY --from="+target+" /secret.txt /stolen.txt"))
		if s := p.finished(t, p.order(recipe("FROM "+trap))); s["succeeded"] != false {
			t.Errorf("a build with the trigger for an anonymous caller ended as %v", s)
		}
		for name, ask := range map[string]map[string]any{
			"as an image": {"containerImage": target},
			"as a base":   recipe("FROM " + target),
			"by COPY":     recipe("FROM scratch", "COPY --from="+target+" /secret.txt /x"),
		} {
			for who, header := range map[string][]string{"a stranger": nil, "another user": other, "its user": user} {
				if r := p.call(http.MethodPost, "/v1alpha2/container", ask, header...); r.status != http.StatusBadRequest {
					t.Errorf("%s, %s got %d %s", name, who, r.status, r.body)
				}
			}
		}
	})
}

// user creates a user of the platform, and returns an access token.
func (p *program) user(t testing.TB, name string) (token string) {
	t.Helper()
	env := p.procs[0].env // the environment of the platform or of the single process
	for _, args := range [][]string{{"user", "create", "--name", name, "--email", name + "@example.org"}, {"token", "create", "--user", name}} {
		cmd := exec.Command(filepath.Join(binaries, "slipwayd"), args...)
		cmd.Env = append(os.Environ(), "SLIPWAY_DATA_DIR="+env["data_dir"], "SLIPWAY_DATABASE_URL="+env["database_url"])
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("slipwayd %s: %v", strings.Join(args, " "), err)
		}
		token = strings.TrimSpace(string(out))
	}
	return token
}

// onBuild adds an ONBUILD instruction to an image.
func onBuild(t testing.TB, img v1.Image, instruction string) v1.Image {
	t.Helper()
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config := cf.Config
	config.OnBuild = []string{instruction}
	if img, err = mutate.Config(img, config); err != nil {
		t.Fatal(err)
	}
	return img
}
