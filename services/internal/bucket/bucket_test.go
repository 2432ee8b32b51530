package bucket_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/bucket"
	"slipway.dev/services/internal/testkit"
)

func open(t *testing.T, address, credentials string) *bucket.Bucket {
	t.Helper()
	a, err := bucket.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bucket.Open(a, credentials)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func sum(content string) string {
	s := sha256.Sum256([]byte(content))
	return hex.EncodeToString(s[:])
}

func TestObjects(t *testing.T) {
	t.Parallel()
	s3 := testkit.StartS3(t)
	b := open(t, s3.Address(s3.URL), s3.Credentials(t))
	if _, err := b.Stat(t.Context(), "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat before Put: %v", err)
	}
	const content = "some content"
	put := func(name string, body io.Reader, isNew bool) error {
		return b.Put(t.Context(), name, body, int64(len(content)), sum(content), isNew)
	}
	if err := put("x", strings.NewReader(content), false); err != nil {
		t.Fatal(err)
	}
	if err := put("x", strings.NewReader(content), true); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Put of an existing object: %v", err)
	}
	if o, err := b.Stat(t.Context(), "x"); err != nil || o.Size != int64(len(content)) || time.Since(o.Modified).Abs() > time.Minute {
		t.Errorf("Stat returned %+v, %v", o, err)
	}
	if got, _, err := b.Get(t.Context(), "x", 4); err != nil || string(got) != content[:4] {
		t.Errorf("Get returned %q, %v", got, err)
	}

	for name, body := range map[string]io.Reader{
		"poisoned": strings.NewReader(strings.ToUpper(content)),
		"short":    strings.NewReader(content[1:]),
		"broken":   io.MultiReader(strings.NewReader(content[:4]), brokenReader{}),
	} {
		if err := put(name, body, false); err == nil {
			t.Errorf("Put accepted a %s body", name)
		}
		if _, err := b.Stat(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after Put of a %s body, Stat returned %v", name, err)
		}
	}

	var names []string
	for o, err := range b.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, o.Name)
	}
	if len(names) != 1 || names[0] != "x" {
		t.Errorf("the list is %q", names)
	}
	for range 2 {
		if err := b.Delete(t.Context(), "x"); err != nil {
			t.Errorf("Delete returned %v", err)
		}
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("broken") }

// TestPresign verifies that a URL grants access to one object, in whole and in parts, and
// to no other one.
func TestPresign(t *testing.T) {
	t.Parallel()
	s3 := testkit.StartS3(t)
	b := open(t, s3.Address(s3.URL), s3.Credentials(t))
	const content = "some content"
	if err := b.Put(t.Context(), "x", strings.NewReader(content), int64(len(content)), sum(content), false); err != nil {
		t.Fatal(err)
	}
	location, err := b.Presign(t.Context(), "x", time.Minute)
	if err != nil || strings.Contains(location, testkit.S3Secret) {
		t.Fatal(location, err)
	}
	get := func(url, part string) (int, string, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if part != "" {
			req.Header.Set("Range", part)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body), resp.Header.Get("Content-Type")
	}
	if code, body, kind := get(location, ""); code != http.StatusOK || body != content || kind != "application/octet-stream" {
		t.Errorf("the whole object: got %d %q %s", code, body, kind)
	}
	if code, body, _ := get(location, "bytes=1-3"); code != http.StatusPartialContent || body != content[1:4] {
		t.Errorf("a range: got %d %q", code, body)
	}
	if code, body, _ := get(strings.Replace(location, "/x?", "/y?", 1), ""); code != http.StatusForbidden || strings.Contains(body, content) {
		t.Errorf("another object: got %d %q", code, body)
	}
	if code, _, _ := get(strings.Split(location, "?")[0], ""); code != http.StatusForbidden {
		t.Errorf("without the signature: got %d", code)
	}
}

// TestKeys verifies that requests need valid keys, that errors do not contain keys, and
// that a changed file is read again.
func TestKeys(t *testing.T) {
	t.Parallel()
	s3 := testkit.StartS3(t)
	file := s3.Credentials(t)
	right, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"wrong":     strings.Replace(string(right), testkit.S3Secret, "geheim", 1),
		"unknown":   strings.Replace(string(right), testkit.S3Key, "geheim", 1),
		"half":      "[default]\naws_access_key_id = geheim\n",
		"malformed": "geheim\n= geheim [",
		"empty":     "",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		b := open(t, s3.Address(s3.URL), file)
		err := b.Put(t.Context(), "x", strings.NewReader("x"), 1, sum("x"), false)
		if err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := open(t, s3.Address(s3.URL), file)
	if _, err := b.Stat(t.Context(), "x"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without keys: %v", err)
	}
	if err := os.WriteFile(file, right, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Stat(t.Context(), "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("with keys: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Stat(t.Context(), "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the file was deleted: %v", err)
	}
}

// TestUnreachable verifies that requests to an unreachable server fail without a URL in the
// error, and that a cancelled context ends them.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	file := (&testkit.S3{}).Credentials(t)
	b := open(t, "s3://blobs?endpoint=http://127.0.0.1:1", file)
	if _, err := b.Stat(t.Context(), "x"); err == nil || strings.Contains(err.Error(), "http://") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Put(ctx, "x", bytes.NewReader([]byte("x")), 1, "", false); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
