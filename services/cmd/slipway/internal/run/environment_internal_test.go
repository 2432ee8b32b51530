package run

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/verify"
	"slipway.dev/services/mount/cache"
	"slipway.dev/services/mount/mounttest"
)

// A registry must return the image and the environment that the server has made, by whatever name and with whatever referrers.
func TestOnlyWhatTheServerMade(t *testing.T) {
	t.Parallel()
	tools := mounttest.Pack(t, mounttest.Files{"bin/x": "x"})
	with := mounttest.WriteOn(t, t.TempDir(), ocispec.ImageConfig{}, [][]byte{[]byte("base")}, tools)
	without := mounttest.WriteOn(t, t.TempDir(), ocispec.ImageConfig{}, [][]byte{[]byte("base")})
	other := digest.FromString("other").String()
	image, made := with.Image.String(), with.Environment.String()
	named := "ocidir://" + with.Folder + "@" + made
	for _, one := range []struct {
		name string
		want requested
		// whole and partial are whether it is found with and without the root of the image.
		whole, partial bool
	}{
		{with.Name(), requested{}, true, true},
		{with.Name(), requested{made: made, digest: image}, true, true},
		{with.Name(), requested{made: other}, false, false},
		{with.Name(), requested{made: made, digest: other}, false, false},
		{with.Name(), requested{digest: other}, false, false},
		{named, requested{}, true, true},
		{named, requested{made: made}, true, true},
		{named, requested{made: other}, false, false},
		{without.Name(), requested{}, true, false},
		{without.Name(), requested{made: made}, false, false},
		{without.Name(), requested{digest: without.Image.String()}, true, false},
		{without.Name(), requested{digest: image}, false, false},
	} {
		for _, whole := range []bool{true, false} {
			r, err := newRegistry(one.name, connection{})
			if err != nil {
				t.Fatal(err)
			}
			found, err := r.find(t.Context(), cache.Open(t.TempDir()), one.want, whole)
			if ok := whole && one.whole || !whole && one.partial; ok != (err == nil) || ok && one.want.made != "" && found.Environment != made {
				t.Errorf("%s, %+v, whole %v: %+v, %v", one.name, one.want, whole, found, err)
			}
			if err != nil && !errors.Is(err, errOther) && !errors.Is(err, errNone) {
				t.Errorf("%s, %+v, whole %v: %v", one.name, one.want, whole, err)
			}
		}
	}
}

// Only the cache can state that an image was verified.
func TestRecordsOfSignatures(t *testing.T) {
	t.Parallel()
	dir, key := t.TempDir(), filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &session.Settings{}
	f := &flags{trust: verify.KeyFile(key)}
	by, err := f.verifiedBy(s)
	if err != nil || by == "" {
		t.Fatalf("%q, %v", by, err)
	}
	n := cache.Name{ImageDigest: digest.FromString("image").String(), Environment: digest.FromString("environment").String(), Verified: by}
	c := cache.Open(dir)
	if err := f.checkSigned(s, c, n); err == nil {
		t.Error("an image without a record is signed")
	}
	c.Remember(signedKey(by, n.ImageDigest), n)
	whole, other, another := n, n, n
	whole.Environment, other.Environment, another.ImageDigest = "", digest.FromString("other").String(), digest.FromString("other").String()
	for _, one := range []struct {
		name cache.Name
		ok   bool
	}{{n, true}, {whole, true}, {other, false}, {another, false}} {
		if err := f.checkSigned(s, c, one.name); (err == nil) != one.ok {
			t.Errorf("%+v: %v", one.name, err)
		}
	}
	if err := os.WriteFile(key, []byte("another key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.checkSigned(s, c, n); err == nil {
		t.Error("an image that another key has signed is accepted")
	}
	if err := (&flags{}).checkSigned(s, c, other); err != nil {
		t.Errorf("without verification: %v", err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(key, []byte("key"), 0o600), f.checkSigned(s, c, n)); err == nil {
		t.Error("a record that other users can write is used")
	}
}

// The identity of a Singularity image is that of its file: not of its descriptor or device, and another one after a change.
func TestIdentityOfFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "image.sif")
	if err := os.WriteFile(path, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func() *os.File {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	id := func(f *os.File) string {
		got, _, err := fileID(f)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first, second := open(), open()
	before := id(first)
	if id(second) != before {
		t.Error("two descriptors have different identities")
	}
	if err := os.WriteFile(path+"-new", []byte("two"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"-new", path); err != nil {
		t.Fatal(err)
	}
	if id(open()) == before {
		t.Error("another file of the same size has the identity of the first one")
	}
	if err := os.Chtimes(path, time.Now(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	changed := open()
	err := unpackUnchanged(t.Context(), t.TempDir(), changed, before, 3)
	if err == nil || !strings.Contains(err.Error(), "was changed") {
		t.Errorf("a file that was changed: %v", err)
	}
}
