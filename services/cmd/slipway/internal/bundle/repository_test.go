package bundle

import (
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// TestRepositoriesOfOthers checks that an image has no path that begins with the name of another registry
// if an image of that registry has it, and that each image has the path that is printed for it.
func TestRepositoriesOfOthers(t *testing.T) {
	t.Parallel()
	c := &content{}
	want := map[string]digest.Digest{}
	for _, full := range []string{"A.example/lab/tool:1", "a.example/lab/tool:1", "a.example/quay.io/lab/tool:1", "ghcr.io/lab/tool:1", "quay.io/lab/tool:1"} {
		n, err := parseName(full)
		if err != nil {
			t.Fatal(err)
		}
		want[n.full] = digest.FromString(full)
		c.images = append(c.images, image{n, ocispec.Descriptor{Digest: want[n.full]}})
	}
	repos, at := c.repositories()
	for full, d := range want {
		path, tag, ok := strings.Cut(at[full], ":")
		if p, found := strings.CutSuffix(path, "@sha256"); found {
			if repos[p] == nil || digest.Digest("sha256:"+tag) != d {
				t.Errorf("%s is at %s", full, at[full])
			}
			continue
		}
		if !ok || repos[path] == nil || repos[path].tags[tag] != d {
			t.Errorf("%s is at %s", full, at[full])
		}
	}
	if got := at["quay.io/lab/tool:1"]; got != "quay.io/lab/tool:1" {
		t.Errorf("the image of quay.io is at %s", got)
	}
	if got := at["a.example/quay.io/lab/tool:1"]; got != "a.example/quay.io/lab/tool:1" {
		t.Errorf("the image of a.example is at %s", got)
	}
	if got := at["a.example/lab/tool:1"]; !strings.Contains(got, "@") {
		t.Errorf("the image whose names are those of another is at %s", got)
	}
}

// TestComments checks that a comment in a configuration has no escapes of characters.
func TestComments(t *testing.T) {
	t.Parallel()
	c := &content{records: []record{{Requests: []request{{Name: `envs\u000aprocess.x=1`, Image: "x"}}}}}
	if got := c.nextflowConfig(map[string]string{"x": "h/x:1"}, "", false); !strings.HasSuffix(got, "// envs/u000aprocess.x=1: h/x:1\n") {
		t.Errorf("got %s", got)
	}
}
