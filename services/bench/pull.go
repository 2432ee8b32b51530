package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"golang.org/x/sync/errgroup"
)

// repository is where an image's parts are.
type repository struct {
	host, path string
	// ref is the tag or digest that it was named by.
	ref string
}

func (r repository) manifest(ref string) string {
	return "http://" + r.host + "/v2/" + r.path + "/manifests/" + ref
}

func (r repository) blob(digest string) string {
	return "http://" + r.host + "/v2/" + r.path + "/blobs/" + digest
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

// engine is a client with connections of its own, as a container engine has. Close
// them.
func engine() *http.Client { return &http.Client{Transport: &http.Transport{ReadBufferSize: 64 << 10}} }

// open asks for a URL; close its body.
func open(ctx context.Context, c *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accepted)
	resp, err := c.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 500)) // the status says enough
		err = fmt.Errorf("GET %s: %s %s", url, resp.Status, said)
		_ = resp.Body.Close()
	}
	return resp, err
}

// read is all of an answer, and its header.
func read(ctx context.Context, c *http.Client, url string) ([]byte, http.Header, error) {
	resp, err := open(ctx, c, url)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return raw, resp.Header, err
}

// fetch reads a blob into nothing, or hashes and checks it, as engines do; it returns
// its size in bytes.
func fetch(ctx context.Context, c *http.Client, url string, hashing bool) (int64, error) {
	resp, err := open(ctx, c, url)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	h := sha256.New()
	var sink io.Writer = struct{ io.Writer }{io.Discard} // whose ReadFrom has a small buffer
	if hashing {
		sink = h
	}
	n, err := io.CopyBuffer(sink, struct{ io.Reader }{resp.Body}, make([]byte, 128<<10))
	if got := hex.EncodeToString(h.Sum(nil)); err == nil && hashing && !strings.HasSuffix(url, got) {
		err = fmt.Errorf("%s: the content has the digest %s", url, got)
	}
	return n, err
}

// child is the manifest for linux/amd64 of the image that is at r, and its digest.
func (r repository) child(ctx context.Context, c *http.Client) (digest string, d document, err error) {
	digest = r.ref
	for range 2 { // the index, then the manifest
		raw, _, err := read(ctx, c, r.manifest(digest))
		if err != nil {
			return "", d, err
		}
		d = document{}
		if err := json.Unmarshal(raw, &d); err != nil {
			return "", d, err
		}
		for _, m := range d.Manifests {
			if m.Platform.Architecture == "amd64" {
				digest = m.Digest
			}
		}
	}
	if len(d.Layers) == 0 {
		err = fmt.Errorf("%s has no image for amd64", r.path)
	}
	return digest, d, err
}

// pull reads the index, the manifest, the config and the layers of an image, so many
// of these at a time, and returns how many bytes config and layers were.
func (r repository) pull(ctx context.Context, layersAtOnce int) (total int64, err error) {
	c := engine()
	defer c.CloseIdleConnections()
	_, d, err := r.child(ctx, c)
	if err != nil {
		return 0, err
	}
	var all errgroup.Group
	all.SetLimit(layersAtOnce)
	for i, part := range append([]descriptor{d.Config}, d.Layers...) {
		total += part.Size
		blob := func() error {
			n, err := fetch(ctx, c, r.blob(part.Digest), false)
			if err == nil && n != part.Size {
				err = fmt.Errorf("the blob %s has %d bytes, not %d", part.Digest, n, part.Size)
			}
			return err
		}
		if i > 0 {
			all.Go(blob)
		} else if err := blob(); err != nil {
			return 0, err
		}
	}
	return total, all.Wait()
}

// accepted is what engines accept.
const accepted = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, " +
	"application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json"
