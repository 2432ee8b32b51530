package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/ratelimit"
)

// load reads settings from arguments, an environment and, unless empty, a file.
func load(t testing.TB, args []string, env map[string]string, file string) (config.Config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.AddFlags(fs)
	if file != "" {
		args = append([]string{"--config", write(t, file)}, args...)
	}
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return config.Load(fs, func(k string) (string, bool) { v, ok := env[k]; return v, ok })
}

func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "slipway.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	want := config.Config{
		HTTPAddr: "127.0.0.1:9090", PlatformHTTPAddr: "127.0.0.1:9091", AdminAddr: "127.0.0.1:9099", GRPCAddr: "127.0.0.1:9095",
		StoreAddr: "127.0.0.1:9092", PublicURL: "http://localhost:9090", DataDir: "./data", PlatformURL: "http://localhost:9091",
		AdminEmail: "admin@localhost", OIDCGroupsClaim: "groups", AnonymousAccess: true, CountPulls: true, AuditRetention: 365 * 24 * time.Hour,
		LimitPlatform:          ratelimit.Limit{{Count: 20, Window: time.Second}, {Count: 72_000, Window: time.Hour}},
		LimitPullsUser:         ratelimit.Limit{{Count: 1000, Window: time.Minute}},
		LimitPullsAnonymous:    ratelimit.Limit{{Count: 250, Window: time.Hour}},
		LimitRequestsUser:      ratelimit.Limit{{Count: 2000, Window: time.Minute}},
		LimitRequestsAnonymous: ratelimit.Limit{{Count: 500, Window: time.Hour}},
		LimitSearchesUser:      ratelimit.Limit{{Count: 1200, Window: time.Minute}},
		LimitSearchesAnonymous: ratelimit.Limit{{Count: 300, Window: time.Minute}, {Count: 3000, Window: time.Hour}},
		LayerStore:             10 << 30, TokenMemory: 128 << 20,
		LimitBuildsUser:       ratelimit.Limit{{Count: 100, Window: time.Hour}},
		LimitBuildsAnonymous:  ratelimit.Limit{{Count: 25, Window: 24 * time.Hour}},
		BuildRunningAnonymous: 2, DiskReserve: 1 << 30, StoreKeep: 720 * time.Hour, StreamsClient: 100, StreamsTotal: 4000, ConnectionsClient: 2000,
		BuildTimeoutUser: 25 * time.Minute, BuildTimeoutAnonymous: 15 * time.Minute,
		BuildMemory: 8 << 30, BuildkitMemory: 4 << 30, BuildDisk: 40 << 30, BuildPids: 4096, SifCompression: "zstd-3", SifLayers: 10 << 30, PullWait: 15 * time.Minute,
		CondaChannelAlias: "https://conda.anaconda.org", CondaRefresh: 30 * time.Minute, CondaHistory: 90 * 24 * time.Hour, CondaIndexSize: 10 << 30, CondaSolveWait: 2 * time.Second,
		CondaPyPIHosts: []string{"files.pythonhosted.org"}, CondaClientMamba: []string{"mambaorg/micromamba"}, CondaClientBase: []string{"ubuntu:24.04"},
		CondaClientPixi: []string{"ghcr.io/prefix-dev/pixi"}, CRANClient: []string{"rocker/r-ver:4.4.1"},
		CondaLayers: 20 << 30, CondaLayerMemory: 30 * 24 * time.Hour, CondaLockTTL: 30 * 24 * time.Hour, PolicyMode: "enforce", ScanDatabaseRefresh: 24 * time.Hour,
		TokenTTL: 36 * time.Hour, RequestRetention: 90 * 24 * time.Hour,
		LayerCache: 1 << 30, BlobCacheSize: 10 << 30, UpstreamAuth: time.Hour, ImageCache: 32 << 20, DrainTimeout: 5 * time.Minute, DrainBuilds: 20 * time.Second, LogLevel: "info",
	}
	got, err := load(t, nil, nil, "")
	if diff := cmp.Diff(want, got, values()); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if err := got.Validate(); err != nil {
		t.Errorf("the defaults are not valid: %v", err)
	}
}

// TestAddressesFollowListeners checks that addresses follow the listeners of the process
// unless they are set.
func TestAddressesFollowListeners(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name             string
		args             []string
		public, platform string
	}{
		{"another port", []string{"--http-addr=127.0.0.1:7000"}, "http://localhost:7000", "http://localhost:9091"},
		{"every address", []string{"--http-addr=:7000", "--platform-http-addr=0.0.0.0:7001"}, "http://localhost:7000", "http://localhost:7001"},
		{"IPv6", []string{"--http-addr=[::1]:7000", "--platform-http-addr=[::]:7001"}, "http://localhost:7000", "http://localhost:7001"},
		{"one address, with a certificate", []string{"--http-addr=192.0.2.7:443", "--tls-cert-file=c"}, "https://192.0.2.7:443", "https://localhost:9091"},
		{"a host name", []string{"--http-addr=slipway.example.org:443", "--tls-cert-file=c"}, "https://slipway.example.org:443", "https://localhost:9091"},
		{"no platform of its own", []string{"--http-addr=:7000", "--platform-http-addr="}, "http://localhost:7000", "http://localhost:7000/api"},
		{"set", []string{"--http-addr=:7000", "--public-url=https://slipway.example.org", "--platform-url=https://api.example.org"}, "https://slipway.example.org", "https://api.example.org"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if c, err := load(t, tc.args, nil, ""); err != nil || c.PublicURL != tc.public || c.PlatformURL != tc.platform {
				t.Errorf("got %s and %s, %v; want %s and %s", c.PublicURL, c.PlatformURL, err, tc.public, tc.platform)
			}
		})
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	flag, env, file := []string{"--data-dir", "/flag"}, map[string]string{"SLIPWAY_DATA_DIR": "/env"}, "data_dir: /file"
	for _, tc := range []struct {
		name string
		args []string
		env  map[string]string
		file string
		want string
	}{
		{"default", nil, nil, "", "./data"},
		{"file", nil, nil, file, "/file"},
		{"environment", nil, env, "", "/env"},
		{"flag", flag, nil, "", "/flag"},
		{"environment over file", nil, env, file, "/env"},
		{"flag over file", flag, nil, file, "/flag"},
		{"flag over all", flag, env, file, "/flag"},
		{"a flag with the default value", []string{"--data-dir", "./data"}, env, file, "./data"},
		{"an empty variable counts", nil, map[string]string{"SLIPWAY_DATA_DIR": ""}, file, ""},
		{"an empty flag counts", []string{"--data-dir="}, env, file, ""},
		{"an empty key counts", nil, nil, "data_dir:", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if c, err := load(t, tc.args, tc.env, tc.file); err != nil || c.DataDir != tc.want {
				t.Errorf("got %q, %v; want %q", c.DataDir, err, tc.want)
			}
		})
	}
}

func TestWhichFile(t *testing.T) {
	t.Parallel()
	env := map[string]string{"SLIPWAY_CONFIG": write(t, "data_dir: /named-by-env")}
	if c, err := load(t, nil, env, ""); err != nil || c.DataDir != "/named-by-env" {
		t.Errorf("got %q, %v", c.DataDir, err)
	}
	if c, err := load(t, nil, env, "data_dir: /named-by-flag"); err != nil || c.DataDir != "/named-by-flag" {
		t.Errorf("got %q, %v", c.DataDir, err)
	}
	if _, err := load(t, []string{"--config", "/no/such/file"}, nil, ""); err == nil || !strings.Contains(err.Error(), "/no/such/file") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestEveryWay sets one setting of each type in each way.
func TestEveryWay(t *testing.T) {
	t.Parallel()
	want, err := load(t, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	want.AnonymousAccess, want.TokenTTL, want.LayerCache = false, 90*time.Minute, 512<<20
	want.BuildCPUs = 1.5
	want.EgressAllow = []string{"10.0.0.0/8", "registry.internal"}
	want.LimitPullsUser = ratelimit.Limit{{Count: 20, Window: time.Second}, {Count: 100, Window: time.Hour}}
	want.LimitPullsAnonymous = nil
	for _, tc := range []struct {
		name string
		args []string
		env  map[string]string
		file string
	}{
		{name: "flags", args: []string{
			"--anonymous-access=false", "--token-ttl=90m", "--layer-cache=512MiB", "--egress-allow=10.0.0.0/8,registry.internal",
			"--limit-pulls-user=20/1s,100/1h", "--limit-pulls-anonymous=0", "--build-cpus=1.5",
		}},
		{name: "environment", env: map[string]string{
			"SLIPWAY_ANONYMOUS_ACCESS": "false", "SLIPWAY_TOKEN_TTL": "1h30m", "SLIPWAY_LAYER_CACHE": "512 MiB",
			"SLIPWAY_EGRESS_ALLOW": " 10.0.0.0/8 , registry.internal,", "SLIPWAY_LIMIT_PULLS_USER": "20/1s, 100/1h",
			"SLIPWAY_LIMIT_PULLS_ANONYMOUS": "0", "SLIPWAY_BUILD_CPUS": "1.50",
		}},
		{name: "file", file: `
anonymous_access: false
token_ttl: 90m
layer_cache: 536870912
egress_allow: [10.0.0.0/8, registry.internal]
limit_pulls_user: 20/1s,100/1h
limit_pulls_anonymous: 0
build_cpus: 1.5
`},
		{name: "file, other spellings", file: `
anonymous_access: "false"
token_ttl: 5400s
layer_cache: 512 MiB
egress_allow: 10.0.0.0/8,registry.internal
limit_pulls_user:
  - 20/1s
  - 100/1h
limit_pulls_anonymous: ""
build_cpus: "1.5"
`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := load(t, tc.args, tc.env, tc.file)
			if diff := cmp.Diff(want, got, values()); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}

func TestLoadReportsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := load(t, []string{"--token-ttl", "soon"}, map[string]string{"SLIPWAY_LAYER_CACHE": "many"}, `
anonymous_access: maybe
drain_delay: -1s
limit_pulls_user: 5
build_cpus: nan
htp_addr: :80
`)
	if err == nil {
		t.Fatal("all of it was read")
	}
	for _, want := range []string{
		"token_ttl (from --token-ttl)", "layer_cache (from SLIPWAY_LAYER_CACHE)", "anonymous_access (from /",
		"drain_delay", "limit_pulls_user", "build_cpus", `there is no setting "htp_addr"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
}

func TestFilesThatAreNoMap(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"just text", "- a\n- b", "a: b: c", "data_dir: /a\ndata_dir: /b"} {
		if c, err := load(t, nil, nil, text); err == nil {
			t.Errorf("%q was read as %+v", text, c)
		}
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	c, err := load(t, []string{"--redis-url=redis://:geheim@r", "--nats-url=nats://u:geheim@n", "--database-url=postgres://u:geheim@p/d", "--egress-allow=a,b"}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for _, f := range config.Fields(&c) {
		shown[f.Key] = f.String()
		if strings.Contains(f.String(), "geheim") {
			t.Errorf("%s shows %s", f.Key, f)
		}
	}
	want := map[string]string{
		"redis_url": "[redacted]", "egress_allow": "a,b", "layer_cache": "1GiB", "limit_pulls_user": "1000/1m",
		"anonymous_access": "true", "token_ttl": "36h0m0s", "container_addr": "",
	}
	for key, text := range want {
		if shown[key] != text {
			t.Errorf("%s is shown as %q, want %q", key, shown[key], text)
		}
	}
}

// again loads the values that c shows, without secrets, as another process would.
func again(t testing.TB, c config.Config) (config.Config, error) {
	t.Helper()
	env := map[string]string{}
	for _, f := range config.Fields(&c) {
		if !f.Secret {
			env[f.Env()] = f.String()
		}
	}
	return load(t, nil, env, "")
}

// values compares the values of settings, ignoring how they were set.
func values() cmp.Option { return cmpopts.IgnoreFields(config.Config{}, "Given") }

// TestExplicitSettings checks that explicitly set settings are distinguished from unset ones, even if
// the value is the same.
func TestExplicitSettings(t *testing.T) {
	t.Parallel()
	got, err := load(t, []string{"--data-dir", "./data"}, map[string]string{"SLIPWAY_TOKEN_TTL": "36h"}, "limit_builds_anonymous: 25/24h\n")
	slices.Sort(got.Given)
	if want := []string{"data_dir", "limit_builds_anonymous", "token_ttl"}; err != nil || !slices.Equal(got.Given, want) {
		t.Errorf("given are %v, %v; want %v", got.Given, err, want)
	}
	if got, err = load(t, nil, nil, ""); err != nil || len(got.Given) != 0 {
		t.Errorf("without settings, given are %v, %v", got.Given, err)
	}
}

func TestShownValuesAreValidInput(t *testing.T) {
	t.Parallel()
	c, err := load(t, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := again(t, c)
	if diff := cmp.Diff(c, got, values()); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func FuzzFile(f *testing.F) {
	f.Add("data_dir: /x\negress_allow: [a, b]\nlayer_cache: 1GiB\ntoken_ttl: 1h\n")
	f.Add("limit_pulls_user: [1/1h, 5/24h]\nanonymous_access: no\n")
	f.Add("a: {b: c}\n? d\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := load(t, nil, nil, text+"\n")
		if err != nil {
			return
		}
		c.DatabaseURL, c.NATSURL, c.RedisURL = "", "", ""
		got, err := again(t, c)
		if diff := cmp.Diff(c, got, values()); err != nil || diff != "" {
			t.Errorf("%q: %v %s", text, err, diff)
		}
	})
}

// TestLimitsNameSettings checks that the keys in the table of limits are settings.
func TestLimitsNameSettings(t *testing.T) {
	t.Parallel()
	var c config.Config
	for _, r := range limits.Rows() {
		if r.Key != "" && !slices.ContainsFunc(config.Fields(&c), func(f config.Field) bool { return f.Key == r.Key }) {
			t.Errorf("the limit of %s names the setting %q, which there is not", r.What, r.Key)
		}
	}
}
