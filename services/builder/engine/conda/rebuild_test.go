package conda_test

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/jobs/jobstest"
	"slipway.dev/services/conda/packages/layering"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/testkit"
)

// TestRebuild checks that a rebuild makes the bytes of the first build without any stored layer: it
// fetches each package, pushes nothing, claims nothing and leaves nothing on the disk.
func TestRebuild(t *testing.T) {
	t.Parallel()
	b, nc := newBench(t), jobstest.WithClaims(t, testkit.NATS(t))
	first, err := b.sharing(nc).Build(t.Context(), b.job(b.curl()), &lines{})
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	claims := func() uint64 {
		t.Helper()
		stream, err := js.Stream(t.Context(), "KV_"+buildbus.ClaimBucket)
		if err != nil {
			t.Fatal(err)
		}
		info, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return info.State.LastSeq
	}
	dir := t.TempDir()
	second := b.engine(dir)
	job := b.job(b.curl(), func(j *jobs.Job) { j.Target = nil })
	for range 2 { // the second time, it does not reuse the first
		asked, claimed := b.asked.Load(), claims()
		b.images.Requests()
		made, err := second.Rebuild(t.Context(), job, &lines{})
		if err != nil {
			t.Fatal(err)
		}
		if d := digest.FromBytes(made.Manifest); d.String() != first {
			t.Errorf("the rebuild is %s, and the image %s", d, first)
		}
		var m struct {
			Config struct{ Digest digest.Digest }
		}
		if err := json.Unmarshal(made.Manifest, &m); err != nil || m.Config.Digest != digest.FromBytes(made.Config) {
			t.Errorf("the configuration is not that of the manifest: %v", err)
		}
		if n := b.asked.Load() - asked; n != 2 {
			t.Errorf("the channel got %d requests", n)
		}
		if n := claims(); n != claimed {
			t.Errorf("%d records were written", n-claimed)
		}
		for _, r := range b.images.Requests() {
			if !strings.HasPrefix(r, http.MethodGet+" ") && !strings.HasPrefix(r, http.MethodHead+" ") || !strings.Contains(r, "library/base") && !strings.HasSuffix(r, "/v2/") {
				t.Errorf("the registry got %s", r)
			}
		}
		err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				t.Errorf("it left %s", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestRebuildFindsDamage checks that a rebuild has other bytes if the first worker has put a wrong
// layer into the image: here its folder names the layer of another package.
func TestRebuildFindsDamage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := t.TempDir()
	if _, err := b.engine(dir).Build(t.Context(), b.job(b.curl()), &lines{}); err != nil {
		t.Fatal(err)
	}
	damage(t, filepath.Join(dir, "layers", "packages"))
	wrong, err := b.engine(dir).Build(t.Context(), b.job(b.curl()), &lines{})
	if err != nil {
		t.Fatal(err)
	}
	made, err := b.engine(t.TempDir()).Rebuild(t.Context(), b.job(b.curl()), &lines{})
	if err != nil {
		t.Fatal(err)
	}
	if d := digest.FromBytes(made.Manifest).String(); d == wrong {
		t.Error("the rebuild has the wrong bytes")
	}
}

// damage makes the description of one layer name the blob of another one.
func damage(t *testing.T, dir string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil || len(list) < 2 {
		t.Fatalf("%d layers are stored, %v", len(list), err)
	}
	var both [2]layering.Package
	for i := range both {
		in, err := os.Open(filepath.Join(dir, list[i].Name()))
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(in)
		if err == nil {
			err = json.NewDecoder(z).Decode(&both[i])
		}
		if err := errors.Join(err, in.Close()); err != nil {
			t.Fatal(err)
		}
	}
	both[0].Digest, both[0].Size, both[0].DiffID = both[1].Digest, both[1].Size, both[1].DiffID
	out, err := os.Create(filepath.Join(dir, list[0].Name()))
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(out)
	if err := errors.Join(json.NewEncoder(z).Encode(both[0]), z.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestRebuildUnavailable checks that a rebuild of a package that its channel has deleted fails as
// outdated, and not with other bytes.
func TestRebuildUnavailable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.respond = func(w http.ResponseWriter, r *http.Request) bool {
		gone := strings.Contains(r.URL.Path, "libcurl")
		if gone {
			http.NotFound(w, r)
		}
		return gone
	}
	_, err := b.engine(t.TempDir()).Rebuild(t.Context(), b.job(b.curl()), &lines{})
	if f := new(jobs.Failure); !errors.As(err, &f) || !f.Outdated {
		t.Errorf("it fails with %v", err)
	}
}
