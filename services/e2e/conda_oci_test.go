package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/internal/testkit"
)

// mirrorChannel pushes a channel of real packages to a registry, as conda-oci-mirror does, and returns its URL.
func mirrorChannel(t *testing.T, r *testkit.Registry) string {
	t.Helper()
	list := repodataOf(t, map[string]map[string]any{
		"libcurl-8.4.0-h4e8248e_0.conda":  {"name": "libcurl", "version": "8.4.0", "build": "h4e8248e_0", "depends": []string{"libzlib >=1.2.13,<1.3", "c-ares"}},
		"libzlib-1.2.13-h31becfc_5.conda": {"name": "libzlib", "version": "1.2.13", "build": "h31becfc_5"},
		"c-ares-1.21.0-h31becfc_0.conda":  {"name": "c-ares", "version": "1.21.0", "build": "h31becfc_0"},
		"libffi-3.4.2-h3557bc0_5.tar.bz2": {"name": "libffi", "version": "3.4.2", "build": "h3557bc0_5"},
	})
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	const at = "channel-mirrors/lab/linux-64/"
	r.PushArtifact(t, at+"repodata.json:latest", "application/vnd.conda.repodata.v1+json+zst", string(z.EncodeAll(list, nil)))
	for ref, file := range map[string]string{
		"libcurl:8.4.0-h4e8248e_0": "libcurl-8.4.0-h4e8248e_0.conda", "libzlib:1.2.13-h31becfc_5": "libzlib-1.2.13-h31becfc_5.conda",
		"c-ares:1.21.0-h31becfc_0": "c-ares-1.21.0-h31becfc_0.conda", "libffi:3.4.2-h3557bc0_5": "libffi-3.4.2-h3557bc0_5.tar.bz2",
	} {
		raw, err := os.ReadFile(filepath.Join(artifactsDir, file))
		if err != nil {
			t.Fatal(err)
		}
		mediaType := "application/vnd.conda.package.v2"
		if strings.HasSuffix(file, ".tar.bz2") {
			mediaType = "application/vnd.conda.package.v1"
		}
		r.PushArtifact(t, at+ref, mediaType, string(raw))
	}
	return "oci://" + r.Host + "/channel-mirrors/lab"
}

// TestCondaChannelInRegistry builds images of packages from a channel in a registry, and from one that requires
// a login. Other tools must be able to read the environments.
func TestCondaChannelInRegistry(t *testing.T) {
	t.Parallel()
	up, closed := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Bearer)
	public, private := mirrorChannel(t, up), mirrorChannel(t, closed)
	s := bare(public)
	s["master_key_file"] = newMasterKey(t)
	eachCopyShape(t, []string{up.Host, closed.Host}, s, func(t *testing.T, p *program) {
		base := up.Push(t, "base/index:1", testkit.Index(t, true, "amd64", "arm64"))
		order := environment(base, "libcurl", "libffi")
		packages, _ := order["packages"].(map[string]any)
		packages["channels"] = []string{public}
		built := p.order(order)
		if s := p.finished(t, built); s["succeeded"] != true {
			t.Fatalf("the build ended as %v:\n%s", s, p.logOf(built))
		}
		content := files(t, pull(t, text(built, "targetImage"), "amd64"))
		for _, path := range []string{"opt/conda/lib/libz.so.1.2.13", "opt/conda/conda-meta/libcurl-8.4.0-h4e8248e_0.json", "opt/conda/conda-meta/libffi-3.4.2-h3557bc0_5.json"} {
			if content[path] == "" {
				t.Errorf("%s is not in the image", path)
			}
		}
		if len(p.procs) == 1 {
			p.judgeBuild(t, built, content, judged{})
		}
		lock := string(p.call("GET", "/v1alpha1/builds/"+text(built, "buildId")+"/lock?format=explicit", nil).body)
		if want := public + "/linux-64/libffi-3.4.2-h3557bc0_5.tar.bz2"; !strings.Contains(lock, want) {
			t.Errorf("the lock has no %s:\n%s", want, lock)
		}
		file := filepath.Join(t.TempDir(), "lock")
		if err := os.WriteFile(file, []byte(lock), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, errs, err := p.slipway("conda", "--file", file, "--base-image", base, "--await"); err != nil || !strings.Contains(out, "/") {
			t.Errorf("the image of the lock is %s %s, %v", out, errs, err)
		}
		if out, errs, err := p.slipway("search", "libcurl", "--channel", public); err != nil || !strings.Contains(out, "8.4.0") {
			t.Errorf("the search finds %s %s, %v", out, errs, err)
		}
		if out, errs, err := p.slipway("licenses", file); err != nil {
			t.Errorf("the licences are %s %s, %v", out, errs, err)
		}
		p.usePrivateChannel(t, private, base)
	})
}

// usePrivateChannel stores a login for a channel in a registry, and builds an image of it.
func (p *program) usePrivateChannel(t *testing.T, channel, base string) {
	t.Helper()
	password := filepath.Join(t.TempDir(), "password")
	for i, text := range []string{"another", testkit.Password} {
		if err := os.WriteFile(password, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, errs, err := p.slipway("lock", "libcurl", "--channel", channel); err == nil {
			t.Errorf("without a login the lock is %s %s", out, errs)
		}
		_, errs, err := p.slipway("credentials", "add", "lab", "--channel", channel, "--username", testkit.User, "--password-file", password)
		if valid := i == 1; valid != (err == nil) || strings.Contains(errs, text) {
			t.Fatalf("the login with the password %d got %s, %v", i, errs, err)
		}
	}
	if out, errs, err := p.slipway("lock", "libcurl", "--channel", channel); err != nil || !strings.Contains(out, channel+"/linux-64/libcurl-8.4.0") || strings.Contains(out+errs, testkit.Password) {
		t.Errorf("with a login the lock is %s %s, %v", out, errs, err)
	}
	out, errs, err := p.slipway("conda", "libcurl", "--channel", channel, "--base-image", base, "--base-packages", "", "--await")
	if err != nil {
		t.Fatalf("the image of the private channel: %s %s, %v", out, errs, err)
	}
	if content := files(t, pull(t, strings.TrimSpace(out), "amd64")); content["opt/conda/lib/libz.so.1.2.13"] == "" {
		t.Error("the image of the private channel has no packages")
	}
	if r := p.call("GET", "/v1alpha1/conda/packages?q=libcurl&channel="+channel, nil); r.status == 200 {
		t.Errorf("without the login, the search of the private channel is %s", r.body)
	}
}
