package e2e

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	native "github.com/sylabs/sif/v2/pkg/sif"

	"slipway.dev/services/internal/testkit"
)

// needSif skips the test if no program can read Singularity images.
func needSif(t testing.TB) {
	t.Helper()
	if !testkit.Real() {
		t.Skip("needs squashfs-tools: SLIPWAY_TEST_REAL is not set")
	}
}

// pulledSif pulls a Singularity image like oras does, and returns its path and digest.
func pulledSif(t testing.TB, target string) (path, digest string) {
	t.Helper()
	image, ok := strings.CutPrefix(target, "oras://")
	if !ok {
		t.Fatalf("the image name is %s", target)
	}
	ref, err := name.ParseReference(image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(ref, remote.WithAuth(&authn.Basic{Username: testkit.User, Password: testkit.Password}))
	if err != nil {
		t.Fatal(err)
	}
	m, err := img.Manifest()
	if err != nil || len(m.Layers) != 1 || m.Config.MediaType != "application/vnd.sylabs.sif.config.v1+json" ||
		m.Layers[0].MediaType != "application/vnd.sylabs.sif.layer.v1.sif" || m.MediaType != "application/vnd.oci.image.manifest.v1+json" {
		t.Fatalf("the manifest is %+v, %v", m, err)
	}
	l, err := img.LayerByDigest(m.Layers[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	content, err := l.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	f, err := os.Create(filepath.Join(t.TempDir(), "image.sif"))
	if err == nil {
		_, err = io.Copy(f, content)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return f.Name(), m.Layers[0].Digest.String()
}

// unpackSif returns a folder with the files of an image for amd64.
func unpackSif(t testing.TB, path string) string {
	t.Helper()
	return unpackSifFor(t, path, "amd64")
}

func unpackSifFor(t testing.TB, path, architecture string) string {
	t.Helper()
	image, err := native.LoadContainerFromPath(path, native.OptLoadWithFlag(os.O_RDONLY))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = image.UnloadContainer() }()
	part, err := image.GetDescriptor(native.WithPartitionType(native.PartPrimSys))
	if err != nil || image.PrimaryArch() != architecture || image.LaunchScript() != "#!/usr/bin/env run-singularity\n" {
		t.Fatalf("the image is for %s, launched by %q, %v", image.PrimaryArch(), image.LaunchScript(), err)
	}
	dir := filepath.Join(t.TempDir(), "root")
	if out, err := exec.Command("unsquashfs", "-no-progress", "-o", fmt.Sprint(part.Offset()), "-d", dir, path).CombinedOutput(); err != nil {
		t.Fatalf("unsquashfs: %v\n%s", err, tail(string(out), 2000))
	}
	return dir
}

// sameTree compares every file with a tar: type, mode, owner, link and content. Additional
// files in the folder must be files for Singularity runtimes.
func sameTree(t testing.TB, dir string, want io.Reader) {
	t.Helper()
	seen := map[string]bool{}
	for r := tar.NewReader(want); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		path := strings.Trim(strings.TrimPrefix(h.Name, "./"), "/")
		if path == "" || path == "." || h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
			continue
		}
		seen[path] = true
		if why := differs(dir, path, h, r); why != "" {
			t.Errorf("%s: %s", path, why)
		}
	}
	err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		top, _, _ := strings.Cut(rel, "/")
		if err == nil && rel != "." && !seen[rel] && !strings.HasPrefix(rel, ".singularity.d") && !ofRuntimes(rel) {
			t.Errorf("%s (in %s) is in no layer", rel, top)
		}
		return err
	})
	if err != nil || len(seen) == 0 {
		t.Errorf("%d names, %v", len(seen), err)
	}
}

// ofRuntimes reports whether a file of a Singularity image is for its runtime.
func ofRuntimes(path string) bool {
	switch path {
	case "dev", "etc", "home", "proc", "root", "sys", "tmp", "var", "var/tmp", "etc/hosts", "etc/resolv.conf",
		"environment", "singularity", ".exec", ".run", ".shell", ".test":
		return true
	}
	return false
}

func differs(dir, path string, h *tar.Header, content io.Reader) string {
	full := filepath.Join(dir, path)
	var st syscall.Stat_t
	if err := syscall.Lstat(full, &st); err != nil {
		return err.Error()
	}
	switch h.Typeflag {
	case tar.TypeLink:
		var other syscall.Stat_t
		if err := syscall.Lstat(filepath.Join(dir, h.Linkname), &other); err != nil || other.Ino != st.Ino {
			return fmt.Sprintf("is no link to %s: %v", h.Linkname, err)
		}
		return ""
	case tar.TypeSymlink:
		if to, err := os.Readlink(full); err != nil || to != h.Linkname {
			return fmt.Sprintf("leads to %q instead of %q, %v", to, h.Linkname, err)
		}
	case tar.TypeDir:
		if st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
			return "is no folder"
		}
	case tar.TypeReg:
		one, two := sha256.New(), sha256.New()
		f, err := os.Open(full)
		if err != nil {
			return err.Error()
		}
		defer f.Close()
		_, err1 := io.Copy(one, f)
		_, err2 := io.Copy(two, content)
		if err1 != nil || err2 != nil || !bytes.Equal(one.Sum(nil), two.Sum(nil)) {
			return fmt.Sprintf("has other content: %v, %v", err1, err2)
		}
	}
	if int64(st.Mode&0o7777) != h.Mode&0o7777 || int(st.Uid) != h.Uid || int(st.Gid) != h.Gid {
		return fmt.Sprintf("has mode %o and owner %d:%d instead of %o and %d:%d", st.Mode&0o7777, st.Uid, st.Gid, h.Mode&0o7777, h.Uid, h.Gid)
	}
	return ""
}

// TestSifOfAnImage converts a Debian image to a Singularity image twice, on two servers.
func TestSifOfAnImage(t *testing.T) {
	t.Parallel()
	needSif(t)
	own := testkit.NewRegistry(t, testkit.Basic)
	more := settings{"admin_registry_auth_file": dockerConfig(t, map[string]string{own.Host: testkit.User + ":" + testkit.Password})}
	img, extra := debian(t), holding(t, true, "usr/share/included.txt", "of another image")
	base, includes := own.Push(t, "team/debian:1", img), []string{own.Push(t, "team/more:1", extra)}
	gz, added := testkit.Tar(t, "added.txt", "of the request")
	body := frozen(base, own.Host+"/team/sif", map[string]any{
		"env": []string{"GREETING=hello"}, "layers": []any{layer(fileServer(t, "/x.tar.gz", gz), gz, added)},
	})
	body["format"], body["containerIncludes"] = "sif", includes
	digests := map[string]bool{}
	eachCopyShape(t, []string{own.Host}, more, func(t *testing.T, p *program) {
		body := frozen(base, own.Host+"/team/sif-"+testkit.FreePort(t), body["containerConfig"].(map[string]any))
		body["format"], body["containerIncludes"] = "sif", includes
		answer := p.order(body, "Authorization", "Bearer "+p.token)
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("the build ended as %v\n%s", s, p.logOf(answer))
		}
		path, digest := pulledSif(t, text(answer, "targetImage"))
		dir := unpackSif(t, path)
		top, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(gz)), nil })
		if err != nil {
			t.Fatal(err)
		}
		included, err := extra.Layers()
		if err != nil {
			t.Fatal(err)
		}
		full, err := mutate.AppendLayers(img, append([]v1.Layer{top}, included...)...)
		if err != nil {
			t.Fatal(err)
		}
		sameTree(t, dir, mutate.Extract(full))
		if env, err := os.ReadFile(filepath.Join(dir, ".singularity.d/env/10-docker2singularity.sh")); err != nil || !strings.Contains(string(env), "GREETING='hello'") {
			t.Errorf("the variables are %s", env)
		}
		p.downloadSif(t, answer, path, digest)
		if again := p.order(body, "Authorization", "Bearer "+p.token); again["cached"] != true || again["targetImage"] != answer["targetImage"] {
			t.Errorf("the repeated request returned %v", again)
		}
		digests[digest] = true
	})
	other := oneProcess(t, common(t, []string{own.Host}, more))
	answer := other.order(body, "Authorization", "Bearer "+other.token)
	if s := other.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v\n%s", s, other.logOf(answer))
	}
	_, digest := pulledSif(t, text(answer, "targetImage"))
	digests[digest] = true
	other.sharesLayers(t, body, answer)
	t.Cleanup(func() { // runs after the parallel shapes
		if len(digests) != 1 {
			t.Errorf("the servers built %v", digests)
		}
	})
}

// sharesLayers makes another image of the same layers, and checks that they are not compressed again.
func (p *program) sharesLayers(t *testing.T, body, first map[string]any) {
	t.Helper()
	const compressing = "Compressing the layer"
	if log := p.logOf(first); !strings.Contains(log, compressing) {
		t.Errorf("the log of the first image does not mention its layers: %s", log)
	}
	config, ok := body["containerConfig"].(map[string]any)
	if !ok {
		t.Fatalf("the request is %v", body)
	}
	second, changed := maps.Clone(body), maps.Clone(config)
	changed["env"] = []string{"GREETING=goodbye"}
	second["containerConfig"] = changed
	answer := p.order(second, "Authorization", "Bearer "+p.token)
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v\n%s", s, p.logOf(answer))
	}
	if log := p.logOf(answer); strings.Contains(log, compressing) {
		t.Errorf("a layer was compressed again: %s", log)
	}
}

// downloadSif downloads the image over HTTP, completely and partially, and with the command
// line: by its token or, if it is frozen, by its id as its user. The id alone must not be
// sufficient.
func (p *program) downloadSif(t *testing.T, answer map[string]any, path, digest string) {
	t.Helper()
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if r := p.call(http.MethodGet, "/v1alpha2/container/"+text(answer, "requestId")+"/sif", nil); r.status != http.StatusUnauthorized {
		t.Errorf("by id only, the download got %d", r.status)
	}
	id, bearer := cmp.Or(text(answer, "containerToken"), text(answer, "requestId")), []string(nil)
	if id == text(answer, "requestId") {
		bearer = []string{"Authorization", "Bearer " + p.token}
	}
	at := "/v1alpha2/container/" + id + "/sif"
	whole := p.call(http.MethodGet, at, nil, bearer...)
	if whole.status != http.StatusOK || !bytes.Equal(whole.body, want) || whole.header.Get("Etag") != `"`+digest+`"` {
		t.Errorf("the download got %d, %d bytes, %v", whole.status, len(whole.body), whole.header)
	}
	part := p.call(http.MethodGet, at, nil, append(bearer, "Range", "bytes=4096-8191")...)
	if part.status != http.StatusPartialContent || !bytes.Equal(part.body, want[4096:8192]) {
		t.Errorf("a part got %d, %d bytes, %v", part.status, len(part.body), part.header)
	}
	if beyond := p.call(http.MethodGet, at, nil, append(bearer, "Range", "bytes=999999999999-")...); beyond.status != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a range beyond the end got %d", beyond.status)
	}
	file := filepath.Join(t.TempDir(), "x.sif")
	cmd := exec.Command(filepath.Join(binaries, "slipway"), "pull", id, "--sif", file, "--server", p.url)
	cmd.Env = append(os.Environ(), "SLIPWAY_TOKEN="+p.token)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("slipway pull: %v\n%s", err, out)
	}
	got, err := os.ReadFile(file)
	if sum := sha256.Sum256(got); err != nil || "sha256:"+hex.EncodeToString(sum[:]) != digest {
		t.Errorf("the command line wrote %d bytes, %v", len(got), err)
	}
}
