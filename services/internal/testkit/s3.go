package testkit

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The keys of S3 servers, and the name of their bucket.
const (
	S3Key    = "SLIPWAYTESTKEY"
	S3Secret = "slipway-test-secret"
	S3Bucket = "blobs"
)

// An S3 is a real S3 server that verifies signatures.
type S3 struct {
	*Server
	// Dir holds the bucket's objects as files.
	Dir string
}

// StartS3 runs versitygw on a folder with one bucket. It is built from the module
// services/tools/s3.
func StartS3(t testing.TB) *S3 {
	t.Helper()
	if !Real() {
		t.Skip("needs an S3 server that is made of services/tools: set SLIPWAY_TEST_REAL")
	}
	port, dir := FreePort(t), t.TempDir()
	s := &S3{Dir: filepath.Join(dir, "data", S3Bucket), Server: &Server{
		URL: "http://127.0.0.1:" + port, name: versitygw(t), ready: accepts(port),
		args: []string{
			"--access", S3Key, "--secret", S3Secret, "--port", "127.0.0.1:" + port, "--quiet", "--keep-alive",
			"posix", "--sidecar", filepath.Join(dir, "meta"), filepath.Join(dir, "data"),
		},
	}}
	for _, d := range []string{s.Dir, filepath.Join(dir, "meta")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.begin(t)
	return s
}

// Address returns the bucket's address for blob_cache. endpoint is the address of the
// server or of a proxy.
func (s *S3) Address(endpoint string) string {
	return "s3://" + S3Bucket + "/kept?region=us-east-1&endpoint=" + url.QueryEscape(endpoint)
}

// Credentials returns a file with the keys for blob_cache_credentials_file.
func (s *S3) Credentials(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials")
	text := "[default]\naws_access_key_id = " + S3Key + "\naws_secret_access_key = " + S3Secret + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Objects returns the sizes of the objects in the bucket by name.
func (s *S3) Objects(t testing.TB) map[string]int64 {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(s.Dir, "kept", "*"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			out[filepath.Base(path)] = info.Size()
		}
	}
	return out
}

// versitygw returns the path of the program, which the go command builds and caches.
func versitygw(t testing.TB) string {
	t.Helper()
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "slipway.dev/services").Output()
	if err != nil {
		t.Fatal(err)
	}
	tool := exec.Command("go", "-C", filepath.Join(strings.TrimSpace(string(root)), "tools", "s3"), "tool", "-n", "versitygw")
	tool.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	said, err := tool.Output()
	if err != nil {
		t.Fatalf("making versitygw: %v", err)
	}
	return strings.TrimSpace(string(said))
}
