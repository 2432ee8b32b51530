package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestBatchLock requests the environments and images of a pipeline with `slipway batch`. With
// its lock file, a second server must make the same images without the lists of the channel, from
// which a package has disappeared, and the lock file must not change.
func TestBatchLock(t *testing.T) {
	t.Parallel()
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	base := up.Push(t, "base/one:1", testkit.Image(t, "amd64", true))
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	curl := write("curl.yml", "channels: [lab]\ndependencies: [libcurl]\n")
	ffi := write("ffi.yml", "channels: [lab]\ndependencies: [libffi]\n")
	requests := write("requests.jsonl", `{"containerImage":"`+base+`"}`+"\n"+`{"containerImage":"`+base+`","containerConfig":{"env":["A=b"]}}`+"\n")
	lock := filepath.Join(dir, "slipway.lock")
	batch := func(p *program) (images []string, text string) {
		t.Helper()
		out, errs, err := p.slipway("batch", curl, ffi, requests, "--await", "--lock", lock, "--base-image", base, "--base-packages", "", "-o", "name")
		if err != nil {
			t.Fatalf("%v\n%s%s", err, out, errs)
		}
		raw, err := os.ReadFile(lock)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(out, "\n"), string(raw)
	}
	digests := func(images []string) (out []string) {
		t.Helper()
		for _, image := range images[:2] {
			digest, err := pull(t, image, "amd64").Digest()
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, digest.String())
		}
		return out
	}
	first, before := batch(oneProcess(t, common(t, []string{up.Host}, bare(channel.URL))))
	if len(first) != 4 {
		t.Fatalf("got %q", first)
	}
	channel.answer("repodata.json", http.NotFound)
	second, after := batch(oneProcess(t, common(t, []string{up.Host}, bare(channel.URL))))
	if got, want := digests(second), digests(first); !slices.Equal(got, want) {
		t.Errorf("the second server made %q, want %q", got, want)
	}
	if after != before || strings.Count(before, `"digest"`) != 4 || strings.Count(before, `"lock"`) != 2 {
		t.Errorf("the lock file was\n%s\nand is\n%s", before, after)
	}
	for _, image := range second[2:] {
		if image == "-" || !strings.Contains(image, "/base/one@sha256:") {
			t.Errorf("the image is %s", image)
		}
	}
}
