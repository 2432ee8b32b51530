package inspect

import (
	"testing"

	"slipway.dev/services/internal/limits"
)

// FuzzParseLock checks that a lock from an image is within its bounds, or an error.
func FuzzParseLock(f *testing.F) {
	f.Add([]byte(`[{"name":"a","version":"1","build":"0","channel":"lab","subdir":"linux-64","license":"MIT","url":"u","sha256":"s","size":5}]`))
	f.Add([]byte(`[{"name":"a","version":"1"},`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := parseLock(raw)
		if err != nil && got != nil || len(got) > limits.ImageLockPackages {
			t.Errorf("%d packages, %v", len(got), err)
		}
		v := variant{lock: "sha256:x"}
		for _, p := range v.packages(got) {
			if p.GetName() == "" || p.GetVersion() == "" || p.GetLayer() != "" {
				t.Errorf("%v", p)
			}
		}
	})
}
