package environment_test

import (
	"strings"
	"testing"

	"slipway.dev/services/mount/environment"
)

const sum = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// manifest is the manifest of an environment of one package.
const manifest = `{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "artifactType": "application/vnd.slipway.environment.v1",
	"config": {"mediaType": "application/vnd.slipway.environment.config.v1+json", "digest": "` + sum + `", "size": 10},
	"layers": [{"mediaType": "application/vnd.slipway.environment.index.v1+zstd", "digest": "` + sum + `", "size": 20},
		{"mediaType": "application/vnd.slipway.package.v1+zstd", "digest": "` + sum + `", "size": 30, "annotations": {"dev.slipway.blob.id": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}}],
	"subject": {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "` + sum + `", "size": 40}}`

func TestParse(t *testing.T) {
	a, err := environment.Parse([]byte(manifest))
	if err != nil || a.Config.Size != 10 || a.Index.Size != 20 || len(a.Blobs) != 1 || string(a.Subject) != sum {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, change := range [][2]string{
		{`environment.v1"`, `other"`}, {"index.v1+zstd", "index.v2"}, {"package.v1+zstd", "package.v2"}, {"blob.id", "blob.other"},
		{sum + `", "size": 30`, `sha256:00", "size": 30`}, {`"size": 20`, `"size": 2000000000`}, {`"size": 30`, `"size": -1`},
	} {
		if _, err := environment.Parse([]byte(strings.Replace(manifest, change[0], change[1], 1))); err == nil {
			t.Errorf("%s instead of %s is accepted", change[1], change[0])
		}
	}
}

// TestParseWithoutImage checks that an environment may refer to no image.
func TestParseWithoutImage(t *testing.T) {
	a, err := environment.Parse([]byte(strings.Replace(manifest, `"subject"`, `"other"`, 1)))
	if err != nil || a.Subject != "" || len(a.Blobs) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestParseConfig(t *testing.T) {
	good := `{"prefix": "/opt/conda", "index": "` + sum + `", "size": 4096, "inodes": 3, "packages": []}`
	if c, err := environment.ParseConfig([]byte(good)); err != nil || c.Prefix != "/opt/conda" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, prefix := range []string{"", "/", "opt", "/opt/../etc", "/opt:ro"} {
		if _, err := environment.ParseConfig([]byte(strings.Replace(good, "/opt/conda", prefix, 1))); err == nil {
			t.Errorf("the prefix %q is accepted", prefix)
		}
	}
	with := func(env string) string { return strings.Replace(good, `"inodes"`, `"env": [`+env+`], "inodes"`, 1) }
	if c, err := environment.ParseConfig([]byte(with(`"A=1", "B="`))); err != nil || len(c.Env) != 2 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, env := range []string{`"A"`, `"=1"`, `"A=\u0000"`, `1`} {
		if _, err := environment.ParseConfig([]byte(with(env))); err == nil {
			t.Errorf("the variables %s are accepted", env)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(manifest))
	f.Fuzz(func(_ *testing.T, raw []byte) {
		_, _ = environment.Parse(raw)
		_, _ = environment.ParseConfig(raw)
	})
}
