package oci_test

import (
	"strings"
	"testing"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/oci"
)

// TestParseIssued checks that only complete names are recognized, and that String is the
// inverse.
func TestParseIssued(t *testing.T) {
	t.Parallel()
	for repository, want := range map[string]oci.IssuedName{
		"wt/abc/library/ubuntu": {Token: "abc", Name: "library/ubuntu"}, "wt/abc/x": {Token: "abc", Name: "x"},
		"c/0123456789abcdef/samtools": {Token: "0123456789abcdef", Name: "samtools"}, "c/abc/x": {}, "wt/0123456789abcdef/x": {}, "c/0123456789ABCDEF/x": {},
		"c/org-abcdefghijklmnopqrstuvwxyz/x": {Token: "org-abcdefghijklmnopqrstuvwxyz", Name: "x"}, "c/org-abc/x": {}, "wt/org-abcdefghijklmnopqrstuvwxyz/x": {}, "c/org-0123456789abcdefghijklmnop/x": {},
		"c/0123456789abcdef": {}, "c/0123456789abcdef/": {},
		"wt/abc": {}, "wt/abc/": {}, "wt//x": {}, "wt/": {}, "": {}, "library/wt/abc/x": {}, "wtf/abc/x": {},
	} {
		got, ok := oci.ParseIssued(repository)
		if ok != (want != oci.IssuedName{}) || ok && (got != want || got.String() != repository) {
			t.Errorf("%q: %v, %t", repository, got, ok)
		}
	}
}

// TestReferenceOf checks that the reference of a plan is its tag or its digest.
func TestReferenceOf(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"docker.io/library/ubuntu:24.04", "h.example:5000/a/b@sha256:" + strings.Repeat("0a", 32)} {
		want, err := oci.ParseReference(name)
		if err != nil {
			t.Fatal(err)
		}
		got := oci.ReferenceOf(&containerv1.Source{Registry: want.Registry, Repository: want.Repository, Reference: want.Identifier()})
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}
