package cache

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/mount/erofs"
)

// ErrMissing is returned if the cache does not have what was requested.
var ErrMissing = errors.New("not in the cache")

// Document returns a manifest, config or compressed index by its digest, which is verified.
func (c *Cache) Document(digest string) ([]byte, error) {
	c.mu.Lock()
	b, ok := c.memory[digest]
	c.mu.Unlock()
	if ok {
		return b, nil
	}
	h := hexOf(digest)
	b, _, err := c.read(limits.MountIndex, documents, h)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", digest, errors.Join(ErrMissing, err))
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != h {
		return nil, fmt.Errorf("%s: %w: the file has another digest", digest, ErrMissing)
	}
	return b, nil
}

// AddDocument stores a document, and holds it in memory for this process. The caller has verified the digest.
func (c *Cache) AddDocument(digest string, b []byte) {
	c.mu.Lock()
	if c.memory == nil {
		c.memory = map[string][]byte{}
	}
	c.memory[digest] = b
	c.mu.Unlock()
	c.storeDocument(digest, b)
}

func (c *Cache) storeDocument(digest string, b []byte) {
	if h := hexOf(digest); h != "" && !c.has(documents, h) {
		c.write(b, documents, h)
	}
}

// Index opens the index of an environment by the digests of its compressed and of its uncompressed bytes. The function get fetches the former if the
// cache does not have them. The result is a mapping of a file if possible, and path is that file; otherwise path is "".
func (c *Cache) Index(digest, want string, get func() ([]byte, error)) (x *erofs.Index, path string, err error) {
	h := hexOf(digest)
	if h == "" {
		return nil, "", fmt.Errorf("the index has the digest %q; only sha256 is supported", digest)
	}
	if x, path, err = c.mapped(h); err == nil {
		return x, path, nil
	}
	packed, err := c.Document(digest)
	if err != nil {
		if packed, err = get(); err != nil {
			return nil, "", err
		}
		if sum := sha256.Sum256(packed); hex.EncodeToString(sum[:]) != h {
			return nil, "", fmt.Errorf("the index that was fetched has the digest sha256:%x instead of %s", sum, digest)
		}
		c.storeDocument(digest, packed)
	}
	raw, err := decompress(packed)
	if err != nil {
		return nil, "", err
	}
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != hexOf(want) {
		return nil, "", fmt.Errorf("the index has the digest sha256:%x instead of %s", sum, want)
	}
	if c.write(raw, indexes, h) {
		if x, path, err = c.mapped(h); err == nil {
			return x, path, nil
		}
	}
	x, err = erofs.Open(raw)
	return x, "", err
}

func decompress(packed []byte) ([]byte, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(limits.MountIndexRaw))
	if err != nil {
		return nil, fmt.Errorf("decompressing an index: %w", err)
	}
	defer d.Close()
	raw, err := d.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("decompressing an index: %w", err)
	}
	return raw, nil
}

// mapped maps an uncompressed index, whose digest is not verified: only one that other users cannot change is used.
func (c *Cache) mapped(h string) (*erofs.Index, string, error) {
	f, err := c.open(indexes, h)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = f.Close() }()
	if !f.trusted || f.size == 0 || f.size > limits.MountIndexRaw {
		return nil, "", ErrMissing
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(f.size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, "", fmt.Errorf("mapping %s: %w", f.Name(), err)
	}
	x, err := erofs.Open(b)
	if err != nil {
		_ = unix.Munmap(b)
		return nil, "", fmt.Errorf("%s: %w", f.Name(), err)
	}
	_ = unix.Madvise(b, unix.MADV_DONTNEED) // the pages of the check; they stay in the page cache
	return x, f.Name(), nil
}

// A Name is what a name resolved to.
type Name struct {
	// Name is what the user wrote, e.g. an image name or a list of packages.
	Name string `json:"name"`
	// Image is the name of the image at its registry.
	Image string `json:"image"`
	// ImageDigest and Environment are the digests of the manifests of the image and of its environment.
	ImageDigest string    `json:"imageDigest"`
	Environment string    `json:"environment"`
	Time        time.Time `json:"time"`
	// Expires is when the name of the image expires; zero for never.
	Expires time.Time `json:"expires,omitzero"`
	// Verified identifies the keys or authorities whose signatures of the image and the environment were
	// verified; "" for none.
	Verified string `json:"verified,omitempty"`
}

// Used returns the digest by which the use of an image is recorded: that of its environment, or its own.
func (n Name) Used() string { return cmp.Or(n.Environment, n.ImageDigest) }

// WithoutToken returns the name without the token of a name that a server issued. Such a name cannot be used at the server.
func (n Name) WithoutToken() Name {
	n.Name, n.Image = withoutToken(n.Name), withoutToken(n.Image)
	return n
}

// token matches the token in the name of an image that a server issued.
//
//nolint:gochecknoglobals // an immutable value
var token = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/wt/[A-Za-z0-9_-]+/`) })

func withoutToken(name string) string { return token().ReplaceAllString(name, "/wt/…/") }

func nameFile(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// Resolved returns what a key, such as a name with a platform, resolved to earlier. Records that other users can change are
// ignored.
func (c *Cache) Resolved(key string) (Name, bool) {
	b, trusted, err := c.read(limits.Document, names, nameFile(key))
	if err != nil || !trusted {
		return Name{}, false
	}
	var n Name
	if err := json.Unmarshal(b, &n); err != nil || hexOf(n.Used()) == "" {
		return Name{}, false
	}
	return n, true
}

// Remember records what a key resolved to.
func (c *Cache) Remember(key string, n Name) {
	b, err := json.Marshal(n)
	if err != nil {
		c.failed(err)
		return
	}
	c.write(b, names, nameFile(key))
}

// Touch records that an environment is used, at most once a day. The record is what was used.
func (c *Cache) Touch(environment string, n Name, now time.Time) {
	h := hexOf(environment)
	if h == "" {
		return
	}
	path := filepath.Join(c.dir, envs, h)
	info, err := os.Lstat(path)
	switch {
	case err == nil && now.Sub(info.ModTime()) < 24*time.Hour:
		return
	case err == nil:
		c.failed(os.Chtimes(path, now, now))
		return
	case !errors.Is(err, fs.ErrNotExist):
		c.failed(err)
		return
	}
	b, err := json.Marshal(n.WithoutToken()) // other users may read it
	if err != nil {
		c.failed(err)
		return
	}
	c.write(b, envs, h)
}
