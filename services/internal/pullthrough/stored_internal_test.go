package pullthrough

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/oci"
)

// FuzzStored reads arbitrary documents of a store, which others may have changed.
func FuzzStored(f *testing.F) {
	f.Add([]byte(`{"digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","asked":"2026-11-27T12:00:00Z"}`))
	f.Add([]byte(`{}`))
	f.Add(encode(oci.NewDocument("application/vnd.oci.image.manifest.v1+json", []byte(`{"schemaVersion":2}`))))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if k, ok := parseTag(raw); ok {
			again, err := json.Marshal(k)
			if back, ok := parseTag(again); err != nil || !ok || back.Digest != k.Digest || !back.Asked.Equal(k.Asked) {
				t.Errorf("%q is read as %v, and that as %v, %v", raw, k, back, err)
			}
		}
		d := digest.FromBytes(raw)
		if doc, err := decode(raw, d); err == nil && string(encode(doc)) != string(raw) {
			t.Errorf("%q is read as %q", raw, encode(doc))
		}
	})
}

func TestRecordOfATagThatWasRefused(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(tagRecord{Asked: time.Now()})
	if k, ok := parseTag(raw); err != nil || ok {
		t.Errorf("it is read as %v", k)
	}
}
