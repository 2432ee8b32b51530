package channel

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

// A Channel is a Conda channel on loopback.
type Channel struct {
	*httptest.Server
	// Dir is the folder of its artifacts, and Names are the names of its packages.
	Dir   string
	Names []string
	// Installed is the total size of all files, Packed that of all artifacts, in bytes.
	Installed, Packed int64
}

// Serve serves the packages in a folder.
func Serve(w *world.World, dir string, packages map[string]Record) *Channel {
	all := must.Get(json.Marshal(map[string]any{"packages": map[string]any{}, "packages.conda": packages}))
	must.Do(os.WriteFile(filepath.Join(dir, "repodata.json"), all, 0o600))
	c := &Channel{Dir: dir}
	for _, rec := range packages {
		c.Names = append(c.Names, rec.Name)
		c.Installed, c.Packed = c.Installed+rec.Installed, c.Packed+rec.Size
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

// Tree returns a channel with the Go installation as packages: a few are large, and
// most are small.
func Tree(w *world.World) *Channel {
	dir, packages := must.Get(os.MkdirTemp(w.Dir, "channel-")), map[string]Record{}
	files, harmonic := GoFiles(w), 0.0
	for i := range treePackages {
		harmonic += 1 / float64(i+1)
	}
	for i := range treePackages {
		name, quota := fmt.Sprintf("tree-%02d", i), int64(treeBytes/harmonic/float64(i+1))
		members := []File{
			Text("bin/"+name, "#!"+Placeholder+"/bin/sh\nexec "+Placeholder+"/lib/"+name+"\n", "text"),
			Text("lib/"+name, "\x7fELF"+strings.Repeat(Placeholder+"/lib\x00some text of a library\x00", 200), "binary"),
		}
		var left []File
		for _, f := range files {
			if f.Size > quota {
				left = append(left, f)
				continue
			}
			members, quota = append(members, f), quota-f.Size
		}
		files = left
		file, rec := Write(dir, name, zstd.SpeedBetterCompression, members)
		packages[file] = rec
	}
	return Serve(w, dir, packages)
}

// GoFiles returns the files of the Go installation, programs first.
func GoFiles(w *world.World) (files []File) {
	root := strings.TrimSpace(string(must.Get(exec.CommandContext(w.Ctx, "go", "env", "GOROOT").Output())))
	for _, dir := range []string{"pkg/tool", "bin", "src"} {
		must.Do(filepath.WalkDir(filepath.Join(root, dir), func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			info, err := d.Info()
			if err == nil {
				path := "share/go/" + strings.TrimPrefix(name, root+"/")
				files = append(files, File{Path: path, Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(name) }})
			}
			return err
		}))
	}
	return files
}

// Large returns a channel with 3 GB of incompressible packages.
func Large(w *world.World) *Channel {
	dir, packages := must.Get(os.MkdirTemp(w.Dir, "channel-")), map[string]Record{}
	for i := range largePackages {
		name := fmt.Sprintf("large-%02d", i)
		file, rec := Write(dir, name, zstd.SpeedFastest, []File{
			Text("bin/"+name, "#!"+Placeholder+"/bin/sh\n", "text"),
			Noise("lib/"+name, byte(i), largePackBytes),
		})
		packages[file] = rec
	}
	return Serve(w, dir, packages)
}

// Noise returns a file of random bytes that the installer must search for the prefix.
func Noise(path string, seed byte, size int64) File {
	return File{Path: path, Size: size, Prefix: "binary", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(io.MultiReader(strings.NewReader(Placeholder+"/lib\x00"), rand.NewChaCha8([32]byte{seed})), size)), nil
	}}
}

// RequestOf returns a container request for packages of the channel on a base image.
// Different packages result in different builds.
func (c *Channel) RequestOf(base string, packages ...string) string {
	body := must.Get(json.Marshal(map[string]any{"packages": map[string]any{
		"type": "CONDA", "entries": packages, "channels": []string{"bench"},
		"condaOpts": map[string]any{"baseImage": base, "basePackages": ""},
	}}))
	return string(body)
}
