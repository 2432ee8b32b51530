package request

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/conda"
	"slipway.dev/services/internal/fault"
)

// readEnvironment performs all checks of a request for an environment that need no other service.
func readEnvironment(t *testing.T, text string) (Resolved, error) {
	t.Helper()
	raw := &containerv1.ContainerRequest{}
	if err := protojson.Unmarshal([]byte(text), raw); err != nil {
		t.Fatal(err)
	}
	p, err := Parse(raw, func(string, string) bool { return false })
	if err == nil {
		err = p.CheckContent(false)
	}
	if err != nil {
		return Resolved{}, err
	}
	usual, err := conda.Defaults{}.Qualified()
	if err != nil {
		t.Fatal(err)
	}
	packages, err := p.ReadPackages(raw.GetPackages(), usual, time.Now())
	return Resolved{Parsed: p, Recipe: Recipe{Packages: &packages}}, err
}

// TestEnvironmentRejects checks what a request for an environment without an image cannot have.
func TestEnvironmentRejects(t *testing.T) {
	t.Parallel()
	const exclude = " exclude each other"
	file, pip := base64.StdEncoding.EncodeToString([]byte("FROM a\n")), base64.StdEncoding.EncodeToString([]byte("dependencies: [a, pip: [b]]\n"))
	layer := `{"gzipDigest": "` + digest.FromString("a").String() + `", "tarDigest": "` + digest.FromString("b").String() + `", "gzipSize": 1, "location": "https://h/x"}`
	for in, want := range map[string]string{
		`"containerImage": "a"`:           "format environment is for Conda packages",
		`"containerFile": "` + file + `"`: "format environment is for Conda packages",
		``:                                "format environment is for Conda packages",
		`"packages": {"type": "CONDA", "entries": ["a"]}, "mount": true`:                                                                    "format environment and mount" + exclude,
		`"packages": {"type": "CONDA", "entries": ["a"]}, "mirror": true`:                                                                   "format environment and mirror" + exclude,
		`"packages": {"type": "CONDA", "entries": ["a"]}, "soci": true`:                                                                     "format environment and soci" + exclude,
		`"packages": {"type": "CONDA", "entries": ["a"]}, "buildCompression": {"mode": "zstd"}`:                                             "format environment and buildCompression" + exclude,
		`"packages": {"type": "CONDA", "entries": ["a"]}, "buildCompression": {"mode": "gzip", "level": 9}`:                                 "format environment and buildCompression" + exclude,
		`"packages": {"type": "CONDA", "entries": ["a"]}, "containerConfig": {"env": ["A=b"]}`:                                              "format environment and containerConfig" + exclude,
		`"packages": {"type": "CONDA", "entries": ["a"]}, "containerConfig": {"layers": [` + layer + `]}`:                                   "format environment and containerConfig" + exclude,
		`"packages": {"type": "CONDA", "entries": ["a"]}, "containerConfig": {"env": ["A=b"]}, "freeze": true, "buildRepository": "h.io/x"`: "format environment and containerConfig" + exclude,
		`"packages": {"type": "CONDA", "entries": ["a"]}, "containerIncludes": ["b"]`:                                                       "format environment and containerIncludes" + exclude,
		`"packages": {"type": "CONDA", "entries": ["a"]}, "buildContext": ` + layer:                                                         "format environment and buildContext" + exclude,
		`"packages": {"type": "CONDA", "entries": ["a"]}, "cacheRepository": "h.io/x"`:                                                      "format environment and cacheRepository" + exclude,
		`"packages": {"type": "CONDA", "entries": ["a"]}, "containerPlatform": "amd64,arm64"`:                                               "containerPlatform must be one platform for an environment",
		`"packages": {"type": "CONDA", "entries": ["a"]}, "scanMode": "async"`:                                                              "scanMode of an environment without an image is not supported",
		`"packages": {"type": "CONDA", "entries": ["a"]}, "buildTemplate": "conda/micromamba:v2"`:                                           "format environment is for packages that are mounted as they are, but buildTemplate requires build steps",
		`"packages": {"type": "CONDA", "entries": ["a"], "condaOpts": {"mambaImage": "a/m:1"}}`:                                             "format environment is for packages that are mounted as they are, but ",
		`"packages": {"type": "CONDA", "entries": ["a"], "condaOpts": {"commands": ["RUN true"]}}`:                                          "format environment is for packages that are mounted as they are, but ",
		`"packages": {"type": "CONDA", "entries": ["a"], "condaOpts": {"compile": true}}`:                                                   "format environment is for packages that are mounted as they are, but ",
		`"packages": {"type": "CONDA", "environment": "` + pip + `"}`:                                                                       "format environment is for packages that are mounted as they are, but ",
		`"packages": {"type": "CONDA", "entries": ["a"], "condaOpts": {"baseImage": "debian:12"}}`:                                          "packages.condaOpts.baseImage and format environment" + exclude,
		`"packages": {"type": "CONDA", "entries": ["a"], "pixiOpts": {"baseImage": "debian:12"}}`:                                           "packages.pixiOpts.baseImage and format environment" + exclude,
	} {
		_, err := readEnvironment(t, `{"format": "environment"`+strings.TrimSuffix(", "+in, ", ")+`}`)
		if !errors.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", in, err, want)
		}
	}
}

// TestEnvironmentPlan checks that the build of an environment reads no image, has another ID than that of an image, and does not
// depend on the base image of locks.
func TestEnvironmentPlan(t *testing.T) {
	t.Parallel()
	const packages = `"packages": {"type": "CONDA", "entries": ["a"]}`
	lock := &Locked{SolvePackagesResponse: &condav1.SolvePackagesResponse{Records: []string{"[]"}, Subdirs: []string{"linux-64"}, Answer: &condav1.LockPackagesResponse{Locks: []*condav1.PlatformLock{{Platform: proto.String("linux/amd64")}}}}}
	ids := map[string]string{}
	for _, in := range []string{`{` + packages + `}`, `{` + packages + `, "mount": true}`, `{` + packages + `, "format": "environment"}`} {
		r, err := readEnvironment(t, in)
		if err != nil {
			t.Fatal(err)
		}
		b := r.Build(r.PackagePlan(*r.Packages, lock, NoBase), Destination{Registry: "h.io", Repository: "x", Own: true}, "")
		if was := ids[b.GetContentId()]; was != "" {
			t.Errorf("%s has the ID of %s", in, was)
		}
		ids[b.GetContentId()] = in
		recipe := b.GetRecipe()
		if is := recipe.GetFormat() == FormatEnvironment; is != r.IsEnvironment() || is && (recipe.GetSource() != nil || recipe.GetMount() || recipe.GetEngine() != "conda" || len(b.GetRepositories()) > 0) {
			t.Errorf("%s: the recipe is %v", in, recipe)
		}
	}
}
