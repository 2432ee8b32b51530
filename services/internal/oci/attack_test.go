package oci_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/testkit/heap"
)

// fill returns a document of the maximum size: head, as many repetitions of one as fit, and
// tail.
func fill(head, one, tail string) string {
	room := limits.Document - len(head) - len(tail) - len(one)
	return head + strings.Repeat(one+",", room/(len(one)+1)) + one + tail
}

// nested returns a document with n elements, each of which is created by one.
func nested(head, tail string, one func(i int) string, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = one(i)
	}
	return head + strings.Join(list, ",") + tail
}

// TestHostileDocuments parses the documents that expand most. They are rejected, or take a
// small multiple of their length in memory.
func TestHostileDocuments(t *testing.T) {
	config := fill(`{"architecture":"amd64","history":[`, `{}`, `]}`)
	for _, tc := range []struct{ name, in string }{
		{"an index of empty entries", fill(`{"manifests":[`, `{}`, `]}`)},
		{"a manifest of empty layers", fill(`{"config":`+desc+`,"layers":[`, `{}`, `]}`)},
		{"a manifest of null layers", fill(`{"config":`+desc+`,"layers":[`, `null`, `]}`)},
		{"empty addresses", fill(`{"manifests":[{"urls":[`, `""`, `]}]}`)},
		{"empty annotations", fill(`{"config":`+desc+`,"annotations":{`, `"a":""`, `}}`)},
		{"empty features", fill(`{"manifests":[{"platform":{"os.features":[`, `""`, `]}}]}`)},
		{"deeply nested", strings.Repeat("[", limits.Document)},
		{"deeply nested objects", strings.Repeat(`{"a":`, limits.Document/5)},
		{"a config of empty history", config},
		{"a config of empty variables", fill(`{"config":{"Env":[`, `""`, `]}}`)},
		{"a config of many members", nested(`{`, `}`, func(i int) string { return fmt.Sprintf(`"%d":0`, i) }, limits.DocumentValues/2)},
		{"many members in its config", nested(`{"config":{`, `}}`, func(i int) string { return fmt.Sprintf(`"%d":0`, i) }, limits.DocumentValues/2)},
		{"many labels", nested(`{"config":{"Labels":{`, `}}}`, func(i int) string { return fmt.Sprintf(`"%d":"%0100d"`, i, i) }, limits.DocumentValues-10)},
		{"many variables", nested(`{"config":{"Env":[`, `]}}`, func(i int) string { return fmt.Sprintf(`"%d=%0100d"`, i, i) }, limits.DocumentValues-10)},
		{"a long text", `{"architecture":"` + strings.Repeat("a", limits.Document-20) + `"}`},
		{"escapes", `{"architecture":"` + strings.Repeat(`\u00e9`, limits.Document/6-10) + `"}`},
	} {
		heap.Within(t, 16, 4<<20, []byte(tc.in), func() { readAll(t, []byte(tc.in)) })
	}
}

// readAll parses a document as each kind of document.
func readAll(t testing.TB, raw []byte) {
	t.Helper()
	_, _ = oci.Classify("application/json", raw)
	doc := oci.Document{MediaType: ocispec.MediaTypeImageIndex, Bytes: raw}
	_, _ = oci.ParseIndex(doc)
	_, _ = oci.ParseManifest(doc)
	_ = oci.Annotations(doc)
	manifest := []byte(ociKind.text("{}", ociKind.layerOf("old", 5), ""))
	_, _ = oci.Augment(t.Context(), permissive{manifest, raw}, oci.NewDocument(ocispec.MediaTypeImageManifest, manifest), everything, linuxAMD64)
	_, _ = oci.Augment(t.Context(), permissive{raw, []byte(`{}`)}, oci.Document{MediaType: ocispec.MediaTypeImageManifest, Bytes: raw}, everything, linuxAMD64)
}

// TestLimits checks that documents at each limit are accepted, and documents above it rejected.
func TestLimits(t *testing.T) {
	t.Parallel()
	layers := func(n int) string {
		return strings.TrimSuffix(strings.Repeat(ociKind.layerOf("old", 5)+",", n), ",")
	}
	r := repo{}
	big := r.add(ociKind.config, `{"architecture":"amd64","author":"`+strings.Repeat("x", limits.Document-100)+`"}`)
	large := r.add(ociKind.manifest, ociKind.text(string(big.Bytes), layers(1), ""))
	small := r.image(ociKind, `{}`)
	amd64, arm64 := describe(small, platform("linux", "amd64", "")), describe(small, platform("linux", "arm64", ""))
	list := func(one string, n int) []string {
		return append(strings.SplitAfter(strings.Repeat(one+"\n", n-1), "\n")[:n-1], one)
	}
	for _, tc := range []struct {
		name string
		root oci.Document
		want error
	}{
		{"layers", r.add(ociKind.manifest, ociKind.text("{}", layers(limits.ImageLayers), "")), nil},
		{"a layer more", r.add(ociKind.manifest, ociKind.text("{}", layers(limits.ImageLayers+1), "")), fault.Invalid},
		{"entries", r.index(ociKind, append(list(arm64, limits.IndexEntries-1), amd64)...), nil},
		{"an entry more", r.index(ociKind, append(list(arm64, limits.IndexEntries), amd64)...), fault.Invalid},
		{"images of a platform", r.index(ociKind, list(amd64, limits.ImagesChanged)...), nil},
		{"an image more", r.index(ociKind, list(amd64, limits.ImagesChanged+1)...), fault.Invalid},
		{"documents", r.index(ociKind, list(describe(large, platform("linux", "amd64", "")), 3)...), nil},
		{"documents that are too large together", r.index(ociKind, list(describe(large, platform("linux", "amd64", "")), 5)...), fault.Invalid},
	} {
		if _, err := oci.Augment(t.Context(), r, tc.root, oci.Augmentation{Env: []string{"A=1"}}, linuxAMD64); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, err, tc.want)
		}
	}
}

// TestMessagesAreShort checks that messages quote only the beginning of long strings in
// documents.
func TestMessagesAreShort(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long ", 1000)
	r := repo{}
	img := r.image(ociKind, `{}`)
	_, err1 := oci.Classify("", []byte(`{"mediaType":"`+long+`"}`))
	var entries []string
	for range limits.IndexEntries {
		entries = append(entries, describe(img, platform(long, `\u001b[2J`, "")))
	}
	_, err2 := oci.Augment(t.Context(), r, r.index(ociKind, entries...), oci.Augmentation{Env: []string{"A=1"}}, linuxAMD64)
	doc := r.add(ociKind.manifest, `{"config":{"mediaType":"`+long+`","digest":"`+sha256+`","size":1}}`)
	_, err3 := oci.Augment(t.Context(), r, doc, oci.Augmentation{Env: []string{"A=1"}}, linuxAMD64)
	for _, err := range []error{err1, err2, err3} {
		if e, ok := fault.As(err); !ok || len(e.Public) > 4000 || strings.ContainsRune(e.Public, 0x1b) {
			t.Errorf("got %v", err)
		}
	}
}

// FuzzHostileDocument parses a document as each kind of document, and checks that the memory is
// proportional to its length.
func FuzzHostileDocument(f *testing.F) {
	f.Add([]byte(`{"manifests":[{},{"urls":[""]}]}`))
	f.Add([]byte(`{"config":` + desc + `,"layers":[` + desc + `],"annotations":{"a":""}}`))
	f.Add([]byte(`{"config":{"Env":["A=","A"],"Entrypoint":["x"]},"rootfs":{"diff_ids":[]},"history":[{}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		heap.Within(t, 64, 512<<10, raw, func() { readAll(t, raw) })
	})
}
