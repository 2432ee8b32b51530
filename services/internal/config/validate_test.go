package config_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/internal/config"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	file := write(t, "x")
	const provider = "--oidc-issuer=https://id.example.org --oidc-client-id=slipway"
	for _, tc := range []struct {
		name, args string // want is part of the error; "" for none
		want       string
	}{
		{"https", "--public-url=https://slipway.example.org --platform-url=https://p.example.org/api", ""},
		{"a slash at the end", "--public-url=https://slipway.example.org/", ""},
		{"loopback by address", "--public-url=http://127.0.0.1:9090 --platform-url=http://[::1]:9091", ""},
		{"all addresses", "--http-addr=:9090", ""},
		{"address without a port", "--http-addr=localhost", "http_addr"},
		{"upstream cache without a blob cache", "--upstream-cache=true", "upstream_cache needs blob_cache"},
		{"upstream cache with a long permission", "--upstream-cache=true --blob-cache=/tmp/blobs --upstream-cache-auth=25h", "upstream_cache_auth"},
		{"blob cache without a size", "--blob-cache=/tmp/blobs --blob-cache-size=0", "blob_cache_size"},
		{"a bucket", "--blob-cache=s3://blobs/a?region=eu-west-1 --blob-cache-credentials-file=FILE", ""},
		{"a bucket without a name", "--blob-cache=s3:///a", "blob_cache has an invalid bucket name"},
		{"a bucket with keys", "--blob-cache=s3://key:secret@blobs", "blob_cache must not contain keys"},
		{"a bucket without its file", "--blob-cache=s3://blobs --blob-cache-credentials-file=FILE.none", "blob_cache_credentials_file"},
		{"keys of a bucket for a folder", "--blob-cache=/tmp/blobs --blob-cache-credentials-file=FILE", "blob_cache_credentials_file"},
		{"admin address", "--admin-addr=x", "admin_addr"},
		{"gRPC address", "--grpc-addr=", "grpc_addr"},
		{"plain http at a public host", "--public-url=http://slipway.example.org", "public_url"},
		{"no loopback name", "--public-url=http://localhost.example.org", "public_url"},
		{"a path", "--public-url=https://example.org/slipway", "public_url"},
		{"a query", "--platform-url=https://example.org/?a=b", "platform_url"},
		{"a user", "--public-url=https://me@example.org", "public_url"},
		{"no scheme", "--public-url=example.org", "public_url"},
		{"another scheme", "--platform-url=ftp://example.org", "platform_url"},
		{"empty", "--platform-url=", ""},
		{"certificate alone", "--tls-cert-file=FILE", "tls_cert_file and tls_key_file"},
		{"key alone", "--tls-key-file=FILE", "tls_cert_file and tls_key_file"},
		{"certificate and key", "--tls-cert-file=FILE --tls-key-file=FILE", ""},
		{"mutual TLS", "--rpc-cert-file=FILE --rpc-key-file=FILE --rpc-ca-file=FILE", ""},
		{"mutual TLS without an authority", "--rpc-cert-file=FILE --rpc-key-file=FILE", "rpc_cert_file and rpc_ca_file"},
		{"a file that is not there", "--registry-auth-file=FILE.none", "registry_auth_file"},
		{"a secret that is not there", "--rpc-secret-file=FILE.none", "rpc_secret_file"},
		{"certificates", "--signing-fulcio=https://fulcio.example.org --signing-timestamp=https://tsa.example.org/api/v1/timestamp --signing-identity-token-file=FILE --signing-trusted-root=FILE", ""},
		{"certificates without timestamps", "--signing-fulcio=https://fulcio.example.org --signing-identity-token-file=FILE", "signing_fulcio and signing_timestamp"},
		{"certificates without an identity", "--signing-fulcio=https://fulcio.example.org --signing-timestamp=https://tsa.example.org", "signing_fulcio and signing_identity_token_file"},
		{"certificates over plain http", "--signing-fulcio=http://fulcio.example.org --signing-timestamp=https://tsa.example.org --signing-identity-token-file=FILE", "signing_fulcio must be https"},
		{"certificates and a key", "--signing-fulcio=https://fulcio.example.org --signing-timestamp=https://tsa.example.org --signing-identity-token-file=FILE --signing-key-file=FILE", "excludes signing_key_file"},
		{"certificates for Singularity images", "--signing-fulcio=https://fulcio.example.org --signing-timestamp=https://tsa.example.org --signing-identity-token-file=FILE --sign-sif=true", "sign_sif requires a key file"},
		{"authorities without certificates", "--signing-trusted-root=FILE", "signing_fulcio and signing_trusted_root"},
		{"proxies", "--trusted-proxies=10.0.0.0/8,::1", ""},
		{"a proxy's name", "--trusted-proxies=proxy.internal", "trusted_proxies"},
		{"origins", "--cors-origins=https://portal.example.org,http://localhost:8000", ""},
		{"an origin with a path", "--cors-origins=https://portal.example.org/", "cors_origins"},
		{"an origin in upper case", "--cors-origins=https://Portal.example.org", "cors_origins"},
		{"an origin with its default port", "--cors-origins=https://portal.example.org:443", "cors_origins"},
		{"any origin", "--cors-origins=*", "cors_origins"},
		{"a plain origin", "--cors-origins=http://portal.example.org", "cors_origins"},
		{"a short life", "--token-ttl=59s", "token_ttl"},
		{"the shortest life", "--token-ttl=1m", ""},
		{"a long life", "--token-ttl=8761h", "token_ttl"},
		{"half a processor", "--build-cpus=0.5", ""},
		{"too small a part of a processor", "--build-cpus=0.001", "build_cpus"},
		{"a negative number of processors", "--build-cpus=-1", "build_cpus"},
		{"a compressor alone", "--sif-compression=gzip", ""},
		{"a compressor and its level", "--sif-compression=gzip-6", ""},
		{"a level beyond the maximum", "--sif-compression=gzip-10", "sif_compression"},
		{"another compressor", "--sif-compression=lzma", "sif_compression"},
		{"a sink of the audit trail", "--audit-sink=/var/log/slipway/audit.jsonl", ""},
		{"a receiver of the audit trail", "--audit-sink=syslog+tls://logs.example.org:6514", ""},
		{"a relative sink of the audit trail", "--audit-sink=audit.jsonl", "audit_sink must be an absolute path"},
		{"automatic users", provider + " --oidc-auto-create=example.org,groups,invitations,invitations@example.org --oidc-groups=staff=lab", ""},
		{"a misspelt kind of automatic users", provider + " --oidc-auto-create=invitation", `oidc_auto_create: "invitation" is not a domain`},
		{"a domain without a dot", provider + " --oidc-auto-create=invitations@corp", "oidc_auto_create"},
		{"an address of automatic users", provider + " --oidc-auto-create=kim@example.org", "oidc_auto_create"},
		{"log level", "--log-level=loud", "log_level"},
		{"log level in capitals", "--log-level=WARN", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, err := load(t, strings.Fields(strings.ReplaceAll(tc.args, "FILE", file)), nil, "")
			if err != nil {
				t.Fatal(err)
			}
			err = c.Validate()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestValidateReportsAllProblems(t *testing.T) {
	t.Parallel()
	c, err := load(t, []string{
		"--http-addr=x", "--public-url=x", "--tls-key-file=/none", "--admin-token-file=/none", "--token-ttl=1s", "--log-level=x",
	}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	got := c.Validate().Error()
	for _, key := range []string{"http_addr", "public_url", "tls_cert_file", "tls_key_file: ", "admin_token_file", "token_ttl", "log_level"} {
		if !strings.Contains(got, key) {
			t.Errorf("%s\nlacks %s", got, key)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "localhost.example.org:1": false, "127.0.0.1": false,
	} {
		if got := config.IsLoopback(in); got != want {
			t.Errorf("IsLoopback(%q) = %v", in, got)
		}
	}
}

func TestParseNetworks(t *testing.T) {
	t.Parallel()
	got, err := config.ParseNetworks([]string{"10.1.2.3/8", "192.168.1.1", "::1"})
	want := []string{"10.0.0.0/8", "192.168.1.1/32", "::1/128"}
	if diff := cmp.Diff(want, texts(got)); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for _, in := range []string{"", "host", "10.0.0.0/33", "1.2.3"} {
		if _, err := config.ParseNetworks([]string{"::1", in}); err == nil {
			t.Errorf("%q was read", in)
		}
	}
}

func texts(list []netip.Prefix) []string {
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = p.String()
	}
	return out
}

func TestBytes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in string
		want     config.Bytes
		text     string
	}{
		{"zero", "0", 0, "0"},
		{"plain", "1023", 1023, "1023B"},
		{"bytes", "12B", 12, "12B"},
		{"KiB", "1KiB", 1 << 10, "1KiB"},
		{"MiB with blanks", " 512 MiB ", 512 << 20, "512MiB"},
		{"GiB", "8GiB", 8 << 30, "8GiB"},
		{"TiB", "2TiB", 2 << 40, "2TiB"},
		{"a larger unit fits", "2048MiB", 2 << 30, "2GiB"},
		{"no larger unit fits", "1025MiB", 1025 << 20, "1025MiB"},
		{"the largest", "4194304TiB", 1 << 62, "4194304TiB"},
	} {
		var b config.Bytes
		if err := b.UnmarshalText([]byte(tc.in)); err != nil || b != tc.want {
			t.Errorf("%s: got %d, %v; want %d", tc.name, b, err, tc.want)
		}
		if text, err := b.MarshalText(); err != nil || string(text) != tc.text {
			t.Errorf("%s: written as %s, %v; want %s", tc.name, text, err, tc.text)
		}
	}
	for _, in := range []string{"", "GiB", "-1", "1.5GiB", "1GB", "1gib", "8388608TiB", "9223372036854775808", "1 2"} {
		b := config.Bytes(7)
		if err := b.UnmarshalText([]byte(in)); err == nil || b != 7 {
			t.Errorf("%q was read as %d", in, b)
		}
	}
}

func FuzzBytes(f *testing.F) {
	for _, in := range []string{"0", "8GiB", "512 MiB", "1B", "4194304TiB", "-1"} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var b, again config.Bytes
		if b.UnmarshalText([]byte(in)) != nil {
			return
		}
		text, err := b.MarshalText()
		if err == nil {
			err = again.UnmarshalText(text)
		}
		if err != nil || again != b || b < 0 {
			t.Errorf("%q is %d, written as %s: %d, %v", in, b, text, again, err)
		}
	})
}

func TestPage(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "config.md"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Page(), string(want)); diff != "" {
		t.Errorf("deploy/config.md is not current; write it with `slipwayd config --markdown`: %s", diff)
	}
}
