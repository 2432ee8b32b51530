package measure

import (
	"archive/tar"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/images"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/slipwayd"
	"slipway.dev/services/bench/internal/world"
)

const (
	nameAlone = "tar2sqfs"
	// nameUnpacks is tar2sqfs with the tree as a .tar.gz, which it decompresses itself.
	nameUnpacks = "tar2sqfs of .tar.gz"
	// nameGunzip is the minimum cost of any use of compressed layers.
	nameGunzip = "gzip -d"
	nameGzip   = "slipway, gzip layers"
	namePlain  = "slipway, plain layers"
	// nameShared converts an image of which 80 % have been converted as layers of another image, and
	// nameSame one of which all layers have been.
	nameShared = "slipway, 80 % shared"
	nameSame   = "slipway, all shared"
)

// Images of a real tree, the Go installation: with compressed layers as usual, and with
// layers that need no decompression.
const (
	treeGzip  = "bench/tree:gzip"
	treePlain = "bench/tree:plain"
)

// Sif measures the conversion to a Singularity image, from the request until it is pushed.
// The peer is tar2sqfs with the same options and number of jobs on the same tree as one tar
// file, without a registry.
func Sif(w *world.World, s *figure.Sheet) {
	if _, err := exec.LookPath("tar2sqfs"); err != nil {
		must.Fail("there is no tar2sqfs (apt-get install squashfs-tools-ng)")
	}
	tree := pushTree(w)
	server := startSifs(w)
	squash := []string{"tar2sqfs", "--quiet", "--no-skip", "--force", "--compressor", "zstd", "--comp-extra", "level=3", "--num-jobs", strconv.Itoa(runtime.NumCPU()), filepath.Join(w.Dir, "alone.sqfs")}
	turns := []figure.Contender{
		{Name: nameAlone, Run: func() figure.Sample { return measureProgram(w, tree, squash...) }},
		{Name: namePlain, Run: func() figure.Sample { forgetParts(server); return sifOf(w, server, treePlain) }},
		{Name: nameGzip, Run: func() figure.Sample { forgetParts(server); return sifOf(w, server, treeGzip) }},
		{Name: nameShared, Run: func() figure.Sample { sifOf(w, server, treeGzip); return sifOf(w, server, pushShared(w)) }},
		{Name: nameSame, Run: func() figure.Sample { return sifOf(w, server, treeGzip) }},
		{Name: nameUnpacks, Run: func() figure.Sample { return measureProgram(w, tree+".gz", squash...) }},
		{Name: nameGunzip, Run: func() figure.Sample { return measureProgram(w, tree+".gz", "gzip", "-dc") }},
	}
	figure.Alternate(w.Ctx, 1, turns...)
	r := figure.Alternate(w.Ctx, w.Rounds, turns...)
	whole := figure.Metric{Name: "", Unit: "s", Of: func(s figure.Sample) float64 { return s.CPU }}
	for _, t := range turns {
		s.Record(t.Name+" cpu", r.Median(t.Name, whole), "s")
	}
	wall := figure.Metric{Name: "time", Unit: "s", Of: func(s figure.Sample) float64 { return s.Took }}
	for _, name := range []string{nameGzip, nameShared, nameSame, nameUnpacks} {
		s.Record(name+" time", r.Median(name, wall), "s")
	}
	s.Ratio(r, nameGunzip, nameAlone, whole, figure.Bar{})
	s.Ratio(r, nameGzip, nameUnpacks, wall, figure.AtMost(1))
	s.Ratio(r, nameShared, nameUnpacks, wall, figure.AtMost(0.15))
	s.Ratio(r, nameSame, nameUnpacks, wall, figure.Bar{})
	s.Ratio(r, nameGzip, nameUnpacks, whole, figure.Bar{})
	s.Ratio(r, namePlain, nameAlone, whole, figure.Bar{})
	s.Ratio(r, nameGzip, nameAlone, whole, figure.Bar{})
	w.Profile("sif", server, turns[2])
	server.Stop()
	measureLargeSif(w, s)
}

// measureLargeSif measures the memory of a fresh slipwayd for an image of 2 GB.
func measureLargeSif(w *world.World, s *figure.Sheet) {
	w.Push(world.LargeImage)
	server := startSifs(w)
	w.Pause(world.Settled)
	before := server.Memory()
	server.ForgetPeak()
	sifOf(w, server, world.LargeImage)
	s.Check("2 GB: slipwayd's peak above its idle memory", server.Peak()-before, "MB", figure.AtMost(64))
}

// startSifs starts a slipwayd whose first user has a login at the upstream registry.
func startSifs(w *world.World) *slipwayd.Server {
	auth := base64.StdEncoding.EncodeToString([]byte("bench:bench"))
	logins := w.File("logins.json", fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, w.Up.Addr, auth))
	return w.StartSlipway("SLIPWAY_ADMIN_REGISTRY_AUTH_FILE="+logins, "SLIPWAY_PLATFORM_HTTP_ADDR="+process.FreeAddr())
}

// measureProgram measures the processor time of a program that reads a file.
func measureProgram(w *world.World, file string, args ...string) figure.Sample {
	in := must.Get(os.Open(file))
	defer in.Close()
	cmd := exec.CommandContext(w.Ctx, args[0], args[1:]...)
	cmd.Stdin = in
	begin := time.Now()
	must.Do(cmd.Run())
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return figure.Sample{CPU: used.Seconds(), Took: time.Since(begin).Seconds()}
}

// sifOf creates a Singularity image in a new repository.
func sifOf(w *world.World, server *slipwayd.Server, image string) figure.Sample {
	body := fmt.Sprintf(`{"containerImage":%q,"freeze":true,"format":"sif","buildRepository":%q,"platformAccessToken":%q}`,
		w.Up.Addr+"/"+image, fmt.Sprintf("%s/sif/r%d", w.Up.Addr, time.Now().UnixNano()), server.Token())
	used, begin := process.Watch(server.Server), time.Now()
	server.Built(w.Ctx, server.Submit(body).RequestID)
	return figure.Sample{Took: time.Since(begin).Seconds(), CPU: used()[0]}
}

// forgetParts removes the layers that slipwayd has converted.
func forgetParts(server *slipwayd.Server) {
	for _, file := range must.Get(filepath.Glob(filepath.Join(server.Data, "sif", "parts", "*"))) {
		if info := must.Get(os.Stat(file)); info.Mode().IsRegular() {
			must.Do(os.Remove(file))
		}
	}
}

// Folders of the Go installation: each list is a layer. The last one has a fifth of the bytes.
func treeLayers() [][]string {
	return [][]string{{"bin", "pkg"}, {"src/cmd"}, {"lib", "src/net", "src/vendor", "src/go", "src/syscall", "src/encoding", "src/debug"}, {"src/internal", "src/crypto", "src/runtime"}}
}

// pushShared pushes an image that shares all layers but the last one with the image treeGzip, and returns
// its name.
func pushShared(w *world.World) string {
	folders := treeLayers()
	last := len(folders) - 1
	var layers []v1.Layer
	for i := range last {
		layers = append(layers, gzipLayer(filepath.Join(w.Dir, fmt.Sprintf("tree-%d.tar", i))))
	}
	file := filepath.Join(must.Get(os.MkdirTemp(w.Dir, "shared-")), "last.tar")
	root := goRoot(w)
	must.Do(writeTree(file, root, folders[last], strconv.FormatInt(time.Now().UnixNano(), 10)))
	name := fmt.Sprintf("bench/tree:shared-%d", time.Now().UnixNano())
	w.PushAs(name, images.New(images.Platforms()[0], append(layers, gzipLayer(file))...))
	return name
}

func gzipLayer(file string) v1.Layer {
	return images.NewLayer(types.OCILayer, func() (io.ReadCloser, error) { return os.Open(file + ".gz") })
}

func goRoot(w *world.World) string {
	return strings.TrimSpace(string(must.Get(exec.CommandContext(w.Ctx, "go", "env", "GOROOT").Output())))
}

// pushTree pushes both images of the tree. It returns the path of the tree as a tar file; the
// same path with ".gz" appended is the compressed file.
func pushTree(w *world.World) string {
	root := goRoot(w)
	var all []string
	var plain, packed []v1.Layer
	for i, dirs := range treeLayers() {
		all = append(all, dirs...)
		file := filepath.Join(w.Dir, fmt.Sprintf("tree-%d.tar", i))
		must.Do(writeTree(file, root, dirs, ""))
		plain = append(plain, images.NewLayer(types.OCIUncompressedLayer, func() (io.ReadCloser, error) { return os.Open(file) }))
		packed = append(packed, gzipLayer(file))
	}
	whole := filepath.Join(w.Dir, "tree.tar")
	must.Do(writeTree(whole, root, all, ""))
	w.PushAs(treePlain, images.New(images.Platforms()[0], plain...))
	w.PushAs(treeGzip, images.New(images.Platforms()[0], packed...))
	return whole
}

// writeTree writes folders to a tar file at path and, compressed, to path + ".gz". A note is the name of
// another, empty file.
func writeTree(path, root string, dirs []string, note string) (err error) {
	f := must.Get(os.Create(path))
	defer func() { err = errors.Join(err, f.Close()) }()
	packed := must.Get(os.Create(path + ".gz"))
	defer func() { err = errors.Join(err, packed.Close()) }()
	z := gzip.NewWriter(packed)
	out := tar.NewWriter(io.MultiWriter(f, z))
	for _, dir := range dirs {
		must.Do(filepath.WalkDir(filepath.Join(root, dir), func(name string, d fs.DirEntry, err error) error {
			if err == nil {
				err = addTo(out, root, name, d)
			}
			return err
		}))
	}
	if note != "" {
		must.Do(out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: note, Mode: 0o644}))
	}
	return errors.Join(out.Close(), z.Close())
}

func addTo(out *tar.Writer, root, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return err
	}
	h, err := tar.FileInfoHeader(info, "")
	if err != nil {
		return err
	}
	if h.Name, err = filepath.Rel(root, name); err != nil {
		return err
	}
	if err := out.WriteHeader(h); err != nil || info.IsDir() {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(out, f)
	return err
}
