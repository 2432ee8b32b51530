package request

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

func ownsNothing(string, string) bool { return false }

// readAll validates a request and its recipe as if its caller were authenticated.
func readAll(raw *containerv1.ContainerRequest, deprecated bool) (Parsed, error) {
	p, err := Parse(raw, ownsNothing)
	if err == nil {
		err = p.CheckContent(deprecated)
	}
	if err == nil {
		_, err = readRecipe(p)
	}
	return p, err
}

// readRecipe parses the recipe of a request without issued names.
func readRecipe(p Parsed) (out Recipe, err error) {
	switch {
	case p.Raw.GetContainerFile() != "":
		var file Dockerfile
		file, err = p.ReadDockerfile()
		out.File = &file
	case IsRecipe(p.Raw):
		var packages Packages
		packages, err = p.ReadPackages(p.Raw.GetPackages(), conda.Defaults{}, time.Now())
		out.Packages = &packages
	}
	if err == nil {
		err = p.CheckSolved(out.Packages)
	}
	return out, err
}

// TestRequestsThatAreRefused checks the rules that need no other service.
func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	const (
		digest = `"sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`
		layer  = `"gzipDigest": ` + digest + `, "tarDigest": ` + digest
		conda  = `"packages": {"type": "CONDA", "entries": ["bwa"]}`
		file   = `"containerFile": "RlJPTSBhCg=="`
	)
	for _, tc := range []struct{ name, in, want string }{
		{"nothing", `{}`, "containerImage is missing; give it, or containerFile, packages or condaFile"},
		{"empty packages", `{"packages": {}}`, "containerImage is missing"},
		{"image and file", `{"containerImage": "a", ` + file + `}`, "containerImage and containerFile exclude each other"},
		{"image and packages", `{"containerImage": "a", ` + conda + `}`, "containerImage and packages exclude each other"},
		{"image and environment", `{"containerImage": "a", "condaFile": "eA=="}`, "containerImage and condaFile exclude each other"},
		{"file and packages", `{` + file + `, ` + conda + `}`, "containerFile and packages exclude each other"},
		{"packages and environment", `{"condaFile": "eA==", ` + conda + `}`, "packages and condaFile exclude each other"},
		{"image name", `{"containerImage": "https://a"}`, "containerImage: "},
		{"format", `{"containerImage": "a", "format": "zip"}`, `format must be one of docker, oci, sif, environment, not "zip"`},
		{"strategy", `{"containerImage": "a", "nameStrategy": "x"}`, `nameStrategy must be one of none, tagPrefix, imageSuffix, not "x"`},
		{"template", `{"containerImage": "a", "buildTemplate": "x"}`, "buildTemplate must be one of"},
		{"mirror without an image", `{"mirror": true, "buildRepository": "h.io/x"}`, "mirror needs containerImage"},
		{"mirror without a repository", `{"containerImage": "a", "mirror": true}`, "mirror needs buildRepository"},
		{"mirror of a recipe", `{"mirror": true, "buildRepository": "h.io/x", "containerFile": "RlJPTSBh"}`, "mirror and containerFile exclude each other"},
		{"mirror of packages", `{"mirror": true, "buildRepository": "h.io/x", "packages": {"type": "CONDA", "entries": ["a"]}}`, "mirror and packages exclude each other"},
		{"mirror and freeze", `{"containerImage": "a", "mirror": true, "buildRepository": "h.io/x", "freeze": true}`, "mirror and freeze exclude each other"},
		{"mirror and additions", `{"containerImage": "a", "mirror": true, "buildRepository": "h.io/x", "containerConfig": {"env": ["A=b"]}}`, "mirror and containerConfig exclude each other"},
		{"mirror and inclusions", `{"containerImage": "a", "mirror": true, "buildRepository": "h.io/x", "containerIncludes": ["b"]}`, "mirror and containerIncludes exclude each other"},
		{"mirror as sif", `{"containerImage": "a", "mirror": true, "buildRepository": "h.io/x", "format": "sif"}`, "mirror and format sif exclude each other"},
		{"scan mode", `{"containerImage": "a", "scanMode": "lazy"}`, `scanMode must be one of none, async, required, not "lazy"`},
		{"scan of a sif", `{"containerImage": "a", "scanMode": "required", "format": "sif"}`, "scanMode of a Singularity image is not supported; leave it out"},
		{"level", `{"containerImage": "a", "scanMode": "async", "scanLevels": ["low", "none"]}`, `scanLevels[1] must be one of CRITICAL, HIGH, MEDIUM, LOW, UNKNOWN, not "none"`},
		{"levels", `{"containerImage": "a", "scanMode": "async", "scanLevels": ["low", "low", "low", "low", "low", "low", "low", "low", "low", "low", "low"]}`, "scanLevels has 11 severities; the maximum is 10"},
		{"levels of no scan", `{"containerImage": "a", "scanLevels": ["low"]}`, "scanLevels without scanMode is not supported"},
		{"timestamp", `{"containerImage": "a", "timestamp": "31.1.2026"}`, "timestamp must be ISO 8601"},
		{"type of packages", `{"packages": {"type": "X", "entries": ["a"]}}`, `packages.type must be CONDA or CRAN, not "X"`},
		{"template for R", `{"packages": {"type": "CONDA", "entries": ["a"]}, "buildTemplate": "cran/installr:v1"}`, "buildTemplate cran/installr:v1 is for packages of type CRAN"},
		{"source packages of R", `{"packages": {"type": "CRAN", "entries": ["a"], "cranFallback": "binary"}}`, `packages.cranFallback must be one of source, not "binary"`},
		{"source packages of Conda", `{"packages": {"type": "CONDA", "entries": ["a"], "cranFallback": "source"}}`, "packages.cranFallback is for packages of type CRAN"},
		{"an image of R", `{"packages": {"type": "CRAN", "entries": ["a"], "cranOpts": {"rImage": "a/r:1"}}}`, "packages.cranOpts.rImage is not supported"},
		{"an image of pixi", `{"packages": {"type": "CONDA", "entries": ["a"], "pixiOpts": {"pixiImage": "a/p:1"}}}`, "packages.pixiOpts.pixiImage is not supported"},
		{"lines of R's that are none", `{"packages": {"type": "CRAN", "entries": ["a"], "cranOpts": {"commands": ["echo"]}}}`, "packages.cranOpts.commands[0]: "},
		{"entries and environment", `{"packages": {"type": "CONDA", "entries": ["a"], "environment": "eA=="}}`, "packages needs either environment or entries"},
		{"no base64", `{"containerFile": "FROM a"}`, "containerFile must be base64"},
		{"no text", `{"containerFile": "RlJPTSBhCg==", "condaFile": "/w=="}`, "condaFile must be text in UTF-8"},
		{"no text in a Dockerfile", `{"containerFile": "RlJPTSBh/w=="}`, "containerFile must be text in UTF-8"},
		{"Singularity definition", `{"containerFile": "Qm9vdHN0cmFwOiBkb2NrZXI=", "format": "sif"}`, "containerFile: From must be the name of an image"},
		{"variable", `{"containerImage": "a", "containerConfig": {"env": ["A=b", "=c"]}}`, "containerConfig.env[1] must be NAME=value"},
		{"digest of a layer", `{"containerImage": "a", "containerConfig": {"layers": [{"gzipDigest": "x"}]}}`, "containerConfig.layers[0].gzipDigest must be sha256:"},
		{"size of a layer", `{"containerImage": "a", "containerConfig": {"layers": [{` + layer + `}]}}`, "containerConfig.layers[0].gzipSize must be the length"},
		{"location of a layer", `{"containerImage": "a", "containerConfig": {"layers": [{` + layer + `, "gzipSize": 1, "location": "ftp://h/x"}]}}`, "containerConfig.layers[0].location must be http(s)"},
		{"login in a location", `{"containerImage": "a", "buildContext": {` + layer + `, "gzipSize": 1, "location": "https://u:p@h/x"}}`, "buildContext.location must be http(s)"},
		{"platform", `{"containerImage": "a", "containerPlatform": "z80"}`, "containerPlatform must be linux/amd64, linux/arm64 or both"},
		{"another platform", `{"containerImage": "a", "containerPlatform": "linux/arm/7"}`, `containerPlatform must be linux/amd64, linux/arm64 or both, separated by a comma, not "linux/arm/7"`},
		{"a variant", `{"containerImage": "a", "containerPlatform": "linux/amd64/v3"}`, `containerPlatform must be linux/amd64, linux/arm64 or both, separated by a comma, not "linux/amd64/v3"`},
		{"a known platform", `{"containerImage": "a", "containerPlatform": "linux/riscv64"}`, "containerPlatform must be linux/amd64, linux/arm64 or both"},
		{"second platform", `{` + file + `, "containerPlatform": "amd64,z80"}`, "containerPlatform must be linux/amd64, linux/arm64 or both"},
		{"the same platform", `{` + file + `, "containerPlatform": "amd64,x86_64"}`, "containerPlatform names linux/amd64 twice"},
		{"three platforms", `{` + file + `, "containerPlatform": "amd64,arm64,arm64"}`, "containerPlatform must be linux/amd64, linux/arm64 or both"},
		{"platforms of an image", `{"containerImage": "a", "containerPlatform": "amd64,arm64"}`, "containerPlatform must be one platform for an existing image"},
		{"long run", `{"containerImage": "a", "workflowId": "` + strings.Repeat("x", 1000) + `"}`, "workflowId is 1000 characters long; the maximum is "},
		{"repository", `{"containerImage": "a", "buildRepository": "https://h/x"}`, "buildRepository: "},
		{"freeze", `{"containerImage": "a", "freeze": true}`, "freeze needs buildRepository"},
		{"Singularity for two", `{` + file + `, "format": "sif", "containerPlatform": "amd64,arm64"}`, "containerPlatform must be one platform for a Singularity image"},
		{"the form comes before the content", `{"format": "zip"}`, "format must be one of"},
		{"values come before sizes", `{"format": "zip", "fingerprint": "` + strings.Repeat("x", 1000) + `"}`, "format must be one of"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := &containerv1.ContainerRequest{}
			if err := protojson.Unmarshal([]byte(tc.in), r); err != nil {
				t.Fatal(err)
			}
			if _, err := readAll(r, false); !errors.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestDeprecatedPathRefuses checks that the deprecated path rejects newer fields.
func TestDeprecatedPathRefuses(t *testing.T) {
	t.Parallel()
	packages := &containerv1.Packages{Type: "CONDA", Entries: []string{"bwa"}}
	for want, r := range map[string]*containerv1.ContainerRequest{
		"packages needs the path /v1alpha2/container":     {Packages: packages},
		"nameStrategy needs the path /v1alpha2/container": {ContainerImage: "a", NameStrategy: "none"},
	} {
		if _, err := readAll(r, true); !errors.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if _, err := readAll(r, false); err != nil {
			t.Errorf("on the current path: %v", err)
		}
	}
}

// TestTimestamps checks all forms of ISO 8601 that clients write.
func TestTimestamps(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123456789+01:00", "2026-01-31T12:00Z", "2026-01-31T12:00:00", "2026-01-31T12:00",
		"2026-01-31", "20260131", "20260131T120000Z", "20260131T120000+0100", "20260131T1200", "2026-01-31T12:00:00,5Z", "2026-031", "2026-01-31T12+01",
	} {
		if err := checkTimestamp(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{"now", "2026-13-01", "2026-02-30", "2026-01-31Z", "12:00", "1769860800", "2026-01-31T25:00"} {
		if checkTimestamp(s) == nil {
			t.Errorf("%s is accepted", s)
		}
	}
}

// TestEncodedStrings checks that limits apply to the decoded length.
func TestEncodedStrings(t *testing.T) {
	t.Parallel()
	file := func(n int) string {
		return ("FROM a\n" + strings.Repeat("#"+strings.Repeat("x", 1022)+"\n", n/1024+1))[:n]
	}
	lines := func(s string) string {
		var out []string
		for rest := base64.StdEncoding.EncodeToString([]byte(s)); rest != ""; {
			n := min(76, len(rest))
			out, rest = append(out, rest[:n]), rest[n:]
		}
		return strings.Join(out, "\r\n")
	}
	for _, c := range []struct {
		in   string
		want error
	}{
		{lines(file(limits.ContainerFile)), nil},
		{base64.RawURLEncoding.EncodeToString([]byte(file(100))), nil},
		{lines(file(limits.ContainerFile + 1)), fault.Invalid},
		{strings.Repeat(" ", limits.Encoded) + "RlJPTSBhCg==", fault.Invalid},
	} {
		if _, err := readAll(&containerv1.ContainerRequest{ContainerFile: c.in}, false); !errors.Is(err, c.want) {
			t.Errorf("%d characters: %v", len(c.in), err)
		}
	}
}

func FuzzRequest(f *testing.F) {
	f.Add(`{"containerImage":"ubuntu"}`)
	f.Add(`{"containerFile":"RlJPTQ==","format":"sif","containerPlatform":"amd64,arm64"}`)
	f.Add(`{"packages":{"type":"CONDA","entries":["bwa"]},"timestamp":"2026-01-31T12:00Z"}`)
	f.Add(`{"containerImage":"x","containerConfig":{"layers":[{"location":"data:AA==","gzipDigest":"sha256:1"}]}}`)
	f.Fuzz(func(t *testing.T, body string) {
		r := &containerv1.ContainerRequest{}
		if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(body), r) != nil {
			return
		}
		c, err := readAll(r, false)
		e, ok := fault.As(err)
		if err != nil && (!ok || e.Kind != fault.Invalid || e.Public == "") {
			t.Errorf("%s: a refusal is a fault for the caller, not %v", body, err)
		}
		if err == nil && !IsRecipe(r) && c.Image.Registry == "" {
			t.Errorf("%s: accepted without an image", body)
		}
	})
}
