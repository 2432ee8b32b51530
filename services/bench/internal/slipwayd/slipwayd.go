// Package slipwayd starts a slipwayd process and calls its API.
package slipwayd

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

	"slipway.dev/services/bench/internal/engine"
	"slipway.dev/services/bench/internal/figure"
	"slipway.dev/services/bench/internal/load"
	"slipway.dev/services/bench/internal/must"
	"slipway.dev/services/bench/internal/process"
)

// A Server is a running slipwayd.
type Server struct{ *process.Server }

// endless is a rate limit that is counted but never reached.
const endless = "=1000000000/1h"

// Command returns the command of the binary with its own data folder below dir. It contacts
// the registry at insecure over plain HTTP, unless that is empty. env is appended.
func Command(binary, dir, insecure string, env ...string) process.Command {
	data, addr, admin := must.Get(os.MkdirTemp(dir, "slipway-")), process.FreeAddr(), process.FreeAddr()
	return process.Command{
		Name: "slipwayd", Path: binary, Args: []string{"serve"}, Addr: addr, Admin: admin, Data: data,
		Ready: process.RespondsAt("http://" + admin + "/readyz"),
		Env: append([]string{
			"SLIPWAY_HTTP_ADDR=" + addr, "SLIPWAY_PLATFORM_HTTP_ADDR=", "SLIPWAY_ADMIN_ADDR=" + admin, "SLIPWAY_PUBLIC_URL=http://" + addr,
			"SLIPWAY_STORE_ADDR=" + process.FreeAddr(), "SLIPWAY_DATA_DIR=" + data,
			"SLIPWAY_EGRESS_ALLOW=127.0.0.0/8", "SLIPWAY_INSECURE_REGISTRIES=" + insecure,
			"SLIPWAY_LIMIT_PULLS_ANONYMOUS" + endless, "SLIPWAY_LIMIT_PULLS_USER" + endless,
			"SLIPWAY_LIMIT_REQUESTS_ANONYMOUS" + endless, "SLIPWAY_LIMIT_REQUESTS_USER" + endless,
			"SLIPWAY_LIMIT_BUILDS_ANONYMOUS" + endless, "SLIPWAY_LIMIT_BUILDS_USER" + endless, "SLIPWAY_LIMIT_PLATFORM" + endless, "SLIPWAY_LIMIT_SEARCHES_ANONYMOUS" + endless,
		}, env...),
	}
}

// Token returns the access token of the first user.
func (s *Server) Token() string {
	return strings.TrimSpace(string(must.Get(os.ReadFile(filepath.Join(s.Data, "admin-token")))))
}

// SmallConfig is the configuration that a pipeline adds to each image.
const SmallConfig = `,"containerConfig":{"env":["GREETING=hello","TASK=bench"],"cmd":["/bin/sh"],"workingDir":"/work"}`

// RequestFor returns a container request for an image of the registry at up. config is
// SmallConfig or empty.
func RequestFor(up, image, config string) string {
	return fmt.Sprintf(`{"containerImage":"%s/%s"%s}`, up, image, config)
}

// A submission holds the parts of the response to a container request that the bench reads.
type submission struct {
	RequestID   string `json:"requestId"`
	TargetImage string `json:"targetImage"`
	Cached      bool   `json:"cached"`
}

// Submitting returns the call for a container request.
func (s *Server) Submitting(body string) load.Call {
	return load.Post(s.URL("/v1alpha2/container"), body)
}

// Submit sends a container request.
func (s *Server) Submit(body string) (a submission) {
	c := load.Client(s.URL("/"), 1)
	defer c.CloseIdleConnections()
	raw := must.Get(load.Once(c, s.Submitting(body)))
	if err := json.Unmarshal(raw, &a); err != nil || a.TargetImage == "" {
		must.Fail("reading the answer %q: %w", raw, err)
	}
	return a
}

// Request sends a container request and returns the location of the image.
func (s *Server) Request(body string) engine.Repository { return engine.At(s.Submit(body).TargetImage) }

// Built polls until the build of a request has ended.
func (s *Server) Built(ctx context.Context, request string) {
	for ; ; must.Wait(ctx, 50*time.Millisecond) {
		var status struct {
			Status    string `json:"status"`
			Succeeded bool   `json:"succeeded"`
			Reason    string `json:"reason"`
		}
		raw, _, err := engine.Read(ctx, http.DefaultClient, s.URL("/v1alpha2/container/"+request+"/status"))
		must.Do(err)
		must.Do(json.Unmarshal(raw, &status))
		if status.Succeeded {
			return
		}
		if status.Status == "DONE" {
			must.Fail("the build failed: %s", status.Reason)
		}
	}
}

// Pullable measures the time from the request until the image's manifest exists.
func (s *Server) Pullable(ctx context.Context, body string) figure.Sample {
	begin := time.Now()
	image := s.Request(body)
	answered := time.Since(begin)
	c := engine.New()
	defer c.CloseIdleConnections()
	_, _, err := engine.Read(ctx, c, image.Manifest(image.Ref))
	must.Do(err)
	return figure.Sample{Took: time.Since(begin).Seconds(), Answered: answered.Seconds()}
}

// RequestToBuild returns a container request with a Dockerfile.
func RequestToBuild(dockerfile string) string {
	return fmt.Sprintf(`{"containerFile":%q}`, base64.StdEncoding.EncodeToString([]byte(dockerfile)))
}
