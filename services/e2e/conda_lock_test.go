package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestLocksBecomeImages requests images from locks of py-rattler and conda-lock with the
// command line, on two servers. The locks must be used without changes although the channel has
// newer packages, and the digests must be equal. Packages that the channel has deleted must be
// named in the error.
func TestLocksBecomeImages(t *testing.T) {
	t.Parallel()
	up, channel := testkit.NewRegistry(t, testkit.Open), newArtifacts(t)
	channel.answer("repodata.json", http.NotFound) // not needed
	base := up.Push(t, "base/one:1", testkit.Image(t, "amd64", true))
	one, two := oneProcess(t, common(t, []string{up.Host}, bare(channel.URL))), oneProcess(t, common(t, []string{up.Host}, bare(channel.URL)))
	dir := t.TempDir()
	lock := func(name string) string {
		raw, err := os.ReadFile("../conda/lockfile/testdata/locks/" + name)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name)
		text := strings.ReplaceAll(string(raw), "https://channel.example", channel.URL)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	usual := []string{"c-ares-1.21.0-h31becfc_0", "libcurl-8.4.0-h4e8248e_0", "libzlib-1.2.13-h31becfc_5"}
	withFFI := slices.Insert(slices.Clone(usual), 2, "libffi-3.4.2-h3557bc0_5")
	explicit := filepath.Join(dir, "explicit.txt")
	text, errs, err := one.slipway("lock", "--file", lock("pixi.lock"), "--environment", "test", "--sha256")
	if err != nil {
		t.Fatal(errs, err)
	}
	if err := os.WriteFile(explicit, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"pixi.lock", []string{"--file", lock("pixi.lock")}, usual},
		{"another environment of pixi.lock", []string{"--file", lock("pixi.lock"), "--environment", "test"}, withFFI},
		{"conda-lock.yml", []string{"--file", lock("conda-lock.yml")}, usual},
		{"explicit", []string{"--file", explicit}, withFFI},
	} {
		var digests []string
		for _, p := range []*program{one, two} {
			image, errs, err := p.slipway(append([]string{"conda", "--await", "--base-image", base, "--platform", "linux/amd64"}, c.args...)...)
			if err != nil {
				t.Fatalf("%s: %s %v", c.name, errs, err)
			}
			img := pull(t, image, "amd64")
			digest, err := img.Digest()
			if err != nil {
				t.Fatal(err)
			}
			digests = append(digests, digest.String())
			content := files(t, img)
			if got := installed(t, content); !slices.Equal(got, c.want) {
				t.Errorf("%s: the image has %q, want %q", c.name, got, c.want)
			}
			if p == one { // the other server has the same digest
				channel.answer("repodata.json", nil) // conda reads it
				judge(t, content, judged{packages: channel.urls(c.want), channel: channel.URL + "/lab", more: "libuuid"})
				channel.answer("repodata.json", http.NotFound)
			}
		}
		if digests[0] != digests[1] {
			t.Errorf("%s: two servers built %q", c.name, digests)
		}
	}
	if _, errs, err := one.slipway("conda", "--file", lock("pixi.lock"), "--environment", "gpu"); err == nil || !strings.Contains(errs, "it has default, test") {
		t.Errorf("a missing environment: %s %v", errs, err)
	}
	channel.answer("libffi-3.4.2-h3557bc0_5.tar.bz2", http.NotFound)
	three := oneProcess(t, common(t, []string{up.Host}, bare(channel.URL)))
	if _, errs, err := three.slipway("conda", "--await", "--base-image", base, "--file", explicit); err == nil || !strings.Contains(errs, "libffi-3.4.2-h3557bc0_5.tar.bz2") {
		t.Errorf("a package that the channel has deleted: %s %v", errs, err)
	}
}

// installed returns the packages in conda-meta, by name.
func installed(t *testing.T, content map[string]string) []string {
	t.Helper()
	var out []string
	for path, text := range content {
		name, ok := strings.CutPrefix(path, "opt/conda/conda-meta/")
		if !ok || !strings.HasSuffix(name, ".json") {
			continue
		}
		var rec struct{ Name, Version, Build, Channel string }
		if err := json.Unmarshal([]byte(text), &rec); err != nil || name != rec.Name+"-"+rec.Version+"-"+rec.Build+".json" || !strings.HasSuffix(rec.Channel, "/lab") {
			t.Errorf("%s is %+v, %v", path, rec, err)
		}
		out = append(out, strings.TrimSuffix(name, ".json"))
	}
	slices.Sort(out)
	return out
}

// urls returns the URLs of packages of the channel lab for linux-64.
func (a *artifacts) urls(packages []string) (out []string) {
	for _, p := range packages {
		ending := ".conda"
		if _, err := os.Stat(filepath.Join(artifactsDir, p+ending)); err != nil {
			ending = ".tar.bz2"
		}
		out = append(out, a.URL+"/lab/linux-64/"+p+ending)
	}
	return out
}
