package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// target is a manifest or blob somewhere: which host, and the path on it.
type target struct{ host, path string }

func (t target) get() call  { return ask(http.MethodGet, t.host, t.path) }
func (t target) head() call { return ask(http.MethodHead, t.host, t.path) }

// repository is where an image's parts are.
type repository struct {
	host, path string
	// ref is the tag or digest that it was named by.
	ref string
}

func (r repository) manifest(ref string) target {
	return target{r.host, "/v2/" + r.path + "/manifests/" + ref}
}

func (r repository) blob(digest string) target {
	return target{r.host, "/v2/" + r.path + "/blobs/" + digest}
}

// at takes a pull name apart.
func at(name string) repository {
	host, rest, _ := strings.Cut(name, "/")
	if path, digest, ok := strings.Cut(rest, "@"); ok {
		return repository{host, path, digest}
	}
	i := strings.LastIndexByte(rest, ':')
	return repository{host, rest[:max(i, 0)], rest[i+1:]}
}

// smallConfig is what a pipeline adds to each image.
const smallConfig = `,"containerConfig":{"env":["GREETING=hello","TASK=bench"],"cmd":["/bin/sh"],"workingDir":"/work"}`

// requestFor is a container request for an upstream image; config is smallConfig
// or nothing.
func requestFor(up *server, image, config string) string {
	return fmt.Sprintf(`{"containerImage":"%s/%s"%s}`, up.addr, image, config)
}

// request asks slipwayd for a name and answers where the image is.
func request(ctx context.Context, slipway *server, body string) (repository, error) {
	a, err := submit(ctx, slipway, body)
	return at(a.TargetImage), err
}

// answer is what the bench reads of the answer to a container request.
type answer struct {
	RequestID   string `json:"requestId"`
	TargetImage string `json:"targetImage"`
	Cached      bool   `json:"cached"`
}

func submit(ctx context.Context, slipway *server, body string) (answer, error) {
	var raw bytes.Buffer
	if _, err := once(ctx, slipway.addr, post(slipway.addr, "/v1alpha2/container", body), &raw); err != nil {
		return answer{}, err
	}
	var a answer
	if err := json.Unmarshal(raw.Bytes(), &a); err != nil || a.TargetImage == "" {
		return answer{}, fmt.Errorf("reading the answer %q: %w", raw.String(), err)
	}
	return a, nil
}

// document is what the bench reads of an index or a manifest.
type document struct {
	Manifests []descriptor `json:"manifests"`
	Config    descriptor   `json:"config"`
	Layers    []descriptor `json:"layers"`
}

type descriptor struct {
	Digest   string `json:"digest"`
	Size     int64  `json:"size"`
	Platform struct {
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

// read fetches an index or a manifest.
func (c *conn) read(t target) (document, error) {
	var raw bytes.Buffer
	var d document
	if _, _, err := c.do(t.get(), &raw); err != nil {
		return d, err
	}
	return d, json.Unmarshal(raw.Bytes(), &d)
}

// child answers the manifest for linux/amd64 of the image that is at r.
func (r repository) child(ctx context.Context) (string, document, error) {
	c, err := dial(ctx, r.host)
	if err != nil {
		return "", document{}, err
	}
	defer c.hangUp()
	return r.childOn(c)
}

func (r repository) childOn(c *conn) (string, document, error) {
	index, err := c.read(r.manifest(r.ref))
	if err != nil {
		return "", document{}, err
	}
	for _, m := range index.Manifests {
		if m.Platform.Architecture == "amd64" {
			d, err := c.read(r.manifest(m.Digest))
			return m.Digest, d, err
		}
	}
	return "", document{}, fmt.Errorf("%s has no image for amd64", r.path)
}
