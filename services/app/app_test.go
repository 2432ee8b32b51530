package app

import (
	"errors"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/internal/config"
)

func TestShape(t *testing.T) {
	t.Parallel()
	shared := config.Config{
		DatabaseURL: "postgres://x", RedisURL: "redis://x", NATSURL: "nats://x", GRPCAddr: "127.0.0.1:1",
		ContainerAddr: "127.0.0.1:2", InspectAddr: "localhost:3", PlatformAddr: "dns:///localhost:4", AdminTokenFile: "f",
	}
	for _, c := range []struct {
		name   string
		roles  []string
		change func(*config.Config)
		says   string // "" if valid
	}{
		{"all roles with default settings", nil, func(c *config.Config) { *c = config.Config{} }, ""},
		{"one role with all settings", []string{"registry"}, nil, ""},
		{"one role without redis_url", []string{"registry"}, func(c *config.Config) { c.RedisURL = "" }, "set redis_url"},
		{"one role without nats_url", []string{"container"}, func(c *config.Config) { c.NATSURL = "" }, "set nats_url"},
		{"one role without database_url", []string{"platform"}, func(c *config.Config) { c.DatabaseURL = "" }, "set database_url"},
		{"a service without an address", []string{"gateway"}, func(c *config.Config) { c.InspectAddr = "" }, "set inspect_addr"},
		{"a service in the same process", []string{"gateway", "inspect"}, func(c *config.Config) { c.InspectAddr = "" }, ""},
		{"the platform without admin_token_file", []string{"platform"}, func(c *config.Config) { c.AdminTokenFile = "" }, "admin_token_file"},
		{"open to the network", []string{"inspect"}, func(c *config.Config) { c.GRPCAddr = "0.0.0.0:1" }, "rpc_cert_file"},
		{"a role on another machine", []string{"registry"}, func(c *config.Config) { c.ContainerAddr = "c:1" }, "container_addr is on another machine: set rpc_cert_file"},
		{"a role at a DNS name", []string{"registry"}, func(c *config.Config) { c.PlatformAddr = "dns:///p:1" }, "platform_addr is on another machine"},
		{"an optional role on another machine", []string{"registry"}, func(c *config.Config) { c.MetricsAddr = "m:1" }, "metrics_addr is on another machine"},
		{"a role on another machine, with a secret", []string{"registry"}, func(c *config.Config) { c.ContainerAddr, c.RPCSecretFile = "c:1", "f" }, ""},
		{"a role on another machine, with certificates", []string{"registry"}, func(c *config.Config) { c.ContainerAddr, c.RPCCertFile = "c:1", "f" }, ""},
		{"open with a secret", []string{"inspect"}, func(c *config.Config) { c.GRPCAddr, c.RPCSecretFile = "0.0.0.0:1", "f" }, ""},
	} {
		cfg := shared
		if c.change != nil {
			c.change(&cfg)
		}
		chosen, err := choose(c.roles)
		if err == nil {
			err = checkRoles(cfg, chosen)
		}
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
	if _, err := choose([]string{"unknown"}); err == nil || !strings.Contains(err.Error(), "platform, build") {
		t.Errorf("an unknown role: %v", err)
	}
}

func TestClientIP(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, c := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"direct", "1.2.3.4:5", nil, "1.2.3.4"},
		{"direct, with a forged header", "1.2.3.4:5", []string{"9.9.9.9"}, "1.2.3.4"},
		{"through a proxy", "10.0.0.1:5", []string{"1.2.3.4"}, "1.2.3.4"},
		{"through two proxies", "10.0.0.1:5", []string{"1.2.3.4, 10.0.0.2"}, "1.2.3.4"},
		{"through a proxy, with a forged first address", "10.0.0.1:5", []string{"9.9.9.9, 1.2.3.4"}, "1.2.3.4"},
		{"several headers", "10.0.0.1:5", []string{"9.9.9.9", "1.2.3.4, 10.0.0.2"}, "1.2.3.4"},
		{"garbage behind a proxy", "10.0.0.1:5", []string{"1.2.3.4, garbage"}, "10.0.0.1"},
		{"a proxy itself", "10.0.0.1:5", nil, "10.0.0.1"},
		{"mapped", "[::ffff:1.2.3.4]:5", nil, "1.2.3.4"},
		{"IPv6", "[2001:db8::1]:5", nil, "2001:db8::1"},
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.forwarded}}
		if got := clientIP(r, proxies).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	for in, kept := range map[string]bool{
		"abc-1.2_X": true, "": false, "with blank": false, "line\nbreak": false, strings.Repeat("x", 65): false,
	} {
		got := requestID(&http.Request{Header: http.Header{"X-Request-Id": {in}}})
		if (got == in) != kept || got == "" {
			t.Errorf("%q became %q", in, got)
		}
	}
}

func TestConfigPageIsCurrent(t *testing.T) {
	t.Parallel()
	if page := readFile(t, "../../deploy/config.md"); page != config.Page() {
		t.Error("deploy/config.md is not what `slipwayd config --markdown` prints: run `make generate`")
	}
}

// TestMigrateCreatesNoFolder checks that migrating a database outside of data_dir does not create
// data_dir, and that migrating the one in it does.
func TestMigrateCreatesNoFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := config.Config{DataDir: filepath.Join(dir, "data"), DatabaseURL: "sqlite:" + filepath.Join(dir, "elsewhere.db")}
	if err := Migrate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cfg.DataDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("data_dir was created: %v", err)
	}
	cfg.DatabaseURL = ""
	if err := Migrate(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(cfg.DataDir, "slipway.db")); err != nil {
		t.Error(err)
	}
}
