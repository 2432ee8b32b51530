// Package engine pulls images like a container engine.
package engine

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

// A Repository is the location of an image's parts.
type Repository struct {
	Host, path string
	// Ref is the tag or digest in the image's name.
	Ref string
}

// Manifest returns the URL of a manifest, Blob that of a blob.
func (r Repository) Manifest(ref string) string {
	return "http://" + r.Host + "/v2/" + r.path + "/manifests/" + ref
}

func (r Repository) Blob(digest string) string {
	return "http://" + r.Host + "/v2/" + r.path + "/blobs/" + digest
}

// At parses an image name.
func At(name string) Repository {
	host, rest, _ := strings.Cut(name, "/")
	if path, digest, ok := strings.Cut(rest, "@"); ok {
		return Repository{host, path, digest}
	}
	i := strings.LastIndexByte(rest, ':')
	return Repository{host, rest[:max(i, 0)], rest[i+1:]}
}

// A Document holds the parts of an index or a manifest that the bench reads.
type Document struct {
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

// New returns a client with its own connections, like a container engine. The caller must
// close its idle connections.
func New() *http.Client { return &http.Client{Transport: &http.Transport{ReadBufferSize: 64 << 10}} }

// open requests a URL. The caller must close the body.
func open(ctx context.Context, c *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", Accepted)
	resp, err := c.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 500)) // only to explain the status
		err = fmt.Errorf("GET %s: %s %s", url, resp.Status, said)
		_ = resp.Body.Close()
	}
	return resp, err
}

// Read returns the body and the header of a response.
func Read(ctx context.Context, c *http.Client, url string) ([]byte, http.Header, error) {
	resp, err := open(ctx, c, url)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return raw, resp.Header, err
}

// Fetch reads a blob and discards it, or hashes and verifies it as engines do. It returns
// the size in bytes.
func Fetch(ctx context.Context, c *http.Client, url string, hashing bool) (int64, error) {
	resp, err := open(ctx, c, url)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	h := sha256.New()
	var sink io.Writer = struct{ io.Writer }{io.Discard} // without its ReadFrom, which has a small buffer
	if hashing {
		sink = h
	}
	n, err := io.CopyBuffer(sink, struct{ io.Reader }{resp.Body}, make([]byte, 128<<10))
	if got := hex.EncodeToString(h.Sum(nil)); err == nil && hashing && !strings.HasSuffix(url, got) {
		err = fmt.Errorf("%s: the content has the digest %s", url, got)
	}
	return n, err
}

// Child returns the manifest for linux/amd64 of the image at r, and its digest.
func (r Repository) Child(ctx context.Context, c *http.Client) (digest string, d Document, err error) {
	digest = r.Ref
	for range 2 { // the index, then the manifest
		raw, _, err := Read(ctx, c, r.Manifest(digest))
		if err != nil {
			return "", d, err
		}
		d = Document{}
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

// Pull reads the index, the manifest, the config and the layers of an image, with up to
// layersAtOnce concurrent layers. It returns the total size of config and layers in bytes.
func (r Repository) Pull(ctx context.Context, layersAtOnce int) (total int64, err error) {
	c := New()
	defer c.CloseIdleConnections()
	_, d, err := r.Child(ctx, c)
	if err != nil {
		return 0, err
	}
	var all errgroup.Group
	all.SetLimit(layersAtOnce)
	for i, part := range append([]descriptor{d.Config}, d.Layers...) {
		total += part.Size
		blob := func() error {
			n, err := Fetch(ctx, c, r.Blob(part.Digest), false)
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

// Accepted lists the media types that engines accept.
const Accepted = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, " +
	"application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json"
