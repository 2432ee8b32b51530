package e2e

import (
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"slipway.dev/services/internal/testkit"
)

// shared is the size of the layer that the images of TestSifParts share.
const shared = 12 << 20

// incompressible returns n random bytes.
func incompressible(n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return string(b)
}

// stored returns the number of bytes in the image store of a data_dir.
func stored(t testing.TB, dir string) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, "images"), func(_ string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it is created with the first image
		}
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// sifFrom requests a Singularity image of an image, and pulls it.
func (p *program) sifFrom(t *testing.T, image string) (answer map[string]any, path, digest string) {
	t.Helper()
	answer = p.order(sifOf(map[string]any{"containerImage": image}, "linux/amd64"))
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v\n%s", s, p.logOf(answer))
	}
	path, digest = pulledSif(t, text(answer, "targetImage"))
	return answer, path, digest
}

// TestSifParts makes Singularity images that share a layer, which the image store stores once. It checks
// them after a backup and a restore, and after a part was lost, and moves them to another registry.
func TestSifParts(t *testing.T) {
	t.Parallel()
	needSif(t)
	up, own := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Basic)
	p := oneProcess(t, common(t, []string{up.Host, own.Host}, nil))
	env := p.procs[0].env
	base := with(t, busybox(t, true), map[string]string{"shared": incompressible(shared)})
	images := []v1.Image{with(t, base, map[string]string{"one": "first"}), with(t, base, map[string]string{"two": "second"})}
	var digests, refs []string
	var answers []map[string]any
	for i, image := range images {
		before := stored(t, env["data_dir"])
		refs = append(refs, up.Push(t, []string{"lib/one:1", "lib/two:1"}[i], image))
		answer, path, digest := p.sifFrom(t, refs[i])
		added := stored(t, env["data_dir"]) - before
		t.Logf("the image %d adds %d bytes", i+1, added)
		if i == 0 && added < shared || i == 1 && added > 100_000 {
			t.Errorf("the image %d adds %d bytes", i+1, added)
		}
		if log := p.logOf(answer); strings.Contains(log, "pushed as a file") {
			t.Errorf("the parts were not pushed: %s", log)
		}
		sameTree(t, unpackSif(t, path), mutate.Extract(image))
		p.downloadSif(t, answer, path, digest)
		digests, answers = append(digests, digest), append(answers, answer)
	}
	p.restoredParts(t, answers, digests)
	p.lostPart(t, refs, answers, digests)
	p.movedParts(t, own, answers, digests)
}

// restoredParts continues with a restored backup.
func (p *program) restoredParts(t *testing.T, answers []map[string]any, digests []string) {
	t.Helper()
	dir, env := filepath.Join(t.TempDir(), "backup"), p.procs[0].env
	for range 2 { // the second one copies nothing
		if out, err := env.run("backup", dir); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := p.procs[0].stop(); err != nil {
		t.Fatal(err)
	}
	elsewhere := maps.Clone(env)
	elsewhere["data_dir"] = filepath.Join(t.TempDir(), "data")
	if out, err := elsewhere.run("restore", dir); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.procs[0].env = elsewhere
	p.procs[0].start()
	for i, answer := range answers {
		if _, digest := pulledSif(t, text(answer, "targetImage")); digest != digests[i] {
			t.Errorf("the restored image has the digest %s, want %s", digest, digests[i])
		}
	}
}

// lostPart deletes the largest part, which both images have. The download fails, and then the image is
// made again with the same bytes.
func (p *program) lostPart(t *testing.T, refs []string, answers []map[string]any, digests []string) {
	t.Helper()
	blobs, err := filepath.Glob(filepath.Join(p.procs[0].env["data_dir"], "images", "builds", "blobs", "sha256", "*"))
	if err != nil {
		t.Fatal(err)
	}
	largest, size := "", int64(0)
	for _, path := range blobs {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() > size {
			largest, size = path, info.Size()
		}
	}
	if err := os.Remove(largest); err != nil {
		t.Fatal(err)
	}
	if got := p.call(http.MethodGet, "/v1alpha2/container/"+text(answers[0], "containerToken")+"/sif", nil); len(got.body) >= shared {
		t.Errorf("without a part, the download has %d bytes", len(got.body))
	}
	for i, made := range []bool{true, false} { // the second image gets its part back with the first
		answer, _, digest := p.sifFrom(t, refs[i])
		if digest != digests[i] || answer["cached"] == made {
			t.Errorf("the image has the digest %s, want %s: %v", digest, digests[i], answer)
		}
	}
}

// movedParts moves the images to a registry that stores them as files.
func (p *program) movedParts(t *testing.T, own *testkit.Registry, answers []map[string]any, digests []string) {
	t.Helper()
	if err := p.procs[0].stop(); err != nil {
		t.Fatal(err)
	}
	target := maps.Clone(p.procs[0].env)
	source := target["data_dir"]
	target["data_dir"], target["database_url"] = t.TempDir(), "sqlite:"+filepath.Join(t.TempDir(), "shared.db")
	target["build_repository"] = own.Host + "/team/slipway"
	target["registry_auth_file"] = dockerConfig(t, map[string]string{own.Host: testkit.User + ":" + testkit.Password})
	if out, err := target.run("migrate", "--from", "sqlite:"+filepath.Join(source, "slipway.db")); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.procs[0].env = target
	p.procs[0].start()
	for i, answer := range answers {
		if _, digest := pulledSif(t, text(answer, "targetImage")); digest != digests[i] {
			t.Errorf("the moved image has the digest %s, want %s", digest, digests[i])
		}
	}
}
