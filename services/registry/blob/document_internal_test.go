package blob

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
)

// nameOf returns the name of a document that consists of one repeated digit.
func nameOf(digit string) string { return strings.Repeat(digit, 64) }

// document returns a document of a cache; "" if it is not cached.
func document(t *testing.T, c Cache, name string) string {
	t.Helper()
	body, size, ok := c.Document(t.Context(), name)
	if !ok {
		return ""
	}
	defer body.Close()
	content, err := io.ReadAll(body)
	if err != nil || int64(len(content)) != size {
		t.Errorf("the document of %d bytes is read as %q, %v", size, content, err)
	}
	return string(content)
}

// TestDocumentsInAFolder checks that documents can be replaced, count towards the size of the
// folder, are evicted like blobs, and are there after a restart.
func TestDocumentsInAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := openCache(t, dir, 3*limits.DocumentCharge+100)
	c.SetDocument(nameOf("a"), []byte("first"))
	c.SetDocument(nameOf("a"), []byte("second one"))
	if got := document(t, c, nameOf("a")); got != "second one" || c.used() != limits.DocumentCharge+10 {
		t.Errorf("it is %q, and %d bytes are used", got, c.used())
	}
	if got := document(t, c, nameOf("b")); got != "" {
		t.Errorf("another is %q", got)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = openCache(t, dir, 3*limits.DocumentCharge+100)
	if got := document(t, c, nameOf("a")); got != "second one" || c.used() != limits.DocumentCharge+10 {
		t.Errorf("after a restart it is %q, and %d bytes are used", got, c.used())
	}
	keepAs(t, c, keyOf("blob"), "blob")
	c.SetDocument(nameOf("b"), []byte("b"))
	document(t, c, nameOf("a")) // it is used, so that the blob is the oldest
	c.SetDocument(nameOf("c"), []byte(strings.Repeat("c", 100)))
	if has(c, keyOf("blob")) || document(t, c, nameOf("a")) == "" || document(t, c, nameOf("c")) == "" {
		t.Errorf("the least recently used is not evicted first; %d bytes are used", c.used())
	}
	c.SetDocument(nameOf("d"), make([]byte, 4*limits.DocumentCharge))
	if n, _ := files(t, dir); document(t, c, nameOf("d")) != "" || c.used() != 0 || n != 0 {
		t.Errorf("after a document that does not fit, %d bytes in %d files are used", c.used(), n)
	}
}

// TestDocumentsOfABrokenFolder checks that a missing file is not found, and that nothing is written
// to a full disk.
func TestDocumentsOfABrokenFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := openCache(t, dir, 1<<20)
	c.SetDocument(nameOf("a"), []byte("a"))
	if err := os.Remove(filepath.Join(dir, nameOf("a")+"-doc")); err != nil {
		t.Fatal(err)
	}
	if got := document(t, c, nameOf("a")); got != "" || c.used() != 0 || testutil.ToFloat64(c.failed) != 1 {
		t.Errorf("it is %q, and %d bytes are used", got, c.used())
	}
	c.diskFull = func() error { return errors.New("full") }
	c.SetDocument(nameOf("a"), []byte("a"))
	if n, _ := files(t, dir); n != 0 || c.used() != 0 {
		t.Errorf("on a full disk there are %d files", n)
	}
	c.diskFull = nil
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	c.SetDocument(nameOf("a"), []byte("a"))
	if got := document(t, c, nameOf("a")); got != "" || c.used() != 0 {
		t.Errorf("without the folder it is %q, and %d bytes are used", got, c.used())
	}
}

// TestDocumentsInABucket checks that replicas share documents, and that they are counted and
// evicted like blobs.
func TestDocumentsInABucket(t *testing.T) {
	t.Parallel()
	s := newTroubled(t)
	one, _ := openBucket(t, s, 1<<20)
	two, ahead := openBucket(t, s, 1<<20)
	for _, content := range []string{"first", "second one"} {
		one.SetDocument(nameOf("a"), []byte(content))
		testkit.Until(t, content, func() error {
			if document(t, two, nameOf("a")) != content {
				return io.ErrUnexpectedEOF
			}
			return nil
		})
	}
	if got := document(t, two, nameOf("b")); got != "" {
		t.Errorf("another is %q", got)
	}
	if err := two.sweep(t.Context()); err != nil || two.used() != limits.DocumentCharge+10 {
		t.Errorf("after a sweep %d bytes are used, %v", two.used(), err)
	}
	ahead.Store(int64(3 * limits.BucketUse))
	two.limit = limits.DocumentCharge
	if err := two.sweep(t.Context()); err != nil || two.used() != 0 || document(t, two, nameOf("a")) != "" {
		t.Errorf("after its eviction %d bytes are used, %v", two.used(), err)
	}
}
