package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// packagesDir contains real Conda packages, which the builder's tests use too.
const packagesDir = "services/conda/packages/artifact/testdata/packages"

// channelPackages are the packages of the cluster's own channel, with their dependencies.
func channelPackages() map[string][]string {
	return map[string][]string{
		"c-ares-1.21.0-h31becfc_0.conda":       nil,
		"libcurl-8.4.0-h4e8248e_0.conda":       {"libzlib >=1.2.13,<1.3", "c-ares"},
		"libffi-3.4.2-h3557bc0_5.tar.bz2":      nil,
		"libuuid-2.38.1-hb4cce97_0.conda":      nil,
		"libzlib-1.2.13-h31becfc_5.conda":      nil,
		"link-scripts-0.1.0-h4616a5c_0.conda":  nil,
		"lz4-c-1.9.4-hd600fc2_0.conda":         nil,
		"reproc-14.2.4.post0-h31becfc_1.conda": nil,
	}
}

// serveChannel starts a pod that serves a Conda channel. The channel is small enough for a
// ConfigMap, so that the pod needs no volume of the node.
func (c *cluster) serveChannel(ctx context.Context) error {
	manifests, err := files.ReadFile("files/channel.yaml")
	if err != nil {
		return err
	}
	if _, err := c.kubectlWith(ctx, manifests, "apply", "-f", "-"); err != nil {
		return err
	}
	args := []string{"-n", "conda-channel", "create", "configmap", "packages"}
	lists := map[bool]object{}
	for file, depends := range channelPackages() {
		path := filepath.Join(c.repo, packagesDir, file)
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		base, isCurrent := strings.CutSuffix(file, ".conda")
		parts := strings.Split(strings.TrimSuffix(base, ".tar.bz2"), "-")
		n := len(parts)
		sum := sha256.Sum256(raw)
		if lists[isCurrent] == nil {
			lists[isCurrent] = object{}
		}
		lists[isCurrent][file] = object{
			"name": strings.Join(parts[:n-2], "-"), "version": parts[n-2], "build": parts[n-1], "build_number": 0,
			"depends": append([]string{}, depends...), "sha256": hex.EncodeToString(sum[:]), "size": len(raw),
		}
		args = append(args, "--from-file="+path)
	}
	repodata, err := json.Marshal(object{"packages": lists[false], "packages.conda": lists[true]})
	if err != nil {
		return err
	}
	list := filepath.Join(c.dir, "repodata.json")
	if err := os.WriteFile(list, repodata, 0o600); err != nil {
		return err
	}
	_, err = c.kubectl(ctx, append(args, "--from-file="+list)...)
	return err
}

// environment returns a request for Conda packages of the cluster's channel.
func (w *world) environment(packages ...string) object {
	return object{"packages": object{
		"type": "CONDA", "entries": packages, "channels": []string{"lab"}, "condaOpts": object{"baseImage": w.image, "basePackages": ""},
	}}
}

// makeEnvironment requests an environment, and pulls its image. The cluster has no internet
// access. Only images built directly from packages can succeed: other builds need an image of
// micromamba, which no registry here has.
func makeEnvironment(ctx context.Context, w *world, packages ...string) error {
	name, err := w.client.submit(ctx, w.environment(packages...))
	if err != nil {
		return err
	}
	img, err := w.client.pull(ctx, name)
	if err != nil {
		return err
	}
	if !strings.Contains(strings.Join(img.Config.Env, "\n"), "PATH=/opt/conda/bin") || img.layers <= len(packages) {
		return fmt.Errorf("the image has %d layers and the variables %v", img.layers, img.Config.Env)
	}
	return nil
}

// condaImage checks that the service needs no host outside the cluster.
func condaImage(ctx context.Context, w *world) (string, error) {
	if conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", "192.0.2.1:443"); err == nil {
		return "", errors.Join(errors.New("there is a route out of the cluster"), conn.Close())
	}
	// The public channel is unreachable, which must only fail this request.
	lock := object{"packages": object{"type": "CONDA", "entries": []string{"zlib"}, "channels": []string{"conda-forge"}}}
	switch err := w.client.post(ctx, "/v1alpha1/conda/lock", lock, nil); {
	case err == nil:
		return "", errors.New("a channel outside the cluster was read")
	case !strings.Contains(err.Error(), "503"):
		return "", fmt.Errorf("a channel outside the cluster: %w; want a response of 503", err)
	}
	began := time.Now()
	err := makeEnvironment(ctx, w, "libcurl", "libffi")
	return fmt.Sprintf("request to pulled %.1f s", time.Since(began).Seconds()), err
}

// environmentsAtOnce is the number of different environments that a pipeline requests
// concurrently.
const environmentsAtOnce = 40

// manyEnvironments requests environmentsAtOnce different environments concurrently, as Nextflow
// does at the start of a pipeline. All of them must become images.
func manyEnvironments(ctx context.Context, w *world) (string, error) {
	choice := []string{"c-ares", "libffi", "libuuid", "libzlib", "lz4-c", "reproc"}
	began := time.Now()
	var all sync.WaitGroup
	took, failed := make([]time.Duration, environmentsAtOnce), make([]error, environmentsAtOnce)
	for i := range environmentsAtOnce {
		var packages []string
		for bit, name := range choice {
			if (i+1)>>bit&1 == 1 {
				packages = append(packages, name)
			}
		}
		all.Go(func() {
			if err := makeEnvironment(ctx, w, packages...); err != nil {
				failed[i] = fmt.Errorf("%s: %w", strings.Join(packages, " "), err)
			}
			took[i] = time.Since(began)
		})
	}
	all.Wait()
	failed = slices.DeleteFunc(failed, func(err error) bool { return err == nil })
	var err error
	if len(failed) > 0 {
		err = fmt.Errorf("%d of %d failed; the first: %w", len(failed), environmentsAtOnce, failed[0])
	}
	return fmt.Sprintf("%d requested at once, the first pulled after %.1f s, the last after %.1f s",
		environmentsAtOnce, slices.Min(took).Seconds(), time.Since(began).Seconds()), err
}
