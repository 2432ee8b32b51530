package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// processPerRole starts every role in its own process, with two processes of registry and
// container, on real servers and with mTLS, behind a reverse proxy like an ingress.
func processPerRole(t testing.TB, s settings) *program {
	t.Helper()
	pg, rd, nt := testkit.StartPostgres(t), testkit.StartRedis(t), testkit.StartNATS(t)
	port := func() string { return "127.0.0.1:" + testkit.FreePort(t) }
	shared := settings{"database_url": pg.URL, "redis_url": rd.URL, "nats_url": nt.URL}
	maps.Copy(shared, s)
	front := &frontDoor{ready: make(chan struct{})}
	server := httptest.NewServer(front)
	t.Cleanup(server.Close)
	shared["public_url"] = server.URL
	shared["trusted_proxies"] = "127.0.0.1"
	migrate(t, shared)

	p := &program{t: t, url: server.URL, host: strings.TrimPrefix(server.URL, "http://"), redis: rd, nats: nt, postgres: pg, token: adminToken, authority: newAuthority(t), addresses: map[string]string{}}
	role := func(name, role string, more settings) string {
		env := settings{"admin_addr": port(), "grpc_addr": port(), "http_addr": port(), "platform_http_addr": port(), "data_dir": t.TempDir()}
		maps.Copy(env, shared)
		maps.Copy(env, p.authority.certificate(t, role))
		maps.Copy(env, more)
		if role == "builder" { // workers get the operator's rules with each build
			maps.DeleteFunc(env, func(key, _ string) bool { return strings.HasPrefix(key, "policy_") })
		}
		p.addresses[name] = env["grpc_addr"]
		p.add(name, env["admin_addr"], []string{role}, env)
		if name == "gateway" {
			p.platform = "http://" + env["platform_http_addr"]
		}
		if role == "registry" || role == "gateway" {
			return env["http_addr"]
		}
		return env["grpc_addr"]
	}
	// Each replica of a role calls the replica with the same number.
	platform := role("platform", "platform", nil)
	first, second := settings{"platform_addr": platform}, settings{"platform_addr": platform}
	both := func(name, key string) (answers []string) {
		for i, peers := range []settings{first, second} {
			address := role(fmt.Sprintf("%s-%d", name, i+1), name, peers)
			answers = append(answers, address)
			if key != "" {
				peers[key] = address
			}
		}
		return answers
	}
	if s["build_repository"] != "" {
		both("build", "build_addr")
	}
	if s["conda_channel_alias"] != "" {
		conda := role("conda", "conda", first)
		first["conda_addr"], second["conda_addr"] = conda, conda
	}
	if s["scan_database"] != "" {
		first["inspect_addr"] = port()
		second["inspect_addr"] = first["inspect_addr"]
	}
	both("container", "container_addr")
	if s["build_repository"] != "" {
		both("builder", "") // reads layers from the container service
	}
	p.replicas = both("registry", "")
	reading := maps.Clone(first)
	if first["inspect_addr"] != "" {
		reading["grpc_addr"] = first["inspect_addr"]
	}
	inspect := role("inspect", "inspect", reading)
	first["inspect_addr"], second["inspect_addr"] = inspect, inspect
	metrics := role("metrics", "metrics", settings{"platform_addr": platform})
	first["metrics_addr"], second["metrics_addr"] = metrics, metrics
	front.set(role("gateway", "gateway", first), p.replicas)
	p.another = func() string { return "http://" + role("gateway-2", "gateway", second) }
	return p
}

func migrate(t testing.TB, s settings) {
	t.Helper()
	cmd := exec.Command(filepath.Join(binaries, "slipwayd"), "migrate", "--database-url", s["database_url"], "--data-dir", t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("slipwayd migrate: %v\n%s", err, out)
	}
}

// frontDoor routes /v2/ to the registries round-robin, and other paths to the gateway.
type frontDoor struct {
	// ready is closed when set was called.
	ready      chan struct{}
	gateway    http.Handler
	registries []http.Handler
	turn       atomic.Int64
}

func (f *frontDoor) set(gateway string, registries []string) {
	proxy := func(addr string) http.Handler {
		p := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
		p.FlushInterval = -1
		p.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
		return p
	}
	f.gateway = proxy(gateway)
	for _, r := range registries {
		f.registries = append(f.registries, proxy(r))
	}
	close(f.ready)
}

func (f *frontDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	<-f.ready
	if strings.HasPrefix(r.URL.Path, "/v2/") {
		f.registries[int(f.turn.Add(1))%len(f.registries)].ServeHTTP(w, r)
		return
	}
	f.gateway.ServeHTTP(w, r)
}

// An authority signs the certificates of roles.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{key: newKey(t), cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	a.file = writePEM(t, t.TempDir(), "ca.pem", "CERTIFICATE", sign(t, a.cert, a.cert, a.key, a.key))
	return a
}

// certificate creates a certificate of a role for 127.0.0.1, and returns the settings that use
// it.
func (a *authority) certificate(t testing.TB, role string) settings {
	t.Helper()
	dir, key := t.TempDir(), newKey(t)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: role}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, URIs: []*url.URL{{Scheme: "spiffe", Host: "slipway", Path: "/" + role}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert := sign(t, leaf, a.cert, key, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return settings{
		"rpc_ca_file":   a.file,
		"rpc_cert_file": writePEM(t, dir, "cert.pem", "CERTIFICATE", cert),
		"rpc_key_file":  writePEM(t, dir, "key.pem", "PRIVATE KEY", der),
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sign(t testing.TB, what, by *x509.Certificate, key, byKey *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, what, by, &key.PublicKey, byKey)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func writePEM(t testing.TB, dir, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
