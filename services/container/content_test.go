package container

import (
	"testing"

	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/caller"
)

func plainRecipe() *buildv1.Recipe {
	return &buildv1.Recipe{
		ContainerFile: "FROM a\n", Platform: "linux/amd64", Format: "oci", Engine: "buildkit",
		Files: []*buildv1.File{{Path: "a", Content: []byte("1")}, {Path: "b", Content: []byte("2")}},
	}
}

// TestContentStaysTheSame checks that the digests of existing images do not change: a
// change here rebuilds everything and requires a new templateVersion.
func TestContentStaysTheSame(t *testing.T) {
	t.Parallel()
	const want = "49edc81514a4915e5f1628aa189905d93150013608b0f0fee22e2f810d884f9e"
	if got := request.ContentDigest(plainRecipe(), repositoryOf("h", "r", "")); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := request.ScopeOf(caller.ID{Endpoint: "http://localhost:9091", UserID: 1}); got != "fda8a8fb0d2f1ccd" {
		t.Errorf("the scope is %s", got)
	}
}

// repositoryOf returns a user's repository.
func repositoryOf(registry, repository, scope string) request.Destination {
	return request.Destination{Registry: registry, Repository: repository, Scope: scope}
}

// TestContentDigestOfOwnRepository checks that the location of the service's own repository
// does not affect the digest.
func TestContentDigestOfOwnRepository(t *testing.T) {
	t.Parallel()
	here := request.Destination{Registry: "h", Repository: "r/s", Scope: "s", Own: true}
	there := request.Destination{Registry: "h2", Repository: "r2/s", Scope: "s", Own: true}
	if request.ContentDigest(plainRecipe(), here) != request.ContentDigest(plainRecipe(), there) {
		t.Error("the digest depends on the place of the own repository")
	}
	there.Scope = ""
	if request.ContentDigest(plainRecipe(), here) == request.ContentDigest(plainRecipe(), there) {
		t.Error("the digest does not depend on the scope")
	}
}

func TestContentDigest(t *testing.T) {
	t.Parallel()
	layer := func(location string) *containerv1.Layer {
		return &containerv1.Layer{Location: location, GzipDigest: "sha256:1", TarDigest: "sha256:2"}
	}
	config := func(c *containerv1.ContainerConfig) func(*buildv1.Recipe) {
		return func(r *buildv1.Recipe) { r.Config = c }
	}
	seen := map[string]string{request.ContentDigest(plainRecipe(), repositoryOf("h", "r", "")): "plain"}
	differs := func(name, digest string) {
		if other, ok := seen[digest]; ok {
			t.Errorf("%s is the same as %s", name, other)
		}
		seen[digest] = name
	}
	for name, change := range map[string]func(*buildv1.Recipe){
		"Dockerfile":            func(r *buildv1.Recipe) { r.ContainerFile = "FROM b\n" },
		"Conda file":            func(r *buildv1.Recipe) { r.CondaFile = "x" },
		"platform":              func(r *buildv1.Recipe) { r.Platform = "linux/arm64" },
		"format":                func(r *buildv1.Recipe) { r.Format = "sif" },
		"engine":                func(r *buildv1.Recipe) { r.Engine = "sif" },
		"content of a file":     func(r *buildv1.Recipe) { r.Files[0].Content = []byte("12") },
		"another split":         func(r *buildv1.Recipe) { r.Files[0].Path, r.Files[0].Content = "a1", nil },
		"one file":              func(r *buildv1.Recipe) { r.Files = r.Files[:1] },
		"context":               func(r *buildv1.Recipe) { r.Context = layer("data:") },
		"entrypoint":            config(&containerv1.ContainerConfig{Entrypoint: []string{"a"}}),
		"two words":             config(&containerv1.ContainerConfig{Entrypoint: []string{"a", "b"}}),
		"a word and a cmd":      config(&containerv1.ContainerConfig{Entrypoint: []string{"a"}, Cmd: []string{"b"}}),
		"env":                   config(&containerv1.ContainerConfig{Env: []string{"a"}}),
		"workingDir":            config(&containerv1.ContainerConfig{WorkingDir: "a"}),
		"layer":                 config(&containerv1.ContainerConfig{Layers: []*containerv1.Layer{layer("data:")}}),
		"layer for one machine": config(&containerv1.ContainerConfig{Layers: []*containerv1.Layer{layer("https://h/x-arm64.tar.gz")}}),
	} {
		r := plainRecipe()
		change(r)
		differs(name, request.ContentDigest(r, repositoryOf("h", "r", "")))
	}
	differs("registry", request.ContentDigest(plainRecipe(), repositoryOf("h2", "r", "")))
	differs("repository", request.ContentDigest(plainRecipe(), repositoryOf("h", "r2", "")))
	differs("another split of the name", request.ContentDigest(plainRecipe(), repositoryOf("hr", "", "")))
	differs("the service's own repository", request.ContentDigest(plainRecipe(), request.Destination{Registry: "h", Repository: "r", Own: true}))
	differs("scope", request.ContentDigest(plainRecipe(), repositoryOf("h", "r", "s")))
}

func TestContentDigestIgnoresIrrelevantFields(t *testing.T) {
	t.Parallel()
	want := request.ContentDigest(plainRecipe(), repositoryOf("h", "r", ""))
	for name, change := range map[string]func(*buildv1.Recipe){
		"order of files":      func(r *buildv1.Recipe) { r.Files[0], r.Files[1] = r.Files[1], r.Files[0] },
		"bytes of a context":  func(r *buildv1.Recipe) { r.ContextData = []byte("x") },
		"empty configuration": func(r *buildv1.Recipe) { r.Config = &containerv1.ContainerConfig{} },
		"a copy":              func(r *buildv1.Recipe) { proto.Merge(r, &buildv1.Recipe{}) },
	} {
		r := plainRecipe()
		change(r)
		if got := request.ContentDigest(r, repositoryOf("h", "r", "")); got != want {
			t.Errorf("%s changes the id", name)
		}
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, id := range []caller.ID{{}, {Endpoint: "a", UserID: 1}, {Endpoint: "a", UserID: 2}, {Endpoint: "b", UserID: 1}, {Endpoint: "a", UserID: 1, WorkspaceID: 1}} {
		seen[request.ScopeOf(id)] = true
	}
	if len(seen) != 5 {
		t.Errorf("five identities have %d scopes", len(seen))
	}
}
