package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/attest"
)

// TestSign signs each kind of statement about two files, and verifies them with the printed key.
func TestSign(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	raw, err := attest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, bill := filepath.Join(dir, "key"), filepath.Join(dir, "bill")
	for path, content := range map[string][]byte{key: raw, bill: []byte(`{"spdxVersion":"SPDX-2.3"}`)} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	printed := &bytes.Buffer{}
	if err := run([]string{"-key", key, "public"}, nil, printed); err != nil {
		t.Fatal(err)
	}
	keys, err := attest.ParsePublicKeys(printed.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	a, b := digest.FromString("a"), digest.FromString("b")
	sums := a.Encoded() + "  a.tar.gz\n" + b.Encoded() + " *b.tar.gz\n"
	for kind, args := range map[string][]string{
		attest.SignaturePredicate:  {"signature"},
		attest.ProvenancePredicate: {"-version", "1.2.0", "-commit", strings.Repeat("a", 40), "provenance"},
		attest.SPDXPredicate:       {"-sbom", bill, "spdx"},
	} {
		var out bytes.Buffer
		if err := run(append([]string{"-key", key}, args...), strings.NewReader(sums), &out); err != nil {
			t.Fatal(err)
		}
		for _, subject := range []digest.Digest{a, b} {
			s, err := attest.Verify(out.Bytes(), subject, keys...)
			if err != nil || s.PredicateType != kind || s.Subject[1].Name != "b.tar.gz" {
				t.Errorf("%s: %v %+v", kind, err, s)
			}
		}
		if _, err := attest.Verify(out.Bytes(), digest.FromString("c"), keys...); err == nil {
			t.Errorf("%s is about another file", kind)
		}
	}
	for name, args := range map[string][]string{
		"no statement": {"-key", key}, "unknown": {"-key", key, "slsa"}, "no version": {"-key", key, "provenance"}, "no SBOM": {"-key", key, "spdx"},
		"no key": {"-key", filepath.Join(dir, "absent"), "signature"}, "not a key": {"-key", bill, "signature"},
	} {
		if err := run(args, strings.NewReader(sums), &bytes.Buffer{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, input := range []string{"", "abc  file\n"} {
		if err := run([]string{"-key", key, "signature"}, strings.NewReader(input), &bytes.Buffer{}); err == nil {
			t.Errorf("%q: no error", input)
		}
	}
}
