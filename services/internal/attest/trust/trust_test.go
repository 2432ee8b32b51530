package trust_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/attest/keyless"
	"slipway.dev/services/internal/attest/trust"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
)

// certified returns an authority and a signature of the message "m".
func certified(t testing.TB) (*testkit.Authority, attest.Certified) {
	t.Helper()
	a, file := testkit.NewAuthority(t), filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("e30.eyJpc3MiOiJpIiwic3ViIjoicyJ9.AAAA"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := keyless.New(keyless.Options{Fulcio: a.URL, Timestamp: a.URL + "/timestamp", TokenFile: file, Root: parse(t, a.Root), Transport: http.DefaultTransport, Now: time.Now}).Certify(t.Context(), []byte("m"))
	if err != nil {
		t.Fatal(err)
	}
	return a, c
}

func parse(t testing.TB, raw []byte) *trust.Root {
	t.Helper()
	r, err := trust.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// changed returns a trusted root after one of its authorities was changed.
func changed(t testing.TB, raw []byte, kind string, change func(authority map[string]any)) []byte {
	t.Helper()
	var p map[string]any
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	change(p[kind].([]any)[0].(map[string]any))
	out, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestChangedSignatures verifies a signature after one thing was changed.
func TestChangedSignatures(t *testing.T) {
	t.Parallel()
	a, good := certified(t)
	other, foreign := certified(t)
	root := parse(t, a.Root)
	if who, err := root.Verify(good, []byte("m")); err != nil || who.Name != testkit.AuthorityName {
		t.Fatalf("%+v, %v", who, err)
	}
	until := func(kind string, at time.Time) *trust.Root {
		return parse(t, changed(t, a.Root, kind, func(authority map[string]any) {
			authority["validFor"] = map[string]string{"start": "2020-01-01T00:00:00Z", "end": at.UTC().Format(time.RFC3339)}
		}))
	}
	for name, c := range map[string]struct {
		root   *trust.Root
		change func(c *attest.Certified)
		want   string
	}{
		"signature":             {root, func(c *attest.Certified) { c.Signature = slices.Clone(foreign.Signature) }, "another key"},
		"certificate":           {root, func(c *attest.Certified) { c.Certificate = foreign.Certificate }, "another key"},
		"malformed certificate": {root, func(c *attest.Certified) { c.Certificate = []byte("x") }, "malformed"},
		"no timestamp":          {root, func(c *attest.Certified) { c.Timestamps = nil }, "0 timestamps"},
		"many timestamps": {root, func(c *attest.Certified) {
			c.Timestamps = slices.Repeat(good.Timestamps, limits.SignatureTimestamps+1)
		}, "timestamps; 1 to"},
		"malformed timestamp":              {root, func(c *attest.Certified) { c.Timestamps = [][]byte{[]byte("x")} }, "timestamp of the signature is not valid"},
		"large timestamp":                  {root, func(c *attest.Certified) { c.Timestamps = [][]byte{make([]byte, limits.Timestamp+1)} }, "the limit is"},
		"timestamp of another":             {root, func(c *attest.Certified) { c.Timestamps = foreign.Timestamps }, "timestamp of the signature is not valid"},
		"another root":                     {parse(t, other.Root), func(*attest.Certified) {}, "is not valid"},
		"an earlier certificate authority": {until("certificateAuthorities", time.Now().Add(-time.Hour)), func(*attest.Certified) {}, "no authority is trusted"},
		"an earlier timestamp authority":   {until("timestampAuthorities", time.Now().Add(-time.Hour)), func(*attest.Certified) {}, "not trusted for this time"},
	} {
		changed := good
		c.change(&changed)
		if who, err := c.root.Verify(changed, []byte("m")); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
	if _, err := root.Verify(good, []byte("n")); err == nil {
		t.Error("another message was accepted")
	}
	withoutLeaf := parse(t, changed(t, a.Root, "timestampAuthorities", func(authority map[string]any) {
		chain := authority["certChain"].(map[string]any)
		chain["certificates"] = chain["certificates"].([]any)[1:]
	}))
	if _, err := withoutLeaf.Verify(good, []byte("m")); err != nil {
		t.Errorf("a root without the certificate of the timestamp authority: %v", err)
	}
	both := good
	both.Timestamps = [][]byte{[]byte("x"), good.Timestamps[0]}
	if _, err := until("certificateAuthorities", time.Now().Add(time.Hour)).Verify(both, []byte("m")); err != nil {
		t.Errorf("with an invalid timestamp besides a valid one: %v", err)
	}
}

// TestUnusableRoots checks which trusted roots are rejected.
func TestUnusableRoots(t *testing.T) {
	t.Parallel()
	a := testkit.NewAuthority(t)
	for name, raw := range map[string][]byte{
		"not JSON": []byte("x"), "empty": []byte("{}"), "too large": []byte(`{"mediaType": "` + strings.Repeat("x", limits.TrustedRoot) + `"}`),
		"no authority":   []byte(`{"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`),
		"no certificate": changed(t, a.Root, "certificateAuthorities", func(authority map[string]any) { delete(authority, "certChain") }),
		"malformed certificate": changed(t, a.Root, "timestampAuthorities", func(authority map[string]any) {
			authority["certChain"] = map[string]any{"certificates": []any{map[string]any{"rawBytes": "AAAA"}}}
		}),
	} {
		if _, err := trust.Parse(raw); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// FuzzParse checks that no trusted root causes a panic.
func FuzzParse(f *testing.F) {
	a, good := certified(f)
	f.Add(a.Root)
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := trust.Parse(raw)
		if err != nil {
			return
		}
		if _, err := r.Verify(good, []byte("n")); err == nil {
			t.Error("another message was accepted")
		}
	})
}

// FuzzVerify checks that no certificate or timestamp causes a panic, and that no other timestamp is
// accepted.
func FuzzVerify(f *testing.F) {
	a, good := certified(f)
	root := parse(f, a.Root)
	f.Add(good.Certificate, good.Timestamps[0])
	f.Fuzz(func(t *testing.T, certificate, timestamp []byte) {
		c := attest.Certified{Signature: good.Signature, Certificate: certificate, Timestamps: [][]byte{timestamp}}
		if who, err := root.Verify(c, []byte("m")); err == nil && who.Name != testkit.AuthorityName {
			t.Errorf("signed by %+v", who)
		}
	})
}
