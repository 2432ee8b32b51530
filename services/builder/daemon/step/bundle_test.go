package step_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/builder/daemon/step"
)

const bundle = `{"ociVersion":"1.2","process":{"user":{"uid":18446744073709551615},"env":["PATH=/bin","all_proxy=mine",
 "ALL_PROXY=slipway-step:forged","TRACEPARENT=x","OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=unix:///dev/otel-grpc.sock","http_proxy=http://127.0.0.1:3128",
 "ALL_PROXY=slipway-step:us.1","all_proxy=slipway-step:us.1"],
 "capabilities":{"bounding":["CAP_NET_RAW","CAP_CHOWN","CAP_MKNOD","CAP_AUDIT_WRITE","CAP_SYS_ADMIN"],"effective":["CAP_NET_RAW","CAP_SETUID"]}},
 "mounts":[{"destination":"/proc"},{"destination":"/dev/otel-grpc.sock"}],"linux":{"cgroupsPath":"/slipway/us/buildkit/id","namespaces":[{"type":"pid"}]}}`

func write(t testing.TB, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestRestrict checks what is left of a container's privileges.
func TestRestrict(t *testing.T) {
	t.Parallel()
	dir := write(t, bundle)
	b, err := step.ReadBundle(dir)
	if err != nil {
		t.Fatal(err)
	}
	network, err := b.Restrict(true)
	if err != nil || !network || b.Token != "slipway-step:us.1" {
		t.Errorf("got %v, %v, the token %q", network, err, b.Token)
	}
	b.Place("/slipway/us-3/build", "id", "/proc/7/ns/net")
	if err := b.Write(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"NET_RAW", "MKNOD", "AUDIT_WRITE", "SYS_ADMIN", "otel", "OTEL", "TRACEPARENT", "slipway-step", "/slipway/us/"} {
		if strings.Contains(string(raw), gone) {
			t.Errorf("%s is still in %s", gone, raw)
		}
	}
	for _, there := range []string{
		"CAP_CHOWN", "CAP_SETUID", `"noNewPrivileges":true`, `"cgroupsPath":"/slipway/us-3/build/id"`, "all_proxy=mine", "http_proxy=http://127.0.0.1:3128",
		`{"path":"/proc/7/ns/net","type":"network"}`, `"uid":18446744073709551615`, `"destination":"/proc"`,
	} {
		if !strings.Contains(string(raw), there) {
			t.Errorf("%s is not in %s", there, raw)
		}
	}
}

// TestRestrictNetworks distinguishes steps without a network, with one, and with a foreign
// one.
func TestRestrictNetworks(t *testing.T) {
	t.Parallel()
	for namespaces, want := range map[string]string{
		`[]`: "own", `[{"type":"network"}]`: "none", `[{"type":"network","path":""}]`: "none", `[{"type":"network","path":"/proc/1/ns/net"}]`: "refused",
	} {
		b, err := step.ReadBundle(write(t, `{"process":{},"linux":{"namespaces":`+namespaces+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		network, err := b.Restrict(false)
		got := map[bool]string{true: "own", false: "none"}[network]
		if err != nil {
			got = "refused"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", namespaces, got, want)
		}
	}
}

// FuzzRestrict parses arbitrary bundles.
func FuzzRestrict(f *testing.F) {
	for _, text := range []string{bundle, `{}`, `[]`, `{"process":{"env":[1]},"linux":{"namespaces":[{}]}}`, `{"process":[],"linux":3}`, `null`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		dir := write(t, text)
		b, err := step.ReadBundle(dir)
		if err != nil {
			return
		}
		if _, err := b.Restrict(true); err != nil {
			return
		}
		b.Place("/a", "b", "/c")
		if err := b.Write(); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
		if err != nil || !json.Valid(raw) {
			t.Fatalf("%v: %s", err, raw)
		}
		if strings.Contains(string(raw), `"destination":"/dev/otel-grpc.sock"`) {
			t.Errorf("the tracing socket is still in %s", raw)
		}
	})
}

// TestRestrictSeparates checks that a step which would share outside processes gets its own
// namespaces, with the existing users.
func TestRestrictSeparates(t *testing.T) {
	t.Parallel()
	dir := write(t, `{"process":{},"linux":{"namespaces":[{"type":"mount"}]}}`)
	b, err := step.ReadBundle(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Restrict(false); err != nil {
		t.Fatal(err)
	}
	if err := b.Write(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, there := range []string{`{"type":"mount"},{"type":"pid"},{"type":"user"}`, `"uidMappings":[{"containerID":0,"hostID":0,"size":`, `"gidMappings":[{`} {
		if !strings.Contains(string(raw), there) {
			t.Errorf("%s is not in %s", there, raw)
		}
	}
}
