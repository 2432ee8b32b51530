package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
)

// TestBadRequests sends invalid requests; the error must name the field.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	gz, tar := testkit.Tar(t, "f", "x")
	good := func() map[string]any { return layer("data:"+base64.StdEncoding.EncodeToString(gz), gz, tar) }
	with := func(field string, v any) map[string]any {
		l := good()
		if l[field] = v; v == nil {
			delete(l, field)
		}
		return map[string]any{"containerImage": image, "containerConfig": map[string]any{"layers": []any{l}}}
	}
	other := sha([]byte("other"))
	file := b64("FROM scratch\n")
	noArchive := []byte("no gzip")
	cases := []struct {
		name   string
		body   any
		status int
		says   string
	}{
		{"malformed JSON", "{", 400, "Invalid JSON"},
		{"an array", "[]", 400, "must be an object"},
		{"wrong type", map[string]any{"containerImage": 7}, 400, "containerImage must be a string"},
		{"wrong type in a list", map[string]any{"containerImage": image, "containerConfig": map[string]any{"env": []any{1}}}, 400, "containerConfig.env[0]"},
		{"empty object", map[string]any{}, 400, "containerImage is missing"},
		{"image name with a scheme", map[string]any{"containerImage": "https://quay.io/x/y:1"}, 400, "scheme"},
		{"image name with a space", map[string]any{"containerImage": "quay.io/x/y :1"}, 400, "spaces"},
		{"image name in upper case", map[string]any{"containerImage": "quay.io/X/y:1"}, 400, "containerImage"},
		{"image name with a malformed digest", map[string]any{"containerImage": "quay.io/x/y@sha256:12"}, 400, "containerImage"},
		{"unknown format", map[string]any{"containerImage": image, "format": "tar"}, 400, "format must be one of docker, oci, sif"},
		{"unknown strategy", map[string]any{"containerImage": image, "nameStrategy": "random"}, 400, "nameStrategy"},
		{"unknown template", map[string]any{"containerImage": image, "buildTemplate": "x"}, 400, "buildTemplate"},
		{"unknown platform", map[string]any{"containerImage": image, "containerPlatform": "windows/amd64"}, 400, "containerPlatform"},
		{"two platforms", map[string]any{"containerImage": image, "containerPlatform": "linux/amd64,linux/arm64"}, 400, "containerPlatform"},
		{"timestamp that is no date", map[string]any{"containerImage": image, "timestamp": "yesterday"}, 400, "timestamp"},
		{"timestamp of a day that does not exist", map[string]any{"containerImage": image, "timestamp": "2026-01-32T12:00:00"}, 400, "timestamp"},
		{"two different access tokens", map[string]any{"containerImage": image, "towerAccessToken": "a", "platformAccessToken": "b"}, 400, "platformAccessToken and towerAccessToken"},
		{"image and file", map[string]any{"containerImage": image, "containerFile": file}, 400, "exclude each other"},
		{"image and packages", map[string]any{"containerImage": image, "packages": map[string]any{"type": "CONDA", "entries": []string{"bwa"}}}, 400, "exclude each other"},
		{"file and packages", map[string]any{"containerFile": file, "packages": map[string]any{"type": "CONDA", "entries": []string{"bwa"}}}, 400, "exclude each other"},
		{"packages of another language", map[string]any{"packages": map[string]any{"type": "GEM", "entries": []string{"rake"}}}, 400, "packages.type must be CONDA or CRAN"},
		{"file that is not base64", map[string]any{"containerFile": "FROM busybox:1"}, 400, "containerFile must be base64"},
		{"file too long", map[string]any{"containerFile": strings.Repeat("AAAA", limits.ContainerFile/3+1)}, 400, "containerFile holds"},
		{"conda file too long", map[string]any{"condaFile": strings.Repeat("AAAA", limits.EnvironmentFile/3+1)}, 400, "condaFile holds"},
		{"definition file without From", map[string]any{"containerFile": b64("Bootstrap: docker\n"), "format": "sif"}, 400, "containerFile: From must be"},
		{"freeze without a repository", map[string]any{"containerImage": image, "freeze": true}, 400, "freeze needs buildRepository"},
		{"Singularity image for two platforms", map[string]any{"packages": map[string]any{"type": "CONDA", "entries": []string{"bwa"}}, "format": "sif", "containerPlatform": "amd64,arm64"}, 400, "one platform for a Singularity image"},
		{"repository with a tag", map[string]any{"containerImage": image, "freeze": true, "buildRepository": "quay.io/x/y:1"}, 400, "buildRepository"},
		{"repository without a registry", map[string]any{"containerImage": image, "freeze": true, "buildRepository": "x/y"}, 400, "buildRepository"},
		{"mirror without a repository", map[string]any{"containerImage": image, "mirror": true}, 400, "mirror needs buildRepository"},
		{"scanMode without a database", map[string]any{"containerImage": image, "scanMode": "required"}, 501, "does not scan images"},
		{"malformed name in containerIncludes", map[string]any{"containerImage": image, "containerIncludes": []string{"quay.io/X/y:1"}}, 400, "containerIncludes[0]"},
		{"unknown compression", map[string]any{"containerFile": file, "buildCompression": map[string]any{"mode": "lz4"}}, 400, "buildCompression.mode must be one of"},
		{"compression level out of range", map[string]any{"containerFile": file, "buildCompression": map[string]any{"mode": "zstd", "level": 23}}, 400, "buildCompression.level must be 1 to 22"},
		{"variable without a value", map[string]any{"containerImage": image, "containerConfig": map[string]any{"env": []string{"A=b", "C"}}}, 400, "containerConfig.env[1]"},
		{"layer without a location", with("location", nil), 400, "layers[0].location"},
		{"layer with a file URL", with("location", "file:///etc/passwd"), 400, "layers[0].location"},
		{"layer with a login", with("location", "https://u:p@example.org/x"), 400, "layers[0].location"},
		{"layer without a size", with("gzipSize", nil), 400, "layers[0].gzipSize"},
		{"layer of negative size", with("gzipSize", -1), 400, "layers[0].gzipSize"},
		{"layer with another size", with("gzipSize", len(gz)+1), 400, "layers[0].gzipSize"},
		{"layer with another digest", with("gzipDigest", other), 400, "layers[0].gzipDigest"},
		{"layer with another content", with("tarDigest", other), 400, "layers[0].tarDigest"},
		{"layer with a malformed digest", with("tarDigest", "sha256:12"), 400, "layers[0].tarDigest"},
		{"layer that is not base64", with("location", "data:%%%"), 400, "layers[0].location"},
		{"layer that is not an archive", map[string]any{"containerImage": image, "containerConfig": map[string]any{"layers": []any{layer("data:"+base64.StdEncoding.EncodeToString(noArchive), noArchive, noArchive)}}}, 400, "layers[0].location"},
		{"layer that unpacks to more than the limit", map[string]any{"containerImage": image, "containerConfig": map[string]any{"layers": []any{bomb(t)}}}, 400, "more than 1024 MiB"},
		{"inline layer too long", with("location", "data:"+strings.Repeat("A", 14_000_001)), 400, "layers[0].location is"},
		{"image that does not exist", map[string]any{"containerImage": up.Host + "/lib/nothing:v1"}, 400, "does not exist"},
		{"platform that is not trusted", map[string]any{"containerImage": image, "towerAccessToken": "x", "towerEndpoint": "https://evil.example.org"}, 400, "not a platform that this service trusts"},
		{"invalid access token", map[string]any{"containerImage": image, "towerAccessToken": "x"}, 401, "not valid"},
	}
	eachShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				r := p.call(http.MethodPost, "/v1alpha2/container", c.body)
				message, _ := r.json(t)["message"].(string)
				if r.status != c.status || !strings.Contains(message, c.says) {
					t.Errorf("returned %d %q, want %d with %q", r.status, message, c.status, c.says)
				}
				if len(message) > 400 {
					t.Errorf("the message echoes %d characters", len(message))
				}
			})
		}
		t.Run("deprecated path", func(t *testing.T) {
			for field, v := range map[string]any{"nameStrategy": "none", "packages": map[string]any{"type": "CONDA", "entries": []string{"bwa"}}} {
				body := map[string]any{field: v}
				if field == "nameStrategy" {
					body["containerImage"] = image
				}
				r := p.call(http.MethodPost, "/container-token", body)
				if r.status != 400 || !strings.Contains(string(r.body), "/v1alpha2/container") {
					t.Errorf("%s returned %d %s", field, r.status, r.body)
				}
			}
		})
		t.Run("body of 40 MB", func(t *testing.T) {
			r := p.call(http.MethodPost, "/v1alpha2/container", `{"fingerprint":"`+strings.Repeat("x", 40_000_000)+`"}`)
			if r.status != http.StatusRequestEntityTooLarge {
				t.Errorf("returned %d", r.status)
			}
		})
		t.Run("bearer token overrides the token in the body", func(t *testing.T) {
			body := map[string]any{"containerImage": image, "towerAccessToken": "stale"}
			if r := p.call(http.MethodPost, "/v1alpha2/container", body, "Authorization", "Bearer "+p.token); r.status != http.StatusOK {
				t.Errorf("returned %d %s", r.status, r.body)
			}
		})
	})
}

// bomb returns a small layer that is large when unpacked.
func bomb(t testing.TB) map[string]any {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range 1<<10 + 1 {
		if _, err := z.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return layer("data:"+base64.StdEncoding.EncodeToString(b.Bytes()), b.Bytes(), zeros)
}

func TestAnonymousAccessOff(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	p := oneProcess(t, common(t, []string{up.Host}, settings{"anonymous_access": "false"}))
	if r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image}); r.status != http.StatusUnauthorized {
		t.Errorf("an anonymous caller got %d %s", r.status, r.body)
	}
	p.submit(map[string]any{"containerImage": image, "towerAccessToken": p.token})
}
