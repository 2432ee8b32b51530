package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/emptypb"

	"slipway.dev/services/internal/testkit"
)

func TestLogsContainNoSecrets(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Bearer)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	auths := dockerConfig(t, map[string]string{up.Host: testkit.User + ":" + testkit.Password})
	more := settings{"registry_auth_file": auths, "admin_registry_auth_file": auths, "log_level": "debug"}
	eachShape(t, []string{up.Host}, more, func(t *testing.T, p *program) {
		target := p.submit(map[string]any{"containerImage": image, "towerAccessToken": p.token, "containerConfig": map[string]any{"env": []string{"PASSWORD=variable-content"}}})
		pull(t, target, "amd64")
		p.call(http.MethodGet, "/v1alpha2/container/"+tokenOf(target), nil)
		p.call(http.MethodPost, "/v1alpha2/validate-creds", map[string]any{"userName": "u", "password": "hunter2-secret", "registry": up.Host})
		r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image}, "X-Request-Id", "my-own-id")
		if r.header.Get("X-Request-Id") != "my-own-id" {
			t.Errorf("the request id is %q", r.header.Get("X-Request-Id"))
		}
		// A request is logged after its response was sent.
		var all string
		_ = within(time.Minute, func() error {
			all = ""
			for _, proc := range p.procs {
				all += proc.log()
			}
			if !strings.Contains(all, `"my-own-id"`) {
				return errors.New("the last request is not logged yet")
			}
			return nil
		})
		for name, secret := range map[string]string{
			"access token": p.token, "capability": tokenOf(target), "password": testkit.Password, "given password": "hunter2-secret",
			"variable": "variable-content", "bearer token": "good-for:",
		} {
			if strings.Contains(all, secret) {
				t.Errorf("the %s is in the log", name)
			}
		}
		checkLines(t, all)
	})
}

// checkLines checks that every line is JSON, and that a request can be found by its fields.
func checkLines(t *testing.T, log string) {
	t.Helper()
	found := false
	for line := range strings.Lines(log) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Errorf("a log line is not JSON: %s", line)
			continue
		}
		if m["msg"] == "Request" && m["request_id"] == "my-own-id" {
			found = m["trace_id"] != nil && m["status"] == float64(200)
		}
	}
	if !found {
		t.Error("the request is not in the log, with its id, trace and status")
	}
}

func TestHealthAndMetrics(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	eachShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		pull(t, p.submit(map[string]any{"containerImage": image}), "amd64")
		reg := p.registry()
		if err := get(reg.admin + "/livez"); err != nil {
			t.Error(err)
		}
		metrics := string(request(t, http.MethodGet, reg.admin+"/metrics", nil).body)
		for _, want := range []string{
			`slipway_registry_seconds_count{code="200",kind="manifest"}`, fmt.Sprintf(`slipway_upstream_answers_total{code="200",host=%q,kind="manifest"}`, up.Host), "go_goroutines",
		} {
			if !strings.Contains(metrics, want) {
				t.Errorf("/metrics lacks %s", want)
			}
		}
		var ready struct {
			Ready        bool
			Dependencies map[string]struct{ OK, Required bool }
		}
		mustJSON(t, request(t, http.MethodGet, reg.admin+"/readyz", nil).body, &ready)
		if !ready.Ready || !ready.Dependencies["redis"].OK || ready.Dependencies["redis"].Required {
			t.Errorf("readiness: %+v", ready)
		}
		if p.redis == nil {
			return
		}
		if !ready.Dependencies["container"].Required {
			t.Errorf("the registry does not report its dependency on the container role: %+v", ready)
		}
		if got := p.process("container-1"); !strings.Contains(string(request(t, http.MethodGet, got.admin+"/readyz", nil).body), `"database":{"ok":true,"required":true}`) {
			t.Error("the container role does not report the state of its database")
		}
	})
}

// TestRoleOverTCP calls a role's gRPC port with and without the shared secret.
func TestRoleOverTCP(t *testing.T) {
	t.Parallel()
	addr, admin := "127.0.0.1:"+testkit.FreePort(t), "127.0.0.1:"+testkit.FreePort(t)
	p := &program{t: t, token: adminToken}
	env := common(t, nil, settings{
		"grpc_addr": addr, "admin_addr": admin, "data_dir": t.TempDir(), "database_url": "sqlite:" + t.TempDir() + "/p.db",
		"rpc_secret_file": writeFile(t, "secret", "a shared secret of some length\n"), "redis_url": "redis://" + miniredis.RunT(t).Addr(),
	})
	p.add("platform", admin, []string{"platform"}, env)
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if h, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{}); err != nil || h.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", h, err)
	}
	err = conn.Invoke(ctx, "/slipway.platform.v1.IdentityService/GetServiceInfo", &emptypb.Empty{}, &emptypb.Empty{})
	if err == nil || !strings.Contains(err.Error(), "rpc_secret_file") {
		t.Errorf("without the secret a call returned %v", err)
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	img, big := bigImage(t, 8<<20)
	image := up.Push(t, "lib/tool:v1", img)
	raw, path := content(t, big)
	p := oneProcess(t, common(t, []string{up.Host}, settings{"drain_delay": "1s"}))
	target := p.submit(map[string]any{"containerImage": image})
	request(t, http.MethodGet, v2(target)+"/manifests/v1", nil)
	release := make(chan struct{})
	up.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, path) {
			w.Header().Set("Content-Length", "8388608")
			_, _ = w.Write(raw[:1<<20])
			_ = http.NewResponseController(w).Flush()
			<-release
			_, _ = w.Write(raw[1<<20:])
			return true
		}
		return false
	})
	raw = raw[:8<<20]
	resp, err := http.Get(v2(target) + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	stopped := make(chan error, 1)
	go func() { stopped <- p.procs[0].stop() }()
	if err := within(time.Minute, func() error {
		if r := request(t, http.MethodGet, p.procs[0].admin+"/readyz", nil); r.status != http.StatusServiceUnavailable {
			return &unexpectedStatus{r.status}
		}
		return nil
	}); err != nil {
		t.Errorf("the draining process reports that it is ready: %v", err)
	}
	if err := within(time.Minute, func() error {
		if get(p.url+"/service-info") == nil {
			return errors.New("after the delay it still accepts")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	close(release)
	got, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Equal(got, raw) {
		t.Errorf("the running pull ended after %d bytes: %v", len(got), err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("the process exited with %v", err)
	}
}

func TestStopsImmediatelyWhenIdle(t *testing.T) {
	t.Parallel()
	p := oneProcess(t, common(t, nil, nil))
	start := time.Now()
	if err := p.procs[0].stop(); err != nil || time.Since(start) > 20*time.Second {
		t.Errorf("an idle process took %v to stop: %v", time.Since(start), err)
	}
}

func TestTwoProcessesOnOneFolder(t *testing.T) {
	t.Parallel()
	p := oneProcess(t, common(t, nil, nil))
	env := common(t, nil, settings{"data_dir": p.procs[0].env["data_dir"], "http_addr": "127.0.0.1:0", "admin_addr": "127.0.0.1:0", "platform_http_addr": "", "public_url": p.url})
	second := &process{t: t, name: "second", env: env, admin: "http://127.0.0.1:1"}
	go func() { _ = second.launch() }()
	if err := within(time.Minute, func() error {
		if !strings.Contains(second.log(), "another slipwayd uses") {
			return &unexpectedStatus{http.StatusOK}
		}
		return nil
	}); err != nil {
		t.Errorf("the second process logged: %s", second.log())
	}
	second.kill()
}
