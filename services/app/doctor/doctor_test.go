package doctor_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/spf13/pflag"

	"slipway.dev/services/app/doctor"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/testkit"
)

// healthy returns options for which everything works, with builds elsewhere.
func healthy(t *testing.T) doctor.Options {
	t.Helper()
	world := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); strings.HasPrefix(r.URL.Path, "/v2") && r.Header.Get("Authorization") != "" && password != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(world.Close)
	host := strings.TrimPrefix(world.URL, "http://")
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	config.AddFlags(fs)
	if err := fs.Parse([]string{
		"--data-dir", t.TempDir(), "--http-addr", "127.0.0.1:0", "--platform-http-addr", "", "--admin-addr", "127.0.0.1:0",
		"--public-url", "http://localhost:1", "--buildkit-addr", "unix:///elsewhere", "--layer-cache", "1MiB",
		"--egress-allow", "127.0.0.1", "--insecure-registries", host, "--build-repository", host + "/builds",
	}); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(fs, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return doctor.Options{
		Config: cfg, Registry: host, Channels: []string{world.URL + "/conda-forge"},
		// The result must not depend on the disk of the machine that runs the tests.
		Free: func(string) (int64, error) { return 1 << 40, nil },
	}
}

// TestHealthy checks that nothing fails.
func TestHealthy(t *testing.T) {
	t.Parallel()
	for _, f := range doctor.Examine(t.Context(), healthy(t)) {
		if f.State == doctor.Fail || f.State == doctor.Warn && f.Check != "public_url" {
			t.Errorf("%+v", f)
		}
	}
}

// TestBroken breaks one thing after the other, and checks that each is found and has a fix.
func TestBroken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks func(*testing.T, *doctor.Options)
		check  string
		state  doctor.State
		want   string
	}{
		"a sink that is a folder": {func(t *testing.T, o *doctor.Options) { o.Config.AuditSink = t.TempDir() }, "audit_sink", doctor.Fail, "is not a regular file"},
		"a sink without a folder": {func(_ *testing.T, o *doctor.Options) { o.Config.AuditSink = "/none/audit.jsonl" }, "audit_sink", doctor.Fail, "stat /none: no such file"},
		"no receiver":             {func(_ *testing.T, o *doctor.Options) { o.Config.AuditSink = "syslog://127.0.0.1:1" }, "audit_sink", doctor.Fail, "refused"},
		"a setting":               {func(_ *testing.T, o *doctor.Options) { o.Config.LogLevel = "loud" }, "settings", doctor.Fail, "log_level must be debug"},
		"an egress rule":          {func(_ *testing.T, o *doctor.Options) { o.Config.EgressAllow = []string{"10.0.0.0/99"} }, "settings", doctor.Fail, "10.0.0.0/99"},
		"a file for a folder":     {func(t *testing.T, o *doctor.Options) { o.Config.DataDir = file(t, "x") }, "data", doctor.Fail, "is not a folder"},
		"a full disk": {func(_ *testing.T, o *doctor.Options) { o.Free = func(string) (int64, error) { return 2 << 30, nil } },
			"disk", doctor.Fail, "2 GiB left"},
		"a missing disk": {func(_ *testing.T, o *doctor.Options) {
			o.Free = func(string) (int64, error) { return 0, errors.New("input/output error") }
		}, "disk", doctor.Warn, "input/output error"},
		"a small disk": {func(_ *testing.T, o *doctor.Options) { o.Config.LayerCache = 1 << 60 }, "disk", doctor.Warn, "may fill"},
		"a small disk for blobs": {func(t *testing.T, o *doctor.Options) {
			o.Config.BlobCache, o.Config.BlobCacheSize = filepath.Join(o.Config.DataDir, "blobs"), 1<<60
		}, "disk", doctor.Warn, "may fill"},
		"a small disk of blobs alone": {func(t *testing.T, o *doctor.Options) {
			o.Config.BlobCache, o.Config.BlobCacheSize = "/dev/shm/blobs", 1<<60
		}, "blob cache", "", ""},
		"a file for blobs": {func(t *testing.T, o *doctor.Options) { o.Config.BlobCache = "/proc/self/blobs" }, "blob cache", doctor.Fail, "cannot write"},
		"a bucket": {func(t *testing.T, o *doctor.Options) {
			o.Config.BlobCache, o.Config.BlobCacheLogin = "s3://blobs?endpoint=http://127.0.0.1:1", (&testkit.S3{}).Credentials(t)
		}, "blob cache", doctor.Fail, "does not respond"},
		"a port": {func(t *testing.T, o *doctor.Options) { o.Config.HTTPAddr = listener(t) }, "ports", doctor.Fail,
			"is taken by another program"},
		"an address":              {func(_ *testing.T, o *doctor.Options) { o.Config.HTTPAddr = "192.0.2.1:80" }, "ports", doctor.Fail, "not possible to listen"},
		"an old certificate":      {certificate("localhost", -time.Hour), "certificates", doctor.Fail, "expired on"},
		"a certificate of others": {certificate("example.org", 24*365*time.Hour), "certificates", doctor.Fail, "not for localhost"},
		"a certificate that ends": {certificate("localhost", 12*time.Hour), "certificates", doctor.Warn, "expires on"},
		"no certificate": {func(t *testing.T, o *doctor.Options) {
			o.Config.TLSCertFile, o.Config.TLSKeyFile = file(t, "x"), file(t, "y")
		}, "certificates", doctor.Fail, "tls_cert_file"},
		"an address that leads elsewhere": {elsewhere, "public_url", doctor.Fail, "another server responds"},
		"runc":                            {func(_ *testing.T, o *doctor.Options) { o.Config.BuildkitAddr, o.Config.RuncPath = nil, "/nonexistent" }, "runc", "", ""},
		"no control groups": {func(t *testing.T, o *doctor.Options) { o.Config.BuildkitAddr, o.Groups = nil, t.TempDir() }, "control groups", doctor.Fail,
			"no control groups are mounted"},
		"half of the control groups": {func(t *testing.T, o *doctor.Options) {
			o.Config.BuildkitAddr, o.Groups = nil, filepath.Dir(write(t, filepath.Join(t.TempDir(), "cgroup.controllers"), "cpu memory"))
		}, "control groups", doctor.Warn, "controllers pids are missing"},
		"the database": {func(_ *testing.T, o *doctor.Options) { o.Config.DatabaseURL = "postgres://u:p@127.0.0.1:1/d" }, "database", doctor.Fail,
			"does not respond"},
		"old tables": {func(t *testing.T, o *doctor.Options) { o.Config.DatabaseURL = "sqlite:" + file(t, "") }, "database", doctor.Fail, "platform"},
		"Redis":      {func(_ *testing.T, o *doctor.Options) { o.Config.RedisURL = "redis://127.0.0.1:1" }, "Redis", doctor.Fail, "refused"},
		"NATS":       {func(_ *testing.T, o *doctor.Options) { o.Config.NATSURL = "nats://127.0.0.1:1" }, "NATS", doctor.Fail, ""},
		"NATS without JetStream": {func(t *testing.T, o *doctor.Options) { o.Config.NATSURL = natsServer(t) }, "NATS", doctor.Fail,
			"without JetStream"},
		"DNS":        {func(_ *testing.T, o *doctor.Options) { o.Registry = "registry.nowhere.invalid" }, "DNS", doctor.Fail, "cannot be resolved"},
		"a registry": {func(_ *testing.T, o *doctor.Options) { o.Registry = "127.0.0.1:1" }, "registry", doctor.Fail, "127.0.0.1:1"},
		"a registry with a mirror": {func(_ *testing.T, o *doctor.Options) {
			o.Registry, o.Config.RegistryMirrors = "127.0.0.1:1", []string{"127.0.0.1:1=" + o.Registry}
		}, "registry", doctor.Warn, "127.0.0.1:1"},
		"a name with a mirror": {func(_ *testing.T, o *doctor.Options) {
			o.Registry, o.Config.RegistryMirrors = "registry.nowhere.invalid", []string{"registry.nowhere.invalid=" + o.Registry}
		}, "DNS", doctor.Warn, "cannot be resolved"},
		"a registry inside":       {func(_ *testing.T, o *doctor.Options) { o.Config.EgressAllow = nil }, "registry", doctor.Fail, "egress_allow"},
		"a login":                 {wrongLogin, "registry", doctor.Fail, "credentials"},
		"a channel":               {func(_ *testing.T, o *doctor.Options) { o.Channels = []string{"http://127.0.0.1:1/c"} }, "channels", doctor.Warn, "no packages from"},
		"a channel in a registry": {func(_ *testing.T, o *doctor.Options) { o.Channels = []string{"oci://127.0.0.1:1/c"} }, "channels", doctor.Warn, "no packages from oci://127.0.0.1:1/c"},
		"a channel elsewhere": {func(_ *testing.T, o *doctor.Options) {
			o.Channels, o.Config.CondaChannelAlias = nil, "http://127.0.0.1:1/"
		}, "channels", doctor.Warn,
			"no packages from http://127.0.0.1:1/conda-forge, http://127.0.0.1:1/bioconda"},
		"a channel by its name": {func(_ *testing.T, o *doctor.Options) {
			o.Config.CondaChannelAlias, o.Config.CondaChannels = strings.TrimSuffix(o.Channels[0], "/conda-forge"), []string{"bioconda=http://127.0.0.1:1/b"}
			o.Channels = nil
		}, "channels", doctor.Warn, "no packages from http://127.0.0.1:1/b:"},
		"a missing file":         {func(_ *testing.T, o *doctor.Options) { o.Config.AdminRegistryAuth = "/nonexistent" }, "files", doctor.Fail, "admin_registry_auth_file: there is no file /nonexistent"},
		"a file of another user": {foreignFile, "files", doctor.Fail, "cannot read"},
		"a sign-in provider":     {func(_ *testing.T, o *doctor.Options) { o.Config.OIDCIssuer = "http://127.0.0.1:1" }, "sign-in", doctor.Fail, "users cannot sign in at http://127.0.0.1:1"},
		"another issuer": {func(t *testing.T, o *doctor.Options) { o.Config.OIDCIssuer = testkit.NewIssuer(t).URL + "/" }, "sign-in", doctor.Fail,
			"did not match"},
		"an issuer without a trusted certificate": {func(t *testing.T, o *doctor.Options) {
			other := httptest.NewTLSServer(http.NotFoundHandler())
			t.Cleanup(other.Close)
			o.Config.OIDCIssuer = other.URL
		}, "sign-in", doctor.Fail, "certificate"},
		"a sign-in without https": {func(t *testing.T, o *doctor.Options) {
			o.Config.OIDCIssuer, o.Config.PlatformURL = testkit.NewIssuer(t).URL, "http://slipway.example.org/api"
		}, "sign-in", doctor.Warn, "back to http://slipway.example.org/api/oauth/callback"},
		"the clock": {func(_ *testing.T, o *doctor.Options) { o.Now = func() time.Time { return time.Now().Add(time.Hour) } }, "clock", doctor.Fail, "off by 1h0m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.check == "control groups" && os.Geteuid() != 0 {
				t.Skip("whoever cannot run builds is not told of their control groups")
			}
			o := healthy(t)
			c.breaks(t, &o)
			findings := doctor.Examine(t.Context(), o)
			if !slices.ContainsFunc(findings, func(f doctor.Finding) bool {
				return f.Check == c.check && (f.State == c.state || c.state == "" && f.State != doctor.OK) && strings.Contains(f.Text, c.want) && (f.Do != "" || c.state == "")
			}) {
				t.Errorf("not found: %+v", findings)
			}
		})
	}
}

// foreignFile names a file that only another user can read, or for root one that the owner of
// data_dir cannot read.
func foreignFile(t *testing.T, o *doctor.Options) {
	t.Helper()
	o.Config.MasterKeyFile = file(t, "x")
	if os.Geteuid() != 0 {
		if err := os.Chmod(o.Config.MasterKeyFile, 0); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.Chown(o.Config.DataDir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
}

// TestSignIn checks what is said of a provider that works, and of files that can be read.
func TestSignIn(t *testing.T) {
	t.Parallel()
	o := healthy(t)
	o.Config.OIDCIssuer, o.Config.OIDCClientID, o.Config.OIDCClientSecretFile = testkit.NewIssuer(t).URL, "slipway", file(t, "secret")
	var got []string
	for _, f := range doctor.Examine(t.Context(), o) {
		if f.Check == "sign-in" || f.Check == "files" {
			got = append(got, string(f.State)+" "+f.Text)
		}
	}
	want := []string{
		"ok this user can read the files that settings name (1)",
		"ok " + o.Config.OIDCIssuer + " responds; its client slipway must have the redirect address http://localhost:1/api/oauth/callback",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "file"), text)
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func listener(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// certificate creates a host's certificate with the given remaining lifetime.
func certificate(host string, left time.Duration) func(*testing.T, *doctor.Options) {
	return func(t *testing.T, o *doctor.Options) {
		t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
			NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(left),
		}
		cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		o.Config.TLSCertFile = file(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
		o.Config.TLSKeyFile = file(t, string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})))
	}
}

// elsewhere runs a slipwayd whose public_url leads to another server.
func elsewhere(t *testing.T, o *doctor.Options) {
	t.Helper()
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }))
	t.Cleanup(admin.Close)
	o.Config.AdminAddr = strings.TrimPrefix(admin.URL, "http://")
	o.Config.PublicURL = "http://" + strings.Replace(o.Registry, "127.0.0.1", "localhost", 1)
}

// wrongLogin stores a login for build_repository that is rejected there.
func wrongLogin(t *testing.T, o *doctor.Options) {
	t.Helper()
	asks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(asks.Close)
	host := strings.TrimPrefix(asks.URL, "http://")
	o.Config.InsecureRegistries = append(o.Config.InsecureRegistries, host)
	o.Config.BuildRepository = host + "/builds"
	o.Config.RegistryAuthFile = file(t, `{"auths":{"`+host+`":{"auth":"dTp3cm9uZw=="}}}`)
}

func natsServer(t *testing.T) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("it does not start")
	}
	return s.ClientURL()
}

// TestBuckets checks a working bucket, and that each problem has a fix without the keys.
func TestBuckets(t *testing.T) {
	t.Parallel()
	s3 := testkit.StartS3(t)
	file := s3.Credentials(t)
	look := func(address, credentials string) doctor.Finding {
		o := healthy(t)
		o.Config.BlobCache, o.Config.BlobCacheLogin = address, credentials
		for _, f := range doctor.Examine(t.Context(), o) {
			if f.Check == "blob cache" {
				if strings.Contains(f.Text+f.Do, testkit.S3Secret) || strings.Contains(f.Text+f.Do, "geheim") || strings.Contains(f.Text, "X-Amz") {
					t.Errorf("it says %+v", f)
				}
				return f
			}
		}
		t.Fatal("nobody looked")
		return doctor.Finding{}
	}
	if f := look(s3.Address(s3.URL), file); f.State != doctor.OK {
		t.Errorf("%+v", f)
	}
	if left := s3.Objects(t); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
	right, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ address, credentials, want string }{
		"wrong keys":              {s3.Address(s3.URL), strings.Replace(string(right), testkit.S3Secret, "geheim", 1), "correct the keys"},
		"no keys":                 {s3.Address(s3.URL), "geheim", "blob_cache_credentials_file"},
		"another bucket":          {strings.Replace(s3.Address(s3.URL), testkit.S3Bucket, "others", 1), string(right), "create the bucket"},
		"another region":          {strings.Replace(s3.Address(s3.URL), "us-east-1", "eu-west-1", 1), string(right), "region"},
		"unreachable for clients": {s3.Address(s3.URL) + "&public_endpoint=http://127.0.0.1:1", string(right), "public_endpoint"},
	} {
		if f := look(c.address, write(t, filepath.Join(t.TempDir(), "credentials"), c.credentials)); f.State != doctor.Fail || !strings.Contains(f.Do, c.want) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestKeepsSecrets checks that errors in an address do not show its password, even if the
// address is malformed because of a % or # in the password.
func TestKeepsSecrets(t *testing.T) {
	t.Parallel()
	for i, password := range []string{"s3cret", "s3cret%zz", "%s3cret", "s3cret#x", "s3cret/x", "s3cret?x", "s3cret\x7f", "s3cret[", "x:s3cret", "s3cret@x"} {
		t.Run(strconv.Itoa(i), func(t *testing.T) { // the name of the test is part of its folder's name
			t.Parallel()
			o := healthy(t)
			o.Config.DatabaseURL = "postgres://u:" + password + "@127.0.0.1:1/d"
			o.Config.RedisURL = "redis://u:" + password + "@127.0.0.1:1/0"
			o.Config.NATSURL = "nats://u:" + password + "@127.0.0.1:1"
			for _, f := range doctor.Examine(t.Context(), o) {
				if strings.Contains(f.Text+f.Do, "s3cret") {
					t.Errorf("with the password %q: %+v", password, f)
				}
			}
		})
	}
}
