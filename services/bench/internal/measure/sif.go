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
		{Name: namePlain, Run: func() figure.Sample { return sifOf(w, server, treePlain) }},
		{Name: nameGzip, Run: func() figure.Sample { return sifOf(w, server, treeGzip) }},
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
	for _, name := range []string{nameGzip, nameUnpacks} {
		s.Record(name+" time", r.Median(name, wall), "s")
	}
	s.Ratio(r, nameGunzip, nameAlone, whole, figure.Bar{})
	s.Ratio(r, nameGzip, nameUnpacks, wall, figure.AtMost(1))
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

// pushTree pushes both images of the tree. It returns the path of the tree as a tar file; the
// same path with ".gz" appended is the compressed file.
func pushTree(w *world.World) string {
	root := strings.TrimSpace(string(must.Get(exec.CommandContext(w.Ctx, "go", "env", "GOROOT").Output())))
	var all []string
	var plain, packed []v1.Layer
	for i, dirs := range [][]string{{"bin", "pkg"}, {"src/cmd"}, {"lib", "src/internal", "src/net", "src/crypto", "src/runtime"}} {
		all = append(all, dirs...)
		file := filepath.Join(w.Dir, fmt.Sprintf("tree-%d.tar", i))
		must.Do(writeTree(file, root, dirs))
		plain = append(plain, images.NewLayer(types.OCIUncompressedLayer, func() (io.ReadCloser, error) { return os.Open(file) }))
		packed = append(packed, images.NewLayer(types.OCILayer, func() (io.ReadCloser, error) { return os.Open(file + ".gz") }))
	}
	whole := filepath.Join(w.Dir, "tree.tar")
	must.Do(writeTree(whole, root, all))
	w.PushAs(treePlain, images.New(images.Platforms()[0], plain...))
	w.PushAs(treeGzip, images.New(images.Platforms()[0], packed...))
	return whole
}

// writeTree writes folders to a tar file at path and, compressed, to path + ".gz".
func writeTree(path, root string, dirs []string) (err error) {
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
