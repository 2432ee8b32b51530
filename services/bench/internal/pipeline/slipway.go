package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sylabs/sif/v2/pkg/sif"
	"github.com/valyala/fasthttp"

	"slipway.dev/services/bench/internal/engine"
	"slipway.dev/services/bench/internal/load"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/slipwayd"
	"slipway.dev/services/bench/internal/world"
)

// prefix is the folder of an environment in its image.
const prefix = "/opt/conda"

// formatEnvironment is the format of requests for environments that are only mounted.
const formatEnvironment = "environment"

// ordinary is the user of mounted environments, who has no privileges.
const ordinary = 65534

// refreshed is how long slipwayd uses the list of a channel.
const refreshed = time.Minute

// service starts slipwayd, which stores its images itself, and returns a contender that requests environments from it. extra are further
// properties of requests.
func service(w *world.World, p *plan, at *site, name string, extra map[string]any) contender {
	server := w.StartSlipway("SLIPWAY_CONDA_CHANNEL_ALIAS="+p.channel.URL, "SLIPWAY_CONDA_SOLVE_WAIT=20s", "SLIPWAY_CONDA_REFRESH="+refreshed.String(), "SLIPWAY_CONDA_LOCK_TTL=1s")
	at.head.join(server.Server)
	at.connect(server.Addr)
	w.Pause(world.Settled) // the start is not measured
	client := load.Client(server.URL("/"), environments)
	var c contender
	c = contender{name: name, orders: environments, registry: filepath.Join(server.Data, "images"),
		order: func(_ context.Context, specs []string, _ int) (string, error) {
			options := map[string]any{"basePackages": ""}
			if extra["format"] != formatEnvironment { // it has no base image
				options["baseImage"] = w.Up.Addr + "/" + world.BaseImage
			}
			body := map[string]any{"packages": map[string]any{"type": "CONDA", "entries": specs, "channels": []string{channelName}, "condaOpts": options}}
			for k, v := range extra {
				body[k] = v
			}
			return request(client, server, body)
		},
		refresh: func() {
			w.Pause(refreshed)
			must.Get(c.order(w.Ctx, p.environments[0], 0)) // it gets the known list, and starts the refresh
			w.Pause(world.Settled)
		},
		stop: func() {
			client.CloseIdleConnections()
			server.Stop()
		},
	}
	return c
}

// request sends a container request and returns the name of the image.
func request(client *fasthttp.HostClient, server *slipwayd.Server, body map[string]any) (string, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return "", err
	}
	raw, err := load.Once(client, server.Submitting(string(text)))
	if err != nil {
		return "", err
	}
	var answer struct {
		TargetImage string `json:"targetImage"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.TargetImage == "" {
		return "", fmt.Errorf("reading the answer %q: %w", raw, err)
	}
	return answer.TargetImage, nil
}

// mounted runs tasks with `slipway run`, as an ordinary user. Each node has its own cache.
func mounted(w *world.World, p *plan, at *site) contender {
	program := filepath.Join(w.Dir, "slipway")
	world.Output(exec.CommandContext(w.Ctx, "go", "build", "-trimpath", "-o", program, "./services/cmd/slipway"))
	must.Do(os.Chmod(w.Dir, 0o755))
	must.Do(os.Chmod("/dev/fuse", 0o666)) // as udev does
	for _, n := range at.nodes {
		must.Do(os.Chown(n.dir, ordinary, ordinary))
	}
	c := service(w, p, at, nameMounted, map[string]any{"format": formatEnvironment})
	c.fetch = func(context.Context, *node, string) error { return nil }
	c.run = func(ctx context.Context, n *node, image, script string) (string, error) {
		prepare := func(cmd *exec.Cmd) {
			cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin", "HOME=" + n.dir, "SLIPWAY_AGENT_DIR=" + filepath.Join(n.dir, "agent")}
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: ordinary, Gid: ordinary}
		}
		return n.output(ctx, prepare, program, "run", "--cache", filepath.Join(n.dir, "cache"), n.nearName(image), "--", "/bin/sh", "-c", "cd "+prefix+" && "+script)
	}
	return c
}

// inEngine runs tasks in containers of containerd.
func inEngine(w *world.World, p *plan, at *site) contender {
	c := service(w, p, at, nameOCI, nil)
	at.inContainerd(w, &c)
	return c
}

// inContainerd makes a contender run its images with a containerd on each node.
func (s *site) inContainerd(w *world.World, c *contender) {
	ctr := must.Get(exec.LookPath("ctr"))
	for _, n := range s.nodes {
		n.startEngine(w)
	}
	var count atomic.Int64
	c.fetch = func(ctx context.Context, n *node, image string) error {
		_, err := n.output(ctx, nil, ctr, "--address", n.engine.Addr, "images", "pull", "--plain-http", n.nearName(image))
		return err
	}
	c.run = func(ctx context.Context, n *node, image, script string) (string, error) {
		id := fmt.Sprintf("%s-%d", filepath.Base(s.dir), count.Add(1)) // all nodes share the folder of runc, also with interrupted runs
		args := []string{ctr, "--address", n.engine.Addr, "run", "--rm"}
		if n.below != "" {
			args = append(args, "--cgroup", n.below+"/"+id)
		}
		return n.output(ctx, nil, append(args, n.nearName(image), id, "/bin/sh", "-c", "cd "+prefix+" && "+script)...)
	}
}

// asSif runs tasks in Singularity images, which each node downloads.
func asSif(w *world.World, p *plan, at *site) contender {
	c := service(w, p, at, nameSif, map[string]any{"format": "sif"})
	c.key = func(image string) string { return image[strings.LastIndexByte(image, '/')+1:] } // the rest is a token
	at.inSquash(&c, func(ctx context.Context, n *node, image string) (string, error) {
		repo, client := engine.At(n.nearName(strings.TrimPrefix(image, "oras://"))), engine.New()
		defer client.CloseIdleConnections()
		raw, _, err := engine.Read(ctx, client, repo.Manifest(repo.Ref))
		if err != nil {
			return "", err
		}
		var d engine.Document
		if err := json.Unmarshal(raw, &d); err != nil || len(d.Layers) != 1 {
			return "", fmt.Errorf("reading the manifest %q: %w", raw, err)
		}
		return repo.Blob(d.Layers[0].Digest), nil
	}, func(file string) (int64, error) {
		image, err := sif.LoadContainerFromPath(file, sif.OptLoadWithFlag(os.O_RDONLY))
		if err != nil {
			return 0, err
		}
		defer func() { _ = image.UnloadContainer() }() // it was only read
		system, err := image.GetDescriptor(sif.WithPartitionType(sif.PartPrimSys))
		return system.Offset(), err
	})
	return c
}

// inSquash makes a contender run its images by mounting them, as Singularity does where it has privileges. locate returns the URL of a file,
// and offset the position of the file system in it.
func (s *site) inSquash(c *contender, locate func(context.Context, *node, string) (string, error), offset func(string) (int64, error)) {
	file := func(n *node, image string) string {
		return filepath.Join(n.dir, fmt.Sprintf("%x", number(c.keyOf(image))))
	}
	c.fetch = func(ctx context.Context, n *node, image string) error {
		url, err := locate(ctx, n, image)
		if err != nil {
			return err
		}
		// Pulls verify digests.
		_, err = n.output(ctx, nil, "sh", "-c", `curl -fsS -o "$1" "$2" && sha256sum "$1"`, "sh", file(n, image), url)
		return err
	}
	c.run = func(ctx context.Context, n *node, image, script string) (string, error) {
		at, err := offset(file(n, image))
		if err != nil {
			return "", err
		}
		const mount = `mount -t squashfs -o "ro,loop,offset=$1" "$2" /mnt && exec chroot /mnt /bin/sh -c "$3"`
		return n.output(ctx, nil, "unshare", "-m", "--propagation", "private", "sh", "-c", mount, "sh", fmt.Sprint(at), file(n, image), "cd "+prefix+" && "+script)
	}
}
