package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// client sends requests like users do: REST to the gateways, pulls to the registries, each
// through its Service. It never retries.
type client struct {
	gateway, registry string // http://10.96.…
	http              *http.Client
}

func newClient(gateway, registry string) *client {
	// Each request opens a new connection, like many clients do: kube-proxy selects a pod for
	// each connection.
	t := &http.Transport{DisableKeepAlives: true}
	return &client{"http://" + gateway, "http://" + registry, &http.Client{Transport: t, Timeout: 20 * time.Minute}}
}

// submit requests a container, and returns its name without the host.
func (c *client) submit(ctx context.Context, request object) (string, error) {
	var answer struct{ TargetImage string }
	if err := c.post(ctx, "/v1alpha2/container", request, &answer); err != nil {
		return "", err
	}
	_, name, ok := strings.Cut(answer.TargetImage, "/")
	if !ok {
		return "", fmt.Errorf("the response has the name %q", answer.TargetImage)
	}
	return name, nil
}

// post calls the REST API. It decodes the response into answer unless answer is nil.
func (c *client) post(ctx context.Context, path string, request object, answer any) error {
	raw, err := json.Marshal(request)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.gateway+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	body, err := c.do(req)
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(body, answer)
}

// pull downloads all blobs of an image, verifies every digest, and returns the image's
// configuration.
func (c *client) pull(ctx context.Context, name string) (imageConfig, error) {
	var cfg imageConfig
	repository, tag, _ := strings.Cut(name, ":")
	base := c.registry + "/v2/" + repository
	raw, err := c.get(ctx, base+"/manifests/"+tag, "")
	if err != nil {
		return cfg, err
	}
	var manifest struct {
		Config    descriptor
		Layers    []descriptor
		Manifests []descriptor
	}
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return cfg, err
	}
	if len(manifest.Manifests) > 0 {
		if raw, err = c.get(ctx, base+"/manifests/"+manifest.Manifests[0].Digest, manifest.Manifests[0].Digest); err != nil {
			return cfg, err
		}
		if err := json.Unmarshal(raw, &manifest); err != nil {
			return cfg, err
		}
	}
	if raw, err = c.get(ctx, base+"/blobs/"+manifest.Config.Digest, manifest.Config.Digest); err != nil {
		return cfg, err
	}
	if err := json.Unmarshal(raw, &cfg); err != nil {
		return cfg, err
	}
	cfg.layers = len(manifest.Layers)
	for _, l := range manifest.Layers {
		if _, err := c.get(ctx, base+"/blobs/"+l.Digest, l.Digest); err != nil {
			return cfg, err
		}
	}
	return cfg, nil
}

type descriptor struct{ Digest string }

type imageConfig struct {
	Config struct{ Env []string }
	// layers is the number of layers in the manifest.
	layers int
}

func (c *client) get(ctx context.Context, url, digest string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json, */*")
	raw, err := c.do(req)
	if err == nil && digest != "" && digestOf(raw) != digest {
		err = fmt.Errorf("the content of %s does not match its digest", url)
	}
	return raw, err
}

func (c *client) do(req *http.Request) ([]byte, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", req.Method, req.URL.Path, resp.Status, bytes.TrimSpace(body))
	}
	return body, err
}

// load counts the results of operations that are repeated continuously.
type load struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu     sync.Mutex
	times  []time.Duration
	errors []error
}

// startLoad starts workers that repeat do, each time with a new id.
func startLoad(ctx context.Context, workers int, do func(ctx context.Context, id string) error) *load {
	ctx, stop := context.WithCancel(ctx)
	l := &load{stop: stop}
	for w := range workers {
		l.done.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				began := time.Now()
				// An operation that has started is finished even if the load ends.
				err := do(context.WithoutCancel(ctx), fmt.Sprintf("-%d-%d", w, i))
				l.mu.Lock()
				l.times = append(l.times, time.Since(began))
				if err != nil {
					l.errors = append(l.errors, fmt.Errorf("%s: %w", began.Format("15:04:05"), err))
				}
				l.mu.Unlock()
			}
		})
	}
	return l
}

// once requests an image with an added variable, and pulls it.
func once(ctx context.Context, c *client, image, env string) error {
	name, err := c.submit(ctx, object{"containerImage": image, "containerConfig": object{"env": []string{env}}})
	if err != nil {
		return err
	}
	cfg, err := c.pull(ctx, name)
	if err == nil && !slices.Contains(cfg.Config.Env, env) {
		err = fmt.Errorf("the image lacks %s", env)
	}
	return err
}

// end stops the load. It returns the number of operations, the duration of the slowest, and the
// errors.
func (l *load) end() (n int, slowest time.Duration, failed []error) {
	l.stop()
	l.done.Wait()
	return len(l.times), slices.Max(append(l.times, 0)), l.errors
}
