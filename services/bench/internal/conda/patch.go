package conda

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"

	"slipway.dev/services/bench/internal/channel"
	"slipway.dev/services/bench/internal/engine"
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/load"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/slipwayd"
	"slipway.dev/services/bench/internal/world"
)

const (
	// patchedImages is the number of different images that are patched, patchedPackages that of
	// their packages, and patchChoice that of the packages of the channel.
	patchedImages, patchedPackages, patchChoice = 200, 20, 60
	// patchClients is the number of concurrent patches.
	patchClients = 4
	// keptImages is the number of kept images that are searched.
	keptImages = 10_000
)

// Patch measures the search for an outdated package among kept images, and how many images are
// patched in a second, until the last of them can be pulled.
func Patch(w *world.World, s *figure.Sheet) {
	w.Push(world.BaseImage)
	c := patchChannel(w)
	defer c.Close()
	server := startPackages(w, c)
	defer server.Stop()
	random := rand.New(rand.NewPCG(3, 4))
	var requests, images []string
	for range patchedImages {
		some := []string{"flawed=1.0"}
		for _, i := range random.Perm(patchChoice)[:patchedPackages-1] {
			some = append(some, fmt.Sprintf("part-%02d", i))
		}
		requests = append(requests, environment(w, c, some...))
		server.Pullable(w.Ctx, requests[len(requests)-1])
		images = append(images, server.Submit(requests[len(requests)-1]).TargetImage)
	}
	measureOutdated(w, s, c, server, requests)
	measurePatches(w, s, server, images)
}

// patchChannel returns a channel of small packages, one of which has two versions.
func patchChannel(w *world.World) *channel.Channel {
	dir, packages := must.Get(os.MkdirTemp(w.Dir, "channel-")), map[string]channel.Record{}
	add := func(name, version string) {
		file, rec := channel.WriteVersion(dir, name, version, zstd.SpeedDefault, []channel.File{
			channel.Text("bin/"+name, "#!"+channel.Placeholder+"/bin/sh\nexec "+version+"\n", "text"), channel.Noise("lib/"+name, version[0], 100_000),
		})
		packages[file] = rec
	}
	add("flawed", "1.0")
	add("flawed", "2.0")
	add("rare", "1.0")
	for i := range patchChoice {
		add(fmt.Sprintf("part-%02d", i), "1.0")
	}
	return channel.Serve(w, dir, packages)
}

// measureOutdated measures the list of the one image with a package among all kept images.
func measureOutdated(w *world.World, s *figure.Sheet, c *channel.Channel, server *slipwayd.Server, requests []string) {
	server.Pullable(w.Ctx, environment(w, c, "rare"))
	var all sync.WaitGroup
	for n := range patchClients {
		all.Go(func() {
			client := load.Client(server.URL("/"), 1)
			defer client.CloseIdleConnections()
			for i := n; i < keptImages; i += patchClients {
				must.Get(load.Once(client, server.Submitting(requests[i%len(requests)])))
			}
		})
	}
	all.Wait()
	var took []float64
	for len(took) < 10 {
		began := time.Now()
		images, unindexed := outdated(server, "rare")
		if unindexed > 0 {
			must.Wait(w.Ctx, time.Second)
			continue
		}
		if images != 1 {
			must.Fail("%d images have the package", images)
		}
		took = append(took, time.Since(began).Seconds())
	}
	s.Remark = "one image with the package among 10,000"
	s.Check("outdated", figure.Median(took), "s", figure.AtMost(1))
	began := time.Now()
	if images, _ := outdated(server, "flawed"); images != 1000 {
		must.Fail("the page has %d images", images)
	}
	s.Remark = "a page of 1,000 of 10,000 images with the package"
	s.Check("outdated page", time.Since(began).Seconds(), "s", figure.AtMost(1))
}

// outdated returns the number of images with an outdated package, at most 1,000, and that of
// requests that are not indexed.
func outdated(server *slipwayd.Server, name string) (images, unindexed int) {
	client := load.Client(server.URL("/"), 1)
	defer client.CloseIdleConnections()
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(server.URL("/v1alpha1/images/outdated?below=1.5&max=1000&all=true&package=" + name))
	req.Header.Set("Authorization", "Bearer "+server.Token())
	must.Do(client.Do(req, resp))
	var answer struct {
		Images    []json.RawMessage `json:"images"`
		Unindexed int               `json:"unindexed"`
	}
	if resp.StatusCode() != fasthttp.StatusOK {
		must.Fail("the list is %d %s", resp.StatusCode(), resp.Body())
	}
	must.Do(json.Unmarshal(resp.Body(), &answer))
	return len(answer.Images), answer.Unindexed
}

// measurePatches patches images concurrently.
func measurePatches(w *world.World, s *figure.Sheet, server *slipwayd.Server, images []string) {
	targets := make([]string, len(images))
	used := process.Watch(server.Server)
	began := time.Now()
	var all sync.WaitGroup
	for n := range patchClients {
		all.Go(func() {
			client := load.Client(server.URL("/"), 1)
			defer client.CloseIdleConnections()
			for i := n; i < len(images); i += patchClients {
				body := must.Get(json.Marshal(map[string]any{"image": images[i], "packages": []string{"flawed>=1.5"}}))
				var answer struct {
					TargetImage string `json:"targetImage"`
				}
				must.Do(json.Unmarshal(must.Get(load.Once(client, load.Post(server.URL("/v1alpha1/images/patch"), string(body)))), &answer))
				targets[i] = answer.TargetImage
			}
		})
	}
	all.Wait()
	s.Remark = "200 images of 20 packages, without the builds"
	s.Record("patch requests", float64(len(images))/time.Since(began).Seconds(), "/s")
	c := engine.New()
	defer c.CloseIdleConnections()
	for _, target := range targets {
		at := engine.At(target)
		_, _, err := engine.Read(w.Ctx, c, at.Manifest(at.Ref))
		must.Do(err)
	}
	s.Remark = "200 images of 20 packages, until all can be pulled"
	s.Record("patched images: cpu", 1e3*used()[0]/float64(len(images)), "ms")
	s.Check("patched images", float64(len(images))/time.Since(began).Seconds(), "/s", figure.AtLeast(20))
	s.Remark = ""
}
