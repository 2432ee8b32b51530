package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"slipway.dev/services/internal/testkit"
)

// TestBuildsAreContained lets steps try what they must not reach.
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
		// The registry alone may be reached, not all that listens on loopback.
		"egress_allow": up.Host, "build_pids": "64", "build_memory": "256MiB", "build_disk": "64MiB", "build_timeout_anonymous": "60s",
	})
	p := oneProcess(t, s)
	_, port, _ := net.SplitHostPort(secret.Addr().String())
	for _, tc := range []struct {
		name  string
		lines []string
	}{
		{"loopback", []string{"RUN busybox nc -w 2 127.0.0.1 " + port + " < /dev/null"}},
		{"loopback by proxy", []string{"RUN busybox wget -q -O - http://127.0.0.1:" + port + "/"}},
		{"metadata", []string{"RUN busybox wget -T 5 -q -O - http://169.254.169.254/latest/meta-data"}},
		{"metadata without proxy", []string{"RUN unset http_proxy HTTP_PROXY; busybox wget -T 5 -q -O - http://169.254.169.254/"}},
		{"add", []string{"ADD http://169.254.169.254/ /x"}},
		{"add loopback", []string{fmt.Sprintf("ADD http://127.0.0.1:%s/ /x", port)}},
		{"fork bomb", []string{`RUN busybox sh -c 'i=0; while [ $i -lt 500 ]; do busybox sleep 5 & i=$((i+1)); done; wait' && busybox false`}},
		{"disk", []string{"RUN busybox dd if=/dev/zero of=/big bs=1M count=4000 && busybox sleep 30"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answer := p.order(recipe(append([]string{"FROM " + base}, tc.lines...)...))
			if s := p.finished(t, answer); s["succeeded"] != false || text(s, "reason") == "" {
				t.Errorf("it ends as %v", s)
			}
			log := p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId")+"/logs", nil)
			t.Logf("%s", tail(string(log.body), 600))
		})
	}
	if len(reached) > 0 {
		t.Errorf("a step reached the host's loopback %d times", len(reached))
	}
	r := p.call(http.MethodPost, "/v1alpha2/container", recipe("FROM 10.0.0.1/x"))
	if r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "10.0.0.1") {
		t.Errorf("FROM a private address is answered %d %s", r.status, r.body)
	}
}

// TestTenancy lets others try to get what a user has built from a private base.
func TestTenancy(t *testing.T) {
	private := testkit.NewRegistry(t, testkit.Basic)
	open := testkit.NewRegistry(t, testkit.Open)
	logins := dockerConfig(t, map[string]string{private.Host: testkit.User + ":" + testkit.Password})
	eachBuildShape(t, []string{private.Host, open.Host}, settings{"admin_registry_auth_file": logins}, func(t *testing.T, p *program) {
		base := private.Push(t, "base/busybox:1", busybox(t, true))
		body := recipe("FROM "+base, "RUN echo secret > /secret.txt")
		user := []string{"Authorization", "Bearer " + p.token}
		stranger := func(when string) {
			t.Helper()
			r := p.call(http.MethodPost, "/v1alpha2/container", body)
			if r.status != http.StatusBadRequest || !strings.Contains(string(r.body), base) {
				t.Errorf("%s a stranger is answered %d %s", when, r.status, r.body)
			}
		}
		stranger("before,")
		mine := p.order(body, user...)
		stranger("meanwhile,")
		if got := files(t, pull(t, text(mine, "targetImage"), "amd64"))["secret.txt"]; got != "secret\n" {
			t.Errorf("the user gets %q", got)
		}
		stranger("afterwards,")
		// The image behind the name, asked for by its own name.
		record := p.call(http.MethodGet, "/v1alpha1/builds/"+text(mine, "buildId"), nil).json(t)
		target := text(record, "targetImage")
		// A base that nobody sees through: it asks for the image by itself.
		trap := open.Push(t, "base/trap:1", onBuild(t, busybox(t, true), "COPY --from="+target+" /secret.txt /stolen.txt"))
		if s := p.finished(t, p.order(recipe("FROM "+trap))); s["succeeded"] != false {
			t.Errorf("a base that reads the image for a stranger ends as %v", s)
		}
		for name, ask := range map[string]map[string]any{
			"as an image": {"containerImage": target},
			"as a base":   recipe("FROM " + target),
			"by COPY":     recipe("FROM scratch", "COPY --from="+target+" /secret.txt /x"),
		} {
			for who, header := range map[string][]string{"a stranger": nil, "its user": user} {
				if r := p.call(http.MethodPost, "/v1alpha2/container", ask, header...); r.status != http.StatusBadRequest {
					t.Errorf("%s, %s is answered %d %s", name, who, r.status, r.body)
				}
			}
		}
	})
}

// onBuild gives an image an instruction for those that are built from it.
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
