package app

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
)

// A foreignHost is a host that does not belong to the service: it accepts connections,
// counts them, and never responds.
type foreignHost struct {
	addr     string
	contacts atomic.Int32
}

func newForeignHost(t *testing.T) *foreignHost {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	h := &foreignHost{addr: l.Addr().String()}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			h.contacts.Add(1)
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	return h
}

// apart returns the settings of a process with one role. Everything that belongs to others
// is at the foreign host; the service's own dependencies do not run.
func apart(t *testing.T, r role, foreign *foreignHost) map[string]string {
	t.Helper()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	nowhere := "127.0.0.1:" + testkit.FreePort(t)
	web := "http://" + foreign.addr
	settings := map[string]string{
		"DATA_DIR": dir, "HTTP_ADDR": "127.0.0.1:0", "PLATFORM_HTTP_ADDR": "", "ADMIN_ADDR": "127.0.0.1:0", "GRPC_ADDR": "127.0.0.1:0",
		"PUBLIC_URL": "http://localhost", "PLATFORM_URL": "http://localhost/api",
		"DATABASE_URL": "sqlite:" + filepath.Join(dir, "test.db"), "REDIS_URL": "redis://" + nowhere, "NATS_URL": "nats://" + nowhere,
		"BUILDKIT_ADDR": "tcp://" + nowhere, "ADMIN_TOKEN_FILE": file("token", "eyJ0aWQiOjF9LjAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc="),
		"MASTER_KEY_FILE": file("key", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="),
		"EGRESS_ALLOW":    "127.0.0.0/8", "INSECURE_REGISTRIES": foreign.addr,
		"CONDA_CHANNEL_ALIAS": web, "CONDA_CHANNELS": "conda-forge=" + web + "/conda-forge",
		"REGISTRY_MIRRORS": "docker.io=" + foreign.addr + "/hub", "OIDC_ISSUER": web, "OIDC_CLIENT_ID": "slipway",
		"PLATFORM_ENDPOINTS": web, "BUILD_REPOSITORY": foreign.addr + "/builds",
	}
	for _, c := range r.calls {
		settings[strings.ToUpper(c.name)+"_ADDR"] = nowhere
	}
	return settings
}

// play starts a process with one role.
func play(t *testing.T, role string, settings map[string]string) *App {
	t.Helper()
	cfg, err := config.Load(pflag.NewFlagSet("", pflag.ContinueOnError), func(key string) (string, bool) {
		for k, v := range settings {
			if key == "SLIPWAY_"+k {
				return v, true
			}
		}
		return "", false
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Migrate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	a, err := New(t.Context(), cfg, []string{role}, Build{}, testkit.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestChecksContactOwnHosts checks of every role that only the service's own database and
// roles are required, and that no check contacts a foreign host, so that an outage there
// neither stops a rollout nor delays a probe.
func TestChecksContactOwnHosts(t *testing.T) {
	t.Parallel()
	for _, r := range roles() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			foreign := newForeignHost(t)
			a := play(t, r.name, apart(t, r, foreign))
			t.Cleanup(func() { _ = a.close() })
			own := append(Names(), "database")
			checks := a.checks()
			states := states(t.Context(), checks)
			for i, c := range checks {
				if c.required && !slices.Contains(own, c.name) {
					t.Errorf("the check %s is required, and is none of %v", c.name, own)
				}
				if deadline := context.DeadlineExceeded; states[i].Error == deadline.Error() {
					t.Errorf("the check %s waited until its deadline", c.name)
				}
			}
			if n := foreign.contacts.Load(); n > 0 {
				t.Errorf("starting and checking contacted another's host %d times", n)
			}
		})
	}
}

// TestCondaReadyWithoutChannels starts the role conda alone while its channels cannot be
// reached.
func TestCondaReadyWithoutChannels(t *testing.T) {
	t.Parallel()
	platform := rpc.NewServer(rpc.ServerOptions{Log: testkit.Log(t), Metrics: rpc.NewMetrics(prometheus.NewRegistry())})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = platform.Serve(l) }()
	t.Cleanup(platform.Server.Stop)
	foreign := newForeignHost(t)
	conda, err := choose([]string{"conda"})
	if err != nil {
		t.Fatal(err)
	}
	settings := apart(t, conda[0], foreign)
	settings["PLATFORM_ADDR"], settings["DRAIN_TIMEOUT"] = l.Addr().String(), "5s"
	a := play(t, "conda", settings)
	testkit.Run(t, a.Run)

	var answer struct {
		Dependencies map[string]state
	}
	testkit.Until(t, "the role to be ready", func() error {
		w := httptest.NewRecorder()
		a.readyz(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		if w.Code != http.StatusOK {
			return errors.New(w.Body.String())
		}
		return json.Unmarshal(w.Body.Bytes(), &answer)
	})
	if got, ok := answer.Dependencies["channels"]; !ok || got.Required {
		t.Errorf("the state of the channels is %+v, reported %v", got, ok)
	}
}
