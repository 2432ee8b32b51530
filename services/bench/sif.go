package main

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
)

const (
	nameAlone = "tar2sqfs"
	// nameUnpacks is tar2sqfs on the tree as a .tar.gz, which it decompresses itself.
	nameUnpacks = "tar2sqfs of .tar.gz"
	// nameGunzip is what any use of compressed layers costs at least.
	nameGunzip = "gzip -d"
	nameGzip   = "slipway, gzip layers"
	namePlain  = "slipway, plain layers"
)

// Images of a real tree, the Go installation: in layers as they usually are, and in
// layers that need no decompression.
const (
	treeGzip  = "bench/tree:gzip"
	treePlain = "bench/tree:plain"
)

// measureSif measures a Singularity image of a served image, from the request until
// it is pushed. The peer is tar2sqfs alone, with the same options and as many jobs, on
// the same tree as one tar file: it neither reads nor writes a registry.
func measureSif(w *world, s *sheet) {
	if _, err := exec.LookPath("tar2sqfs"); err != nil {
		fail("there is no tar2sqfs (apt-get install squashfs-tools-ng)")
	}
	tree := w.pushTree()
	server := w.startSifs()
	squash := []string{"tar2sqfs", "--quiet", "--no-skip", "--force", "--compressor", "zstd", "--comp-extra", "level=3", "--num-jobs", strconv.Itoa(runtime.NumCPU()), filepath.Join(w.dir, "alone.sqfs")}
	turns := []contender{
		{nameAlone, func() sample { return w.alone(tree, squash...) }},
		{namePlain, func() sample { return w.sifOf(server, treePlain) }},
		{nameGzip, func() sample { return w.sifOf(server, treeGzip) }},
		{nameUnpacks, func() sample { return w.alone(tree+".gz", squash...) }},
		{nameGunzip, func() sample { return w.alone(tree+".gz", "gzip", "-dc") }},
	}
	alternate(w.ctx, 1, turns...)
	r := alternate(w.ctx, w.rounds, turns...)
	whole := metric{"", "s", func(s sample) float64 { return s.cpu }}
	for _, t := range turns {
		s.tell(t.name+" cpu", r.median(t.name, whole), "s")
	}
	wall := metric{"time", "s", func(s sample) float64 { return s.took }}
	for _, name := range []string{nameGzip, nameUnpacks} {
		s.tell(name+" time", r.median(name, wall), "s")
	}
	s.ratio(r, nameGunzip, nameAlone, whole, bar{})
	s.ratio(r, nameGzip, nameUnpacks, wall, atMost(1))
	s.ratio(r, nameGzip, nameUnpacks, whole, bar{})
	s.ratio(r, namePlain, nameAlone, whole, bar{})
	s.ratio(r, nameGzip, nameAlone, whole, bar{})
	w.profile("sif", server, turns[2])
	server.stop()
	w.measureLargeSif(s)
}

// measureLargeSif looks at the memory that a fresh slipwayd takes for an image of
// 2 GB.
func (w *world) measureLargeSif(s *sheet) {
	w.push(largeImage)
	server := w.startSifs()
	w.pause(settled)
	before := server.memory()
	server.forgetPeak()
	w.sifOf(server, largeImage)
	s.hold("2 GB: slipwayd's peak above its idle memory", server.peak()-before, "MB", atMost(64))
}

// startSifs starts a slipwayd whose first user has a login at the upstream registry.
func (w *world) startSifs() *slipwayServer {
	auth := base64.StdEncoding.EncodeToString([]byte("bench:bench"))
	logins := w.file("logins.json", fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, w.up.addr, auth))
	return w.startSlipway("SLIPWAY_ADMIN_REGISTRY_AUTH_FILE="+logins, "SLIPWAY_PLATFORM_HTTP_ADDR="+freeAddr())
}

// alone is the processor time of a program that reads a file.
func (w *world) alone(file string, args ...string) sample {
	in := must(os.Open(file))
	defer in.Close()
	cmd := exec.CommandContext(w.ctx, args[0], args[1:]...)
	cmd.Stdin = in
	begin := time.Now()
	check(cmd.Run())
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return sample{cpu: used.Seconds(), took: time.Since(begin).Seconds()}
}

// sifOf makes a Singularity image in a repository that nobody has used.
func (w *world) sifOf(server *slipwayServer, image string) sample {
	body := fmt.Sprintf(`{"containerImage":%q,"freeze":true,"format":"sif","buildRepository":%q,"platformAccessToken":%q}`,
		w.up.addr+"/"+image, fmt.Sprintf("%s/sif/r%d", w.up.addr, time.Now().UnixNano()), server.token())
	used, begin := watch(server.server), time.Now()
	server.built(w.ctx, server.submit(body).RequestID)
	return sample{took: time.Since(begin).Seconds(), cpu: used()[0]}
}

// pushTree pushes both images of the tree, and returns the tree as one tar file;
// beside it is the same as .gz.
func (w *world) pushTree() string {
	root := strings.TrimSpace(string(must(exec.CommandContext(w.ctx, "go", "env", "GOROOT").Output())))
	var all []string
	var plain, packed []v1.Layer
	for i, dirs := range [][]string{{"bin", "pkg"}, {"src/cmd"}, {"lib", "src/internal", "src/net", "src/crypto", "src/runtime"}} {
		all = append(all, dirs...)
		file := filepath.Join(w.dir, fmt.Sprintf("tree-%d.tar", i))
		check(writeTree(file, root, dirs))
		plain = append(plain, newLayer(types.OCIUncompressedLayer, func() (io.ReadCloser, error) { return os.Open(file) }))
		packed = append(packed, newLayer(types.OCILayer, func() (io.ReadCloser, error) { return os.Open(file + ".gz") }))
	}
	whole := filepath.Join(w.dir, "tree.tar")
	check(writeTree(whole, root, all))
	w.pushAs(treePlain, makeImage(platforms()[0], plain...))
	w.pushAs(treeGzip, makeImage(platforms()[0], packed...))
	return whole
}

// writeTree writes folders as a tar, and that again as .gz.
func writeTree(path, root string, dirs []string) (err error) {
	f := must(os.Create(path))
	defer func() { err = errors.Join(err, f.Close()) }()
	packed := must(os.Create(path + ".gz"))
	defer func() { err = errors.Join(err, packed.Close()) }()
	z := gzip.NewWriter(packed)
	out := tar.NewWriter(io.MultiWriter(f, z))
	for _, dir := range dirs {
		check(filepath.WalkDir(filepath.Join(root, dir), func(name string, d fs.DirEntry, err error) error {
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
