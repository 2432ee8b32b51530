package remote

import (
	"bytes"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/testkit"
)

func TestVerifier(t *testing.T) {
	t.Parallel()
	gz, _ := testkit.Tar(t, "a", "x")
	good := digest.FromBytes(gz).String()
	for _, c := range []struct {
		name, digest string
		size         int64
		want         string
	}{
		{"right", good, int64(len(gz)), ""},
		{"size unknown", good, 0, ""},
		{"other digest", digest.FromString("y").String(), 0, "its digest is"},
		{"shorter", good, int64(len(gz)) + 1, "bytes instead of"},
		{"longer", good, int64(len(gz)) - 1, "longer"},
	} {
		v, err := NewVerifier(bytes.NewReader(gz), c.digest, c.size)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Verify(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	if _, err := NewVerifier(nil, "sha256:short", 0); err == nil {
		t.Error("that is no digest")
	}
}
