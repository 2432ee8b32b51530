package conda

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	upstream "github.com/google/go-containerregistry/pkg/v1/remote"

	"slipway.dev/services/bench/internal/channel"
	"slipway.dev/services/bench/internal/engine"
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/slipwayd"
	"slipway.dev/services/bench/internal/world"
)

const (
	nameImage    = "image"
	nameSif      = "Singularity image"
	nameTar2sqfs = "tar2sqfs of the image's .tar.gz"
)

// Sif measures the time from a request for Conda packages to a Singularity image, and to a container
// image, of an environment of which a fifth of the packages is new to the server, and of one whose
// packages are all new. The difference is what the Singularity image costs; it is compared with
// tar2sqfs, which reads all files of the container image from one .tar.gz.
func Sif(w *world.World, s *figure.Sheet) {
	if _, err := exec.LookPath("tar2sqfs"); err != nil {
		must.Fail("there is no tar2sqfs (apt-get install squashfs-tools-ng)")
	}
	w.Push(world.BaseImage)
	tree := channel.Tree(w)
	defer tree.Close()
	archive := archiveOf(w, tree)
	squash := figure.Contender{Name: nameTar2sqfs, Run: func() figure.Sample { return tar2sqfs(w, archive) }}
	for _, c := range []struct {
		name string
		bar  figure.Bar
		// known are the packages of an environment that the server has made a Singularity image of.
		known []string
	}{{"a fifth of the packages is new", figure.AtMost(0.15), fourFifths(tree.Names)}, {"all packages are new", figure.AtMost(1), nil}} {
		turn := func(sif bool) func() figure.Sample {
			return func() figure.Sample { return environmentAfter(w, tree, c.known, sif) }
		}
		r := figure.Alternate(w.Ctx, w.Rounds, figure.Contender{Name: nameImage, Run: turn(false)}, figure.Contender{Name: nameSif, Run: turn(true)}, squash)
		s.Remark = c.name
		for _, name := range []string{nameImage, nameSif, nameTar2sqfs} {
			s.Medians(r, name, figure.Took, cpuSeconds)
		}
		s.Check("("+nameSif+" - "+nameImage+") / tar2sqfs", extra(r, figure.Took), "x", c.bar)
		s.Record("the same, cpu", extra(r, cpuSeconds), "x")
		s.Remark = ""
	}
	profileSif(w, tree)
}

// profileSif profiles a slipwayd that makes a Singularity image of which a fifth of the packages is new.
func profileSif(w *world.World, c *channel.Channel) {
	if w.Profiles == "" {
		return
	}
	server := packagesAt(w, w.Up.Addr, c)
	defer server.Stop()
	pullable(w.Ctx, server, asSif(environment(w, c, fourFifths(c.Names)...)))
	made := false
	w.Profile("environment", server, figure.Contender{Name: nameSif, Run: func() figure.Sample {
		if made {
			w.Pause(world.Settled / 30)
		} else {
			pullable(w.Ctx, server, asSif(environment(w, c, c.Names...)))
		}
		made = true
		return figure.Sample{}
	}})
}

// extra returns the median of what a Singularity image costs in addition to the container image,
// relative to tar2sqfs in the same round.
func extra(r figure.Results, m figure.Metric) float64 {
	var all []float64
	for i, sif := range r[nameSif] {
		all = append(all, (m.Of(sif)-m.Of(r[nameImage][i]))/m.Of(r[nameTar2sqfs][i]))
	}
	return figure.Median(all)
}

func fourFifths(names []string) (out []string) {
	for i, n := range names {
		if i%fifths != 0 {
			out = append(out, n)
		}
	}
	return out
}

// environmentAfter measures the time until the image of all packages can be pulled from a fresh slipwayd
// that has made a Singularity image of the known ones.
func environmentAfter(w *world.World, c *channel.Channel, known []string, sif bool) figure.Sample {
	server := packagesAt(w, w.Up.Addr, c)
	defer server.Stop()
	if len(known) > 0 {
		pullable(w.Ctx, server, asSif(environment(w, c, known...)))
		w.Pause(time.Second) // the end of the build is not measured
	}
	body := environment(w, c, c.Names...)
	if sif {
		body = asSif(body)
	}
	used, begin := process.Watch(server.Server), time.Now()
	pullable(w.Ctx, server, body)
	return figure.Sample{Took: time.Since(begin).Seconds(), CPU: used()[0]}
}

// asSif returns a container request for a Singularity image.
func asSif(body string) string {
	var request map[string]any
	must.Do(json.Unmarshal([]byte(body), &request))
	request["format"] = "sif"
	return string(must.Get(json.Marshal(request)))
}

// pullable waits until the manifest of a request's image exists.
func pullable(ctx context.Context, server *slipwayd.Server, body string) {
	image := engine.At(strings.TrimPrefix(server.Submit(body).TargetImage, "oras://"))
	c := engine.New()
	defer c.CloseIdleConnections()
	_, _, err := engine.Read(ctx, c, image.Manifest(image.Ref))
	must.Do(err)
}

// archiveOf returns the path of a .tar.gz with all files of the image of all packages.
func archiveOf(w *world.World, c *channel.Channel) string {
	server := packagesAt(w, w.Up.Addr, c)
	defer server.Stop()
	answer := server.Submit(environment(w, c, c.Names...))
	server.Built(w.Ctx, answer.RequestID)
	img := must.Get(upstream.Image(must.Get(name.ParseReference(answer.TargetImage, name.Insecure)), upstream.WithContext(w.Ctx)))
	path := filepath.Join(w.Dir, "environment.tar.gz")
	files := mutate.Extract(img)
	defer files.Close()
	out := must.Get(os.Create(path))
	defer out.Close()
	cmd := exec.CommandContext(w.Ctx, "gzip", "-6")
	cmd.Stdin, cmd.Stdout = struct{ io.Reader }{files}, out
	must.Do(cmd.Run())
	return path
}

// tar2sqfs measures the conversion of a .tar.gz with as many jobs as there are processors.
func tar2sqfs(w *world.World, archive string) figure.Sample {
	in := must.Get(os.Open(archive))
	defer in.Close()
	cmd := exec.CommandContext(w.Ctx, "tar2sqfs", "--quiet", "--no-skip", "--force", "--compressor", "zstd", "--comp-extra", "level=3",
		"--num-jobs", strconv.Itoa(runtime.NumCPU()), filepath.Join(w.Dir, "environment.sqfs"))
	cmd.Stdin = in
	begin := time.Now()
	must.Do(cmd.Run())
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return figure.Sample{Took: time.Since(begin).Seconds(), CPU: used.Seconds()}
}
