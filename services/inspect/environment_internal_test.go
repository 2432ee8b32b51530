package inspect

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/mount/environment"
	"slipway.dev/services/mount/erofs"
)

// indexOfFiles returns the index of an environment with files, compressed, and what describes it.
func indexOfFiles(t *testing.T, files map[string]string) ([]byte, *mounted) {
	t.Helper()
	tree := erofs.NewTree()
	for name, text := range files {
		if err := tree.Add(name, erofs.Entry{Mode: erofs.ModeFile | 0o644, Device: erofs.Embedded, Size: uint64(len(text)), Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := tree.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packed := z.EncodeAll(raw, nil)
	return packed, &mounted{
		Artifact: environment.Artifact{Index: ocispec.Descriptor{Digest: digest.FromBytes(packed), Size: int64(len(packed))}},
		config:   environment.Config{Index: digest.FromBytes(raw), Size: int64(len(raw))},
	}
}

// TestLockInIndex checks that a lock is read from an index, and that one of an attacker takes no more memory than the index states.
func TestLockInIndex(t *testing.T) {
	t.Parallel()
	const lock = `[{"name": "a", "version": "1"}]`
	packed, of := indexOfFiles(t, map[string]string{"conda-meta/slipway.lock": lock, "conda-meta/history": "x"})
	if got, err := lockInIndex(packed, of, 1000); err != nil || string(got) != lock {
		t.Errorf("%q, %v", got, err)
	}
	for what, change := range map[string]func(*mounted) int64{
		"a small limit":          func(*mounted) int64 { return int64(len(lock)) - 1 },
		"another digest":         func(m *mounted) int64 { m.Index.Digest = digest.FromString("x"); return 1000 },
		"another raw digest":     func(m *mounted) int64 { m.config.Index = digest.FromString("x"); return 1000 },
		"a size that is too low": func(m *mounted) int64 { m.config.Size -= 2; return 1000 },
	} {
		changed := *of
		limit := change(&changed)
		if got, err := lockInIndex(packed, &changed, limit); err == nil {
			t.Errorf("%s: %q", what, got)
		}
	}
	packed, of = indexOfFiles(t, map[string]string{"conda-meta/other": lock})
	if got, err := lockInIndex(packed, of, 1000); err == nil {
		t.Errorf("without a lock: %q", got)
	}
}

// TestMountedConfig checks that the description of an environment is shown like the config of an image.
func TestMountedConfig(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(environment.Config{Prefix: "/opt/conda", Index: digest.FromString("x"), Platform: "linux/arm64", Env: []string{"A=b"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := mountedConfig(raw)
	if err != nil || c.Architecture != "arm64" || len(c.Config.Env) != 1 || c.mounted == nil {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := mountedConfig([]byte(strings.Replace(string(raw), "linux/arm64", "x x", 1))); err == nil {
		t.Error("a malformed platform is accepted")
	}
	if err := checkScannable([]variant{{mounted: &mounted{}}}); !isInvalid(err) {
		t.Errorf("an environment is scanned: %v", err)
	}
}

func isInvalid(err error) bool {
	e, ok := fault.As(err)
	return ok && e.Kind == fault.Invalid
}
