package conda

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/world"
)

// The sizes of an ordinary and of a large environment.
const (
	treePackages   = 74
	treeBytes      = 135_000_000
	largePackages  = 12
	largePackBytes = 250_000_000
)

// A channel is a Conda channel on loopback.
type channel struct {
	*httptest.Server
	dir   string
	names []string
	// installed is the total size of all files, packed that of all artifacts, in bytes.
	installed, packed int64
}

// serve serves the packages in a folder.
func serve(w *world.World, dir string, packages map[string]packageRecord) *channel {
	all := must.Get(json.Marshal(map[string]any{"packages": map[string]any{}, "packages.conda": packages}))
	must.Do(os.WriteFile(filepath.Join(dir, "repodata.json"), all, 0o600))
	c := &channel{dir: dir}
	for _, rec := range packages {
		c.names = append(c.names, rec.Name)
		c.installed, c.packed = c.installed+rec.installed, c.packed+rec.Size
	}
	c.Server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		subdir, file := filepath.Split(strings.TrimPrefix(r.URL.Path, "/bench/"))
		if subdir != "linux-64/" {
			http.NotFound(out, r)
			return
		}
		http.ServeFile(out, r, filepath.Join(dir, file))
	}))
	return c
}

// treeChannel returns a channel with the Go installation as packages: a few are large, and
// most are small.
func treeChannel(w *world.World) *channel {
	dir, packages := must.Get(os.MkdirTemp(w.Dir, "channel-")), map[string]packageRecord{}
	files, harmonic := tree(w), 0.0
	for i := range treePackages {
		harmonic += 1 / float64(i+1)
	}
	for i := range treePackages {
		name, quota := fmt.Sprintf("tree-%02d", i), int64(treeBytes/harmonic/float64(i+1))
		members := []packed{
			textFile("bin/"+name, "#!"+placeholder+"/bin/sh\nexec "+placeholder+"/lib/"+name+"\n", "text"),
			textFile("lib/"+name, "\x7fELF"+strings.Repeat(placeholder+"/lib\x00some text of a library\x00", 200), "binary"),
		}
		var left []packed
		for _, f := range files {
			if f.size > quota {
				left = append(left, f)
				continue
			}
			members, quota = append(members, f), quota-f.size
		}
		files = left
		file, rec := writePackage(dir, name, zstd.SpeedBetterCompression, members)
		packages[file] = rec
	}
	return serve(w, dir, packages)
}

// tree returns the files of the Go installation, programs first.
func tree(w *world.World) (files []packed) {
	root := strings.TrimSpace(string(must.Get(exec.CommandContext(w.Ctx, "go", "env", "GOROOT").Output())))
	for _, dir := range []string{"pkg/tool", "bin", "src"} {
		must.Do(filepath.WalkDir(filepath.Join(root, dir), func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			info, err := d.Info()
			if err == nil {
				path := "share/go/" + strings.TrimPrefix(name, root+"/")
				files = append(files, packed{path: path, size: info.Size(), open: func() (io.ReadCloser, error) { return os.Open(name) }})
			}
			return err
		}))
	}
	return files
}

// largeChannel returns a channel with 3 GB of incompressible packages.
func largeChannel(w *world.World) *channel {
	dir, packages := must.Get(os.MkdirTemp(w.Dir, "channel-")), map[string]packageRecord{}
	for i := range largePackages {
		name := fmt.Sprintf("large-%02d", i)
		file, rec := writePackage(dir, name, zstd.SpeedFastest, []packed{
			textFile("bin/"+name, "#!"+placeholder+"/bin/sh\n", "text"),
			noise("lib/"+name, byte(i), largePackBytes),
		})
		packages[file] = rec
	}
	return serve(w, dir, packages)
}

// noise returns a file of random bytes that the installer must search for the prefix.
func noise(path string, seed byte, size int64) packed {
	return packed{path: path, size: size, prefix: "binary", open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(io.MultiReader(strings.NewReader(placeholder+"/lib\x00"), rand.NewChaCha8([32]byte{seed})), size)), nil
	}}
}

// requestOf returns a container request for packages of the channel on a base image.
// Different packages result in different builds.
func (c *channel) requestOf(base string, packages ...string) string {
	body := must.Get(json.Marshal(map[string]any{"packages": map[string]any{
		"type": "CONDA", "entries": packages, "channels": []string{"bench"},
		"condaOpts": map[string]any{"baseImage": base, "basePackages": ""},
	}}))
	return string(body)
}
