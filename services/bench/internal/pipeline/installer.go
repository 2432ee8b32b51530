package pipeline

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"slipway.dev/services/bench/internal/images"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/world"
)

// installerName is the image in which Dockerfiles install packages.
const installerName = "bench/installer:1"

// pushInstaller pushes an image with this machine's Python, py-rattler and the script that installs environments. It returns its name.
func pushInstaller(w *world.World) string {
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	add := func(name, from string) {
		info := must.Get(os.Stat(from))
		must.Do(out.WriteHeader(&tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Size: info.Size()}))
		in := must.Get(os.Open(from))
		must.Get(io.Copy(out, in))
		must.Do(in.Close())
	}
	packages := filepath.Join(must.Get(w.Rattler()), "lib", "python3.11", "site-packages")
	programs := []string{"/usr/bin/python3.11"}
	for to, from := range map[string]string{"usr/lib/python3.11": "/usr/lib/python3.11", "usr/lib/python3/dist-packages/rattler": filepath.Join(packages, "rattler")} {
		must.Do(filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				add(to+strings.TrimPrefix(name, from), name)
				if strings.Contains(d.Name(), ".so") {
					programs = append(programs, name)
				}
			}
			return err
		}))
	}
	add("usr/bin/python3.11", "/usr/bin/python3.11")
	add("install.py", installScript)
	add("etc/ssl/certs/ca-certificates.crt", "/etc/ssl/certs/ca-certificates.crt")
	for _, library := range libraries(w, programs) {
		add(strings.TrimPrefix(library, "/"), library)
	}
	must.Do(out.Close())
	layer := images.NewLayer(types.OCIUncompressedLayer, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	image := must.Get(mutate.AppendLayers(images.New(images.Platforms()[0], images.Shell()), v1.Layer(layer)))
	w.PushAs(installerName, image)
	return w.Up.Addr + "/" + installerName
}

// libraries returns the shared libraries that programs use.
func libraries(w *world.World, programs []string) []string {
	found, list := map[string]bool{}, []string{}
	for line := range strings.Lines(string(world.Output(exec.CommandContext(w.Ctx, "ldd", programs...)))) {
		for word := range strings.FieldsSeq(line) {
			if strings.HasPrefix(word, "/") && !strings.HasSuffix(word, ":") && !found[word] {
				found[word] = true
				list = append(list, word)
			}
		}
	}
	return list
}
