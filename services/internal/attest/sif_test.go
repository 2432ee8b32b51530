package attest_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/limits"
)

// TestSignSIF checks that only metadata of SIF files are signed, in one form.
func TestSignSIF(t *testing.T) {
	t.Parallel()
	s := newSigner(t, newKey(t))
	sum := subject.Digest.String()
	good, err := json.Marshal(attest.SIFMetadata{Version: 1, Header: attest.SIFHeader{Digest: sum}, Objects: []attest.SIFObject{{DescriptorDigest: sum, ObjectDigest: sum}}})
	if err != nil {
		t.Fatal(err)
	}
	one, err := s.SignSIF(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := s.SignSIF(t.Context(), good); err != nil || !bytes.Equal(one, other) {
		t.Errorf("the same metadata have different signatures, %v", err)
	}
	for _, bad := range []string{
		"", "{}", "null", `{"_type":"https://in-toto.io/Statement/v1"}`, string(good) + " ",
		strings.Replace(string(good), `"version":1`, `"version":2`, 1),
		strings.Replace(string(good), `"version"`, `"Version"`, 1),
		strings.Replace(string(good), `{"version"`, `{"more":1,"version"`, 1),
		strings.Replace(string(good), sum, "sha512:"+strings.Repeat("0", 128), 1),
		strings.Replace(string(good), sum, "sha256:0", 1),
		`{"version":1,"header":{"digest":"` + sum + `"},"objects":[]}`,
		`{"version":1,"header":{"digest":"` + sum + `"},"objects":[` + strings.Repeat(" ", limits.SIFMetadata) + `]}`,
	} {
		if _, err := s.SignSIF(t.Context(), []byte(bad)); err == nil {
			t.Errorf("%.100s was signed", bad)
		}
	}
}
