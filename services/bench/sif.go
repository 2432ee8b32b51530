package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// sifSection measures the CPU of a Singularity image of a served image, from the
// request until it is pushed: slipwayd and the tar2sqfs that it starts. The peer is
// tar2sqfs alone, with the same options, on the same tree as one tar file: it neither
// decompresses nor reads or writes a registry.
type sifSection struct{}

func (sifSection) name() string { return "sif" }

const (
	nameAlone = "tar2sqfs"
	// nameUnpacks is tar2sqfs on the tree as a .tar.gz, which it decompresses itself.
	nameUnpacks = "tar2sqfs of .tar.gz"
	// nameGunzip is what any use of compressed layers costs at least.
	nameGunzip = "gzip -d"
	nameGzip   = "slipway, gzip layers"
	namePlain  = "slipway, plain layers"
)

func (sifSection) measure(ctx context.Context, w *world, s *sheet) error {
	if _, err := exec.LookPath("tar2sqfs"); err != nil {
		return errors.New("there is no tar2sqfs (apt-get install squashfs-tools-ng)")
	}
	tree, err := w.pushTree(ctx)
	if err != nil {
		return err
	}
	server, err := w.startSifs(ctx)
	if err != nil {
		return err
	}
	defer w.fleet.stop(server)
	tool := func(name, file string, args ...string) contender {
		return contender{name, func(ctx context.Context) (sample, error) { return alone(ctx, name, file, args...) }}
	}
	ours := func(name, image string) contender {
		return contender{name, func(ctx context.Context) (sample, error) { return w.sifOf(ctx, server, image) }}
	}
	squash := []string{"tar2sqfs", "--quiet", "--no-skip", "--force", "--compressor", "zstd", "--comp-extra", "level=3", filepath.Join(w.dir, "alone.sqfs")}
	turns := []contender{
		tool(nameAlone, tree, squash...), ours(namePlain, treePlain), ours(nameGzip, treeGzip),
		tool(nameUnpacks, tree+".gz", squash...), tool(nameGunzip, tree+".gz", "gzip", "-dc"),
	}
	if _, err := alternate(ctx, 1, turns); err != nil {
		return err
	}
	found, err := alternate(ctx, w.rounds, turns)
	if err != nil {
		return err
	}
	for _, t := range turns {
		s.tell(t.name+" cpu", found.median(t.name, cpu), "s")
	}
	s.tell(nameGzip+" time", found.median(nameGzip, took), "s")
	s.tell(nameGunzip+" / "+nameAlone, found.ratio(nameGunzip, nameAlone, cpu), "x")
	s.tell(nameGzip+" / "+nameUnpacks, found.ratio(nameGzip, nameUnpacks, cpu), "x")
	s.tell(namePlain+" / "+nameAlone, found.ratio(namePlain, nameAlone, cpu), "x")
	s.hold(nameGzip+" / "+nameAlone, found.ratio(nameGzip, nameAlone, cpu), "x", atMost(1.2))
	if err := w.profile(ctx, "sif", server, turns[2]); err != nil {
		return err
	}
	return measureLargeSif(ctx, w, s)
}

// measureLargeSif looks at the memory that a fresh slipwayd takes for an image of
// 2 GB.
func measureLargeSif(ctx context.Context, w *world, s *sheet) error {
	if err := w.push(ctx, largeImage); err != nil {
		return err
	}
	server, err := w.startSifs(ctx)
	if err != nil {
		return err
	}
	defer w.fleet.stop(server)
	if err := pause(ctx, settled); err != nil {
		return err
	}
	before, err := server.memory()
	if err != nil {
		return err
	}
	if err := server.forgetPeak(); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	child := make(chan float64)
	go func() { child <- server.childPeak(watching) }()
	if _, err := w.sifOf(ctx, server, largeImage); err != nil {
		return err
	}
	stop()
	below := <-child
	own, err := server.peak()
	if err != nil {
		return err
	}
	s.tell("2 GB: slipwayd's peak above its idle memory", own-before, "MB")
	s.tell("2 GB: tar2sqfs's peak", below, "MB")
	s.hold("2 GB: both", own-before+below, "MB", atMost(64))
	return nil
}

// startSifs starts a slipwayd whose first user has a login at the upstream registry.
func (w *world) startSifs(ctx context.Context) (*server, error) {
	logins := filepath.Join(w.dir, "logins.json")
	auth := base64.StdEncoding.EncodeToString([]byte("bench:bench"))
	if err := os.WriteFile(logins, fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, w.up.addr, auth), 0o600); err != nil {
		return nil, err
	}
	platform, err := freeAddr()
	if err != nil {
		return nil, err
	}
	return w.startSlipway(ctx, "SLIPWAY_ADMIN_REGISTRY_AUTH_FILE="+logins, "SLIPWAY_PLATFORM_HTTP_ADDR="+platform,
		"SLIPWAY_LIMIT_BUILDS_USER=1000000000/1h")
}

// alone is the processor time of a program that reads a file.
func alone(ctx context.Context, name, file string, args ...string) (sample, error) {
	in, err := os.Open(file)
	if err != nil {
		return sample{}, err
	}
	defer in.Close()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin = in
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		return sample{}, fmt.Errorf("%s: %w", name, err)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return sample{cpu: used.Seconds(), took: time.Since(begin).Seconds()}, nil
}

// sifOf makes a Singularity image in a repository that nobody has used.
func (w *world) sifOf(ctx context.Context, server *server, image string) (sample, error) {
	token, err := os.ReadFile(filepath.Join(server.data, "admin-token"))
	if err != nil {
		return sample{}, err
	}
	body := fmt.Sprintf(`{"containerImage":%q,"freeze":true,"format":"sif","buildRepository":%q,"platformAccessToken":%q}`,
		w.up.addr+"/"+image, fmt.Sprintf("%s/sif/r%d", w.up.addr, time.Now().UnixNano()), strings.TrimSpace(string(token)))
	own, err := server.cpu()
	if err != nil {
		return sample{}, err
	}
	children, err := server.childCPU()
	if err != nil {
		return sample{}, err
	}
	begin := time.Now()
	a, err := submit(ctx, server, body)
	if err != nil {
		return sample{}, err
	}
	if err := waitForBuild(ctx, server, a.RequestID); err != nil {
		return sample{}, err
	}
	took := time.Since(begin)
	ownAfter, err1 := server.cpu()
	childrenAfter, err2 := server.childCPU()
	used := ownAfter - own + childrenAfter - children
	return sample{cpu: used.Seconds(), took: took.Seconds()}, errors.Join(err1, err2)
}

// waitForBuild asks now and then whether a request's build has ended.
func waitForBuild(ctx context.Context, server *server, request string) error {
	for {
		var status struct {
			Status    string `json:"status"`
			Succeeded bool   `json:"succeeded"`
			Reason    string `json:"reason"`
		}
		if err := getJSON(ctx, "http://"+server.addr+"/v1alpha2/container/"+request+"/status", &status); err != nil {
			return err
		}
		switch {
		case status.Succeeded:
			return nil
		case status.Status == "DONE":
			return fmt.Errorf("the build failed: %s", status.Reason)
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func getJSON(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, raw)
	}
	return errors.Join(err, json.Unmarshal(raw, into))
}
