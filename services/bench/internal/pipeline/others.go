package pipeline

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
	"slipway.dev/services/bench/internal/world"
)

// installScript installs environments with py-rattler.
const installScript = "services/tools/oracle/install_environments.py"

// An installer is a process that solves and installs environments one after another, as `conda create` does.
type installer struct {
	lock sync.Mutex
	in   io.WriteCloser
	out  *bufio.Scanner
}

// startInstaller starts an installer with its own cache of packages. It ends with the program.
func startInstaller(w *world.World, g group, cache string) *installer {
	dir := must.Get(os.Open(g.processes()))
	defer dir.Close()
	cmd := exec.CommandContext(w.Ctx, filepath.Join(must.Get(w.Rattler()), "bin", "python"), installScript, cache)
	cmd.Stderr = os.Stderr
	i := &installer{in: must.Get(cmd.StdinPipe()), out: bufio.NewScanner(must.Get(cmd.StdoutPipe()))}
	must.Do(cmd.Start())
	must.Do(process.Join(cmd.Process.Pid, g.processes()))
	return i
}

// install installs packages of a release of a channel at a prefix.
func (i *installer) install(channel string, release int, at string, specs []string) error {
	i.lock.Lock()
	defer i.lock.Unlock()
	if err := json.NewEncoder(i.in).Encode(map[string]any{"channel": channel, "release": release, "prefix": at, "specs": specs}); err != nil {
		return err
	}
	if !i.out.Scan() || i.out.Text() != "done" {
		return fmt.Errorf("the installer printed %q: %w", i.out.Text(), errors.Join(i.out.Err(), io.ErrUnexpectedEOF))
	}
	return nil
}

// nameOf returns the name of an environment. Contenders other than Slipway make an environment once for each release.
func nameOf(specs []string, release int) string {
	return fmt.Sprintf("%d %s", release, strings.Join(specs, " "))
}

// perNode installs environments with rattler on each node. The packages of an environment are links to those in the node's cache.
func perNode(w *world.World, p *plan, at *site) contender {
	for _, n := range at.nodes {
		n.installer = startInstaller(w, n.group, filepath.Join(n.dir, "cache"))
	}
	server := strings.TrimPrefix(p.channel.URL, "http://")
	at.connect(server)
	where := func(n *node, what string) string { return filepath.Join(n.dir, fmt.Sprintf("%x", number(what))) }
	return contender{name: nameRattler, orders: environments,
		order: func(_ context.Context, specs []string, release int) (string, error) {
			return nameOf(specs, release), nil
		},
		fetch: func(_ context.Context, n *node, what string) error {
			text, specs, _ := strings.Cut(what, " ")
			release, err := strconv.Atoi(text)
			if err != nil {
				return err
			}
			return n.installer.install("http://"+n.addresses[server]+"/"+channelName, release, where(n, what), strings.Fields(specs))
		},
		run: func(ctx context.Context, n *node, what, script string) (string, error) {
			return n.output(ctx, nil, "/bin/sh", "-c", "cd "+where(n, what)+" && "+script)
		},
		stop: func() {
			for _, n := range at.nodes {
				_ = n.installer.in.Close() // the process ends with its input
			}
		},
	}
}

// dockerfiles builds an image of each environment with BuildKit. Its steps share a cache of packages, and containerd runs the images.
func dockerfiles(w *world.World, p *plan, at *site) contender {
	target := w.StartTarget()
	daemon := w.StartBuildkitd(at.head.below, target.Addr)
	at.head.join(target)
	at.head.join(daemon)
	at.connect(target.Addr)
	ctl, installing := w.Ctl(), pushInstaller(w)
	c := contender{name: nameBuildkit, orders: 4 * runtime.NumCPU(), registry: target.Data,
		order: func(ctx context.Context, specs []string, release int) (string, error) {
			image := fmt.Sprintf("%s/built/e%016x:1", target.Addr, number(nameOf(specs, release)))
			line, err := json.Marshal(map[string]any{"channel": p.channel.URL + "/" + channelName, "release": release, "prefix": prefix, "specs": specs})
			if err != nil {
				return "", err
			}
			dir, err := os.MkdirTemp(w.Dir, "context-")
			if err != nil {
				return "", err
			}
			defer os.RemoveAll(dir)
			text := fmt.Sprintf("FROM %s AS made\nRUN --mount=type=cache,target=/packages echo '%s' | python3.11 /install.py /packages\nFROM %s/%s\nCOPY --from=made %s %s\n",
				installing, line, w.Up.Addr, world.BaseImage, prefix, prefix)
			if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(text), 0o600); err != nil {
				return "", err
			}
			_, err = at.head.output(ctx, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "HOME="+w.Dir) }, ctl, "--addr", daemon.Addr, "build", "--progress", "plain",
				"--frontend", "dockerfile.v0", "--local", "context="+dir, "--local", "dockerfile="+dir, "--opt", "platform=linux/amd64",
				"--output", "type=image,oci-mediatypes=true,push=true,name="+image)
			return image, err
		},
		stop: func() {
			daemon.Stop()
			target.Stop()
		},
	}
	at.inContainerd(w, &c)
	return c
}

// squashes installs environments on the head, and makes a squashfs of each, which nodes download.
func squashes(w *world.World, p *plan, at *site) contender {
	made := must.Get(os.MkdirTemp(w.Dir, "squashes-"))
	var each []*installer
	free := make(chan *installer, runtime.NumCPU())
	for i := range runtime.NumCPU() {
		each = append(each, startInstaller(w, at.head, filepath.Join(w.Dir, fmt.Sprintf("head-cache-%d", i))))
		free <- each[i]
	}
	files := httptest.NewServer(http.FileServer(http.Dir(made)))
	server := strings.TrimPrefix(files.URL, "http://")
	at.connect(server)
	c := contender{name: nameSquash, orders: runtime.NumCPU(), registry: made,
		order: func(ctx context.Context, specs []string, release int) (string, error) {
			name := fmt.Sprintf("%016x.sqfs", number(nameOf(specs, release)))
			if _, err := os.Stat(filepath.Join(made, name)); err == nil {
				return name, nil
			}
			i := <-free
			defer func() { free <- i }()
			root, err := os.MkdirTemp(w.Dir, "root-")
			if err != nil {
				return "", err
			}
			defer os.RemoveAll(root)
			if err := i.install(p.channel.URL+"/"+channelName, release, root+prefix, specs); err != nil {
				return "", err
			}
			// The base image is a busybox with links.
			const pack = `mkdir "$1/bin" "$1/mnt" && cp /bin/busybox "$1/bin/sh" && ln -s sh "$1/bin/cat" && ln -s sh "$1/bin/wc" && tar -C "$1" -cf - . | tar2sqfs --quiet --no-skip --compressor zstd --comp-extra level=3 "$2"`
			_, err = at.head.output(ctx, nil, "sh", "-c", pack, "sh", root, filepath.Join(made, name))
			return name, err
		},
		stop: func() {
			files.Close()
			for _, i := range each {
				_ = i.in.Close() // the process ends with its input
			}
		},
	}
	at.inSquash(&c, func(_ context.Context, n *node, name string) (string, error) {
		return "http://" + n.addresses[server] + "/" + name, nil
	}, func(string) (int64, error) { return 0, nil })
	return c
}
