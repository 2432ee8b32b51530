package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

type object = map[string]any

func digestOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// layer returns a tar of executables; the keys of programs are names in the image, the values
// are local files. Entries are sorted, so that equal programs give an equal digest.
func layer(programs map[string]string) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		raw, err := os.ReadFile(programs[name])
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(raw)), Typeflag: tar.TypeReg}); err != nil {
			return nil, err
		}
		if _, err := w.Write(raw); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), w.Close()
}

// config returns the configuration of an image with one layer; entry is its entrypoint.
func config(diff string, entry []string) ([]byte, error) {
	return json.Marshal(object{
		"architecture": runtime.GOARCH, "os": "linux", "rootfs": object{"type": "layers", "diff_ids": []string{diff}},
		"config": object{"Entrypoint": entry, "Env": []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/postgresql/15/bin"}},
	})
}

// archive writes a docker archive of an image with one layer, which is read from a file.
func archive(name, out, layerFile string, entry []string) error {
	f, err := os.Open(layerFile)
	if err != nil {
		return err
	}
	defer f.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, f)
	if err != nil {
		return err
	}
	diff := hex.EncodeToString(hash.Sum(nil))
	cfg, err := config("sha256:"+diff, entry)
	if err != nil {
		return err
	}
	id := strings.TrimPrefix(digestOf(cfg), "sha256:")
	manifest, err := json.Marshal([]object{{"Config": id + ".json", "RepoTags": []string{name}, "Layers": []string{diff + ".tar"}}})
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	to, err := os.Create(out)
	if err != nil {
		return err
	}
	defer to.Close()
	w := tar.NewWriter(to)
	for _, e := range []struct {
		name string
		size int64
		from io.Reader
	}{
		{id + ".json", int64(len(cfg)), bytes.NewReader(cfg)}, {diff + ".tar", size, f}, {"manifest.json", int64(len(manifest)), bytes.NewReader(manifest)},
	} {
		if err := w.WriteHeader(&tar.Header{Name: e.name, Mode: 0o644, Size: e.size, Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := io.Copy(w, e.from); err != nil {
			return err
		}
	}
	return w.Close()
}

// push pushes an image with one layer to a registry over plain HTTP.
func push(ctx context.Context, registry, repository, tag string, content []byte) error {
	cfg, err := config(digestOf(content), nil)
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(object{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": object{"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digestOf(cfg), "size": len(cfg)},
		"layers": []object{{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digestOf(content), "size": len(content)}},
	})
	if err != nil {
		return err
	}
	base := "http://" + registry + "/v2/" + repository
	for _, blob := range [][]byte{cfg, content} {
		resp, err := send(ctx, http.MethodPost, base+"/blobs/uploads/", "", nil, http.StatusAccepted)
		if err != nil {
			return err
		}
		to, err := resp.Request.URL.Parse(resp.Header.Get("Location"))
		if err != nil {
			return err
		}
		q := to.Query()
		q.Set("digest", digestOf(blob))
		to.RawQuery = q.Encode()
		if _, err := send(ctx, http.MethodPut, to.String(), "application/octet-stream", blob, http.StatusCreated); err != nil {
			return err
		}
	}
	_, err = send(ctx, http.MethodPut, base+"/manifests/"+tag, "application/vnd.oci.image.manifest.v1+json", manifest, http.StatusCreated)
	return err
}

// send sends a request, checks the status, and returns the response without its body.
func send(ctx context.Context, method, url, kind string, body []byte, want int) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", kind)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, text)
	}
	return resp, err
}

// makeImages writes the images that the nodes import: third-party images from the cache, and
// our own from their OCI layouts.
func makeImages(cache, own string) error {
	for _, name := range []string{"slipwayd", "slipway-builder"} {
		if err := bare(filepath.Join(own, name), filepath.Join(cache, "images", name+".tar")); err != nil {
			return err
		}
	}
	for name, program := range map[string]string{"pause": "pause", "dns": "dns", "adapter": "adapter"} {
		content, err := layer(map[string]string{"usr/bin/" + program: filepath.Join(cache, "bin", program)})
		if err != nil {
			return err
		}
		file := filepath.Join(cache, name+".layer")
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return err
		}
		entry := []string{"/usr/bin/" + program}
		if err := archive("docker.io/e2e/"+name+":1", filepath.Join(cache, "images", name+".tar"), file, entry); err != nil {
			return err
		}
	}
	return archive("docker.io/e2e/servers:1", filepath.Join(cache, "images", "servers.tar"), filepath.Join(cache, "servers.tar"), nil)
}

// bare writes a tar of an OCI layout without the referrers of its images, which containerd
// cannot import.
func bare(layout, out string) error {
	raw, err := os.ReadFile(filepath.Join(layout, "index.json"))
	if err != nil {
		return err
	}
	var index struct {
		SchemaVersion int      `json:"schemaVersion"`
		MediaType     string   `json:"mediaType"`
		Manifests     []object `json:"manifests"`
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		return err
	}
	index.Manifests = slices.DeleteFunc(index.Manifests, func(m object) bool {
		notes, _ := m["annotations"].(object)
		return notes["io.containerd.image.name"] == nil
	})
	if raw, err = json.Marshal(index); err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	err = filepath.WalkDir(layout, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content := raw
		if filepath.Base(path) != "index.json" {
			if content, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		name, err := filepath.Rel(layout, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	return errors.Join(err, w.Close())
}
