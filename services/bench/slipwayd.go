package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// slipway is the server that several sections share: all roles in one process, on
// a real Redis where there is one, with limits on.
func (w *world) slipway() *server {
	if w.shared == nil {
		w.shared = w.keep(w.slipwayCommand(w.redisSetting()...))
	}
	return w.shared
}

// startSlipway starts one until the section ends.
func (w *world) startSlipway(env ...string) *server { return w.start(w.slipwayCommand(env...)) }

// slipwayCommand is slipwayd with a data folder of its own. Limits are so high that
// they are counted but never reached.
func (w *world) slipwayCommand(env ...string) command {
	data, addr, admin := must(os.MkdirTemp(w.dir, "slipway-")), freeAddr(), freeAddr()
	insecure := ""
	if w.up != nil {
		insecure = w.up.addr
	}
	const endless = "=1000000000/1h"
	return command{
		name: "slipwayd", path: w.slipwayd, args: []string{"serve"}, addr: addr, admin: admin, data: data,
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
func (s *server) token() string {
	return strings.TrimSpace(string(must(os.ReadFile(filepath.Join(s.data, "admin-token")))))
}

// smallConfig is what a pipeline adds to each image.
const smallConfig = `,"containerConfig":{"env":["GREETING=hello","TASK=bench"],"cmd":["/bin/sh"],"workingDir":"/work"}`

// requestFor is a container request for an upstream image; config is smallConfig
// or nothing.
func requestFor(up *server, image, config string) string {
	return fmt.Sprintf(`{"containerImage":"%s/%s"%s}`, up.addr, image, config)
}

// submission is what the bench reads of the answer to a container request.
type submission struct {
	RequestID   string `json:"requestId"`
	TargetImage string `json:"targetImage"`
	Cached      bool   `json:"cached"`
}

// submitting is a container request.
func (s *server) submitting(body string) call { return post(s.url("/v1alpha2/container"), body) }

func (s *server) submit(body string) (a submission) {
	c := client(s.url("/"), 1)
	defer c.CloseIdleConnections()
	raw := must(once(c, s.submitting(body)))
	if err := json.Unmarshal(raw, &a); err != nil || a.TargetImage == "" {
		fail("reading the answer %q: %w", raw, err)
	}
	return a
}

// request asks for a name, and returns where the image is.
func (s *server) request(body string) repository { return at(s.submit(body).TargetImage) }
