package oci_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

const desc = `{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"` + sha256 + `","size":2}`

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, header, in, want string }{
		{"OCI manifest", ocispec.MediaTypeImageManifest, `{"schemaVersion":2,"mediaType":"` + ocispec.MediaTypeImageManifest + `"}`, ocispec.MediaTypeImageManifest},
		{"Docker manifest", oci.TypeDockerManifest, `{"schemaVersion":2,"mediaType":"` + oci.TypeDockerManifest + `"}`, oci.TypeDockerManifest},
		{"OCI index", ocispec.MediaTypeImageIndex, `{"mediaType":"` + ocispec.MediaTypeImageIndex + `"}`, ocispec.MediaTypeImageIndex},
		{"Docker list", oci.TypeDockerIndex, `{"mediaType":"` + oci.TypeDockerIndex + `"}`, oci.TypeDockerIndex},
		{"no inner type", ocispec.MediaTypeImageManifest, `{"schemaVersion":2,"config":` + desc + `}`, ocispec.MediaTypeImageManifest},
		{"inner type wins", ocispec.MediaTypeImageManifest, `{"mediaType":"` + oci.TypeDockerManifest + `"}`, oci.TypeDockerManifest},
		{"header with parameters", ocispec.MediaTypeImageIndex + " ; charset=utf-8", `{"manifests":[]}`, ocispec.MediaTypeImageIndex},
		{"generic type, a manifest", "application/json", `{"config":` + desc + `}`, ocispec.MediaTypeImageManifest},
		{"generic type, an index", "application/json", `{"manifests":[]}`, ocispec.MediaTypeImageIndex},
		{"generic type, Docker", "text/plain; charset=utf-8", `{"config":{"mediaType":"` + oci.TypeDockerConfig + `"}}`, oci.TypeDockerManifest},
		{"no type at all", "", `{"schemaVersion":2,"config":` + desc + `}`, ocispec.MediaTypeImageManifest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got, err := oci.Classify(tc.header, []byte(tc.in)); err != nil || got != tc.want {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestClassifyRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, header, in, code string }{
		{"schema 1", "application/json", `{"schemaVersion":1,"name":"a","fsLayers":[]}`, "UNSUPPORTED"},
		{"schema 1 by type", oci.TypeDockerSchema1, `{"name":"a"}`, "UNSUPPORTED"},
		{"signed schema 1", oci.TypeDockerSigned1, `{"schemaVersion":1,"signatures":[{}]}`, "UNSUPPORTED"},
		{"signed schema 1 by inner type", "", `{"mediaType":"` + oci.TypeDockerSigned1 + `"}`, "UNSUPPORTED"},
		{"nothing", ocispec.MediaTypeImageManifest, ``, ""},
		{"a web page", ocispec.MediaTypeImageManifest, `<html>please sign in</html>`, ""},
		{"a list", ocispec.MediaTypeImageManifest, `[]`, ""},
		{"a text", ocispec.MediaTypeImageManifest, `"x"`, ""},
		{"two documents", ocispec.MediaTypeImageManifest, `{}{}`, ""},
		{"an error body", "application/json", `{"errors":[{"code":"DENIED"}]}`, ""},
		{"something else", "application/json", `{"mediaType":"application/vnd.example+json"}`, ""},
		{"a version that is no number", ocispec.MediaTypeImageManifest, `{"schemaVersion":"2"}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := oci.Classify(tc.header, []byte(tc.in))
			if !errors.Is(err, fault.Invalid) {
				t.Fatalf("got %q, %v; want fault.Invalid", got, err)
			}
			if e, _ := fault.As(err); e.Meta[oci.MetaCode] != tc.code {
				t.Errorf("code = %q, want %q", e.Meta[oci.MetaCode], tc.code)
			}
		})
	}
}

func TestNewDocument(t *testing.T) {
	t.Parallel()
	got := oci.NewDocument(ocispec.MediaTypeImageManifest, []byte("test"))
	want := oci.Document{MediaType: ocispec.MediaTypeImageManifest, Digest: sha256, Bytes: []byte("test")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseManifest(t *testing.T) {
	t.Parallel()
	in := `{"config":` + desc + `,"layers":[{"mediaType":"x","digest":"` + sha256 + `","size":7,"urls":["https://a"],"annotations":{"k":"v"}}],
		"subject":` + desc + `,"unknown":[1]}`
	got, err := oci.ParseManifest(oci.NewDocument(ocispec.MediaTypeImageManifest, []byte(in)))
	config := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: sha256, Size: 2}
	want := ocispec.Manifest{Config: config, Subject: &config, Layers: []ocispec.Descriptor{
		{MediaType: "x", Digest: sha256, Size: 7, URLs: []string{"https://a"}, Annotations: map[string]string{"k": "v"}},
	}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestMalformedDocuments(t *testing.T) {
	t.Parallel()
	manifest := func(raw string) error {
		_, err := oci.ParseManifest(oci.NewDocument(ocispec.MediaTypeImageManifest, []byte(raw)))
		return err
	}
	index := func(raw string) error {
		_, err := oci.ParseIndex(oci.NewDocument(ocispec.MediaTypeImageIndex, []byte(raw)))
		return err
	}
	for _, tc := range []struct {
		name string
		err  error
	}{
		{"no JSON", manifest(`{`)},
		{"no config", manifest(`{"layers":[]}`)},
		{"config without digest", manifest(`{"config":{"size":1}}`)},
		{"config with another digest", manifest(`{"config":{"digest":"md5:abc","size":1}}`)},
		{"config with a short digest", manifest(`{"config":{"digest":"sha256:abc","size":1}}`)},
		{"path for a digest", manifest(`{"config":{"digest":"../../etc/passwd","size":1}}`)},
		{"negative size", manifest(`{"config":{"digest":"` + sha256 + `","size":-1}}`)},
		{"size as text", manifest(`{"config":{"digest":"` + sha256 + `","size":"1"}}`)},
		{"null layer", manifest(`{"config":` + desc + `,"layers":[null]}`)},
		{"layer without digest", manifest(`{"config":` + desc + `,"layers":[{"size":1}]}`)},
		{"layers that are no list", manifest(`{"config":` + desc + `,"layers":{}}`)},
		{"index: no JSON", index(`x`)},
		{"index: entry without digest", index(`{"manifests":[{"size":1}]}`)},
		{"index: null entry", index(`{"manifests":[null]}`)},
		{"index: negative size", index(`{"manifests":[{"digest":"` + sha256 + `","size":-5}]}`)},
	} {
		if !errors.Is(tc.err, fault.Invalid) {
			t.Errorf("%s: got %v, want fault.Invalid", tc.name, tc.err)
		}
	}
}

func FuzzClassify(f *testing.F) {
	f.Add("application/json", []byte(`{"schemaVersion":1}`))
	f.Add(ocispec.MediaTypeImageManifest, []byte(`{"config":`+desc+`}`))
	f.Add(";", []byte(`{"manifests":null,"config":null,"mediaType":null}`))
	f.Fuzz(func(t *testing.T, header string, raw []byte) {
		got, err := oci.Classify(header, raw)
		if err == nil && !oci.IsIndex(got) && !oci.IsManifest(got) {
			t.Errorf("classified as %q", got)
		}
		if err != nil && !errors.Is(err, fault.Invalid) {
			t.Errorf("%v is no fault.Invalid", err)
		}
	})
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(`{"config":` + desc + `,"layers":[` + desc + `],"subject":` + desc + `}`))
	f.Add([]byte(`{"config":` + desc + `,"layers":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := oci.ParseManifest(oci.NewDocument(ocispec.MediaTypeImageManifest, raw))
		if err != nil {
			return
		}
		for _, d := range append(m.Layers, m.Config) {
			checkDescriptor(t, d)
		}
	})
}

func FuzzParseIndex(f *testing.F) {
	f.Add([]byte(`{"manifests":[` + desc + `]}`))
	f.Add([]byte(`{"manifests":[{"digest":"` + sha256 + `","size":1,"platform":{"os":"linux","architecture":"arm64","variant":"v8"}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		x, err := oci.ParseIndex(oci.NewDocument(ocispec.MediaTypeImageIndex, raw))
		if err != nil {
			return
		}
		for _, d := range x.Manifests {
			checkDescriptor(t, d)
		}
	})
}

func checkDescriptor(t *testing.T, d ocispec.Descriptor) {
	t.Helper()
	if _, err := digest.Parse(d.Digest.String()); err != nil || d.Size < 0 {
		t.Errorf("accepted the descriptor %+v", d)
	}
}
