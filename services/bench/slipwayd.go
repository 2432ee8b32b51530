package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// slipwayServer is a running slipwayd, and what it may be asked.
type slipwayServer struct{ *server }

// endless is a limit that is counted but never reached.
const endless = "=1000000000/1h"

// slipwayCommand is the binary with a data folder of its own below dir. It asks the
// registry at insecure without TLS, if one is named; env comes last.
func slipwayCommand(binary, dir, insecure string, env ...string) command {
	data, addr, admin := must(os.MkdirTemp(dir, "slipway-")), freeAddr(), freeAddr()
	return command{
		name: "slipwayd", path: binary, args: []string{"serve"}, addr: addr, admin: admin, data: data,
		ready: answers("http://" + admin + "/readyz"),
		env: append([]string{
			"SLIPWAY_HTTP_ADDR=" + addr, "SLIPWAY_PLATFORM_HTTP_ADDR=", "SLIPWAY_ADMIN_ADDR=" + admin, "SLIPWAY_PUBLIC_URL=http://" + addr,
			"SLIPWAY_STORE_ADDR=" + freeAddr(), "SLIPWAY_DATA_DIR=" + data,
			"SLIPWAY_EGRESS_ALLOW=127.0.0.0/8", "SLIPWAY_INSECURE_REGISTRIES=" + insecure,
			"SLIPWAY_LIMIT_PULLS_ANONYMOUS" + endless, "SLIPWAY_LIMIT_PULLS_USER" + endless,
			"SLIPWAY_LIMIT_REQUESTS_ANONYMOUS" + endless, "SLIPWAY_LIMIT_REQUESTS_USER" + endless,
			"SLIPWAY_LIMIT_BUILDS_ANONYMOUS" + endless, "SLIPWAY_LIMIT_BUILDS_USER" + endless, "SLIPWAY_LIMIT_PLATFORM" + endless,
		}, env...),
	}
}

// token is the first user's.
func (s *slipwayServer) token() string {
	return strings.TrimSpace(string(must(os.ReadFile(filepath.Join(s.data, "admin-token")))))
}

// smallConfig is what a pipeline adds to each image.
const smallConfig = `,"containerConfig":{"env":["GREETING=hello","TASK=bench"],"cmd":["/bin/sh"],"workingDir":"/work"}`

// requestFor is a container request for an image of the registry at up; config is smallConfig
// or nothing.
func requestFor(up, image, config string) string {
	return fmt.Sprintf(`{"containerImage":"%s/%s"%s}`, up, image, config)
}

// submission is what the bench reads of the answer to a container request.
type submission struct {
	RequestID   string `json:"requestId"`
	TargetImage string `json:"targetImage"`
	Cached      bool   `json:"cached"`
}

// submitting is a container request.
func (s *slipwayServer) submitting(body string) call { return post(s.url("/v1alpha2/container"), body) }

// submit asks for an image.
func (s *slipwayServer) submit(body string) (a submission) {
	c := client(s.url("/"), 1)
	defer c.CloseIdleConnections()
	raw := must(once(c, s.submitting(body)))
	if err := json.Unmarshal(raw, &a); err != nil || a.TargetImage == "" {
		fail("reading the answer %q: %w", raw, err)
	}
	return a
}

// request asks for a name, and returns where the image is.
func (s *slipwayServer) request(body string) repository { return at(s.submit(body).TargetImage) }

// built asks now and then whether a request's build has ended.
func (s *slipwayServer) built(ctx context.Context, request string) {
	for ; ; pause(ctx, 50*time.Millisecond) {
		var status struct {
			Status    string `json:"status"`
			Succeeded bool   `json:"succeeded"`
			Reason    string `json:"reason"`
		}
		raw, _, err := read(ctx, http.DefaultClient, s.url("/v1alpha2/container/"+request+"/status"))
		check(err)
		check(json.Unmarshal(raw, &status))
		if status.Succeeded {
			return
		}
		if status.Status == "DONE" {
			fail("the build failed: %s", status.Reason)
		}
	}
}

// pullable takes the time from the request until the image's manifest is there.
func (s *slipwayServer) pullable(ctx context.Context, body string) sample {
	begin := time.Now()
	image := s.request(body)
	answered := time.Since(begin)
	c := engine()
	defer c.CloseIdleConnections()
	_, _, err := read(ctx, c, image.manifest(image.ref))
	check(err)
	return sample{took: time.Since(begin).Seconds(), answered: answered.Seconds()}
}

// requestToBuild is a container request for what a Dockerfile makes.
func requestToBuild(dockerfile string) string {
	return fmt.Sprintf(`{"containerFile":%q}`, base64.StdEncoding.EncodeToString([]byte(dockerfile)))
}
