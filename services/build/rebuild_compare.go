package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/build/store"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/soci"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/mount/environment"
)

// firstImageTime is the timeout for reading the first image from its registry.
const firstImageTime = 20 * time.Second

// A RebuildLayer is a layer that differs between two builds of an image.
type RebuildLayer struct {
	// Name is the layer's entry in the history of the image.
	Name string `json:"name"`
	// Package is the package in the layer, and SHA256 that of its artifact in hex; "" for a layer of
	// several packages, and for the layer of the image itself.
	Package string `json:"package,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
	// First is the layer of the worker that pushed the image, and Second that of the other worker.
	First  LayerDigests `json:"first"`
	Second LayerDigests `json:"second"`
}

// LayerDigests are the digests of the compressed layer and of its tar; "" if the image has no such
// layer.
type LayerDigests struct {
	Digest string `json:"digest,omitempty"`
	DiffID string `json:"diffId,omitempty"`
}

// A RebuildSetting is a value in the configuration of an image that differs between two builds, as JSON;
// "" for none.
type RebuildSetting struct {
	Name   string `json:"name"`
	First  string `json:"first,omitempty"`
	Second string `json:"second,omitempty"`
}

// rebuildRecords is the stored form of a difference.
type rebuildRecords struct {
	Layers []RebuildLayer `json:"layers,omitempty"`
	// Settings are the parts of the configuration that differ, apart from layers and history.
	Settings []RebuildSetting `json:"settings,omitempty"`
	// Note states why the first image could not be compared.
	Note string `json:"note,omitempty"`
}

// compare compares the image that a worker reports with the first one. Equal manifests have equal
// digests of layers, and equal configurations with equal diff ids. The first image is only read if
// the manifests differ.
func (s *Service) compare(ctx context.Context, r store.Rebuild, rec store.Record, req *buildv1.ReportRebuildRequest) (store.Rebuild, error) {
	second, err := parseImage(req.GetManifest(), req.GetConfig())
	if err != nil {
		return r, fault.Invalid.New("The reported image is malformed", err)
	}
	r.Digest, r.State = digest.FromBytes(req.GetManifest()).String(), store.RebuildSame
	if r.Digest == r.FirstDigest {
		return r, nil
	}
	r.State = store.RebuildDifferent
	var records rebuildRecords
	first, isSame, err := s.firstImage(ctx, r, rec)
	if err == nil && isSame {
		r.Digest, r.State = r.FirstDigest, store.RebuildSame
		return r, nil
	}
	if err != nil {
		first = parsedImage{} // the layers of the second image are stored
		records.Note = "The first image could not be read: " + s.deps.Keychain.Publish(printable(publicText(err)))
	} else {
		records.Settings = differingSettings(first.settings, second.settings)
	}
	records.Layers = differing(first, second, s.packagesByHistory(ctx, rec))
	if len(records.Layers)+len(records.Settings) == 0 && records.Note == "" {
		records.Note = "All layers and settings are equal: the manifest or the history differs"
	}
	raw, err := json.Marshal(records)
	r.Records = string(raw)
	return r, err
}

// publicText returns the part of an error that may be stored and shown.
func publicText(err error) string {
	if f, ok := fault.As(err); ok {
		return fault.Clip(f.Public, limits.RebuildMessage)
	}
	return "an internal error"
}

// firstImage reads the documents of the first image from its registry, by digest. It also reports
// whether its digest is that of the index of an image with a SOCI index, and the manifest is the one
// that was built again.
func (s *Service) firstImage(ctx context.Context, r store.Rebuild, rec store.Record) (first parsedImage, isSame bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, firstImageTime)
	defer cancel()
	t := rec.Request.GetTarget()
	repo := upstream.Repository{Host: t.GetRegistry(), Name: t.GetRepository()}
	access, err := s.deps.Keychain.BuildAccess(ctx, caller.Of(rec.Request.GetIdentity()), repo.Host, repo.Name)
	if err != nil {
		return first, false, err
	}
	source := s.deps.Upstream.Source(repo, access)
	doc, err := source.Manifest(ctx, digest.Digest(r.FirstDigest))
	if err == nil && oci.IsIndex(doc.MediaType) {
		root := doc
		platform, err := oci.ParsePlatform(rec.Request.GetRecipe().GetPlatform())
		if err != nil {
			return first, false, err
		}
		if doc, err = entryOf(ctx, source, root, platform); err != nil {
			return first, false, err
		}
		isSame = doc.Digest.String() == r.Digest && soci.IsRoot(root, doc, platform)
	}
	if err != nil {
		return first, false, err
	}
	m, err := oci.ParseManifest(doc)
	if err != nil {
		return first, false, err
	}
	config, err := source.Config(ctx, m.Config)
	if err != nil {
		return first, false, err
	}
	first, err = parseImage(doc.Bytes, config)
	return first, isSame, err
}

// entryOf returns the manifest for a platform that an index lists.
func entryOf(ctx context.Context, source oci.Source, root oci.Document, platform ocispec.Platform) (oci.Document, error) {
	x, err := oci.ParseIndex(root)
	if err != nil {
		return oci.Document{}, err
	}
	found := oci.Matching(x, platform)
	if len(found) == 0 {
		return oci.Document{}, fault.NotFound.Newf("The image is not available for %s", platforms.Format(platform))
	}
	return source.Manifest(ctx, x.Manifests[found[0]].Digest)
}

// A parsedImage holds the layers of an image by their entries in its history, in their order.
type parsedImage struct {
	names  []string
	layers map[string]LayerDigests
	// settings are the values of the configuration by their path, as JSON.
	settings map[string]string
}

// parseImage parses a manifest and the configuration that it refers to: of an image, or of an environment without an image.
func parseImage(manifest, config []byte) (parsedImage, error) {
	var m ocispec.Manifest
	var c ocispec.Image
	if err := json.Unmarshal(manifest, &m); err != nil {
		return parsedImage{}, fmt.Errorf("the manifest: %w", err)
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return parsedImage{}, fmt.Errorf("the configuration: %w", err)
	}
	if m.Config.Digest != digest.FromBytes(config) {
		return parsedImage{}, fmt.Errorf("the manifest refers to another configuration")
	}
	if m.ArtifactType == environment.Type {
		return parseEnvironment(manifest, config)
	}
	if len(m.Layers) > limits.ImageLayers || len(c.RootFS.DiffIDs) != len(m.Layers) {
		return parsedImage{}, fmt.Errorf("it has %d layers and %d diff ids", len(m.Layers), len(c.RootFS.DiffIDs))
	}
	var entries []string
	for _, h := range c.History {
		if !h.EmptyLayer {
			entries = append(entries, printable(h.CreatedBy))
		}
	}
	out := parsedImage{layers: map[string]LayerDigests{}, settings: settingsOf(config)}
	for i, l := range m.Layers {
		if err := errors.Join(l.Digest.Validate(), c.RootFS.DiffIDs[i].Validate()); err != nil {
			return parsedImage{}, err
		}
		name := fmt.Sprintf("layer %d", i+1)
		// Histories of base images may be incomplete; the entries of packages are the last ones.
		if at := len(entries) - len(m.Layers) + i; at >= 0 && entries[at] != "" {
			name = entries[at]
		}
		for base, n := name, 2; out.layers[name] != (LayerDigests{}); n++ {
			name = fmt.Sprintf("%s (%d)", base, n)
		}
		out.names = append(out.names, name)
		out.layers[name] = LayerDigests{l.Digest.String(), c.RootFS.DiffIDs[i].String()}
	}
	return out, nil
}

// parseEnvironment parses the manifest and the configuration of an environment. Its layers are the index and the blobs of packages,
// which have the names that their layers have in the history of an image.
func parseEnvironment(manifest, config []byte) (parsedImage, error) {
	a, err := environment.Parse(manifest)
	if err != nil {
		return parsedImage{}, err
	}
	c, err := environment.ParseConfig(config)
	if err != nil {
		return parsedImage{}, err
	}
	const index = "index of files"
	out := parsedImage{names: []string{index}, layers: map[string]LayerDigests{index: {a.Index.Digest.String(), c.Index.String()}}, settings: map[string]string{}}
	for _, p := range c.Packages {
		name := printable(spec.Record{Name: p.Name, Version: p.Version, Build: p.Build}.History())
		if p.Build == "" {
			name = printable(spec.PyPI + ": " + p.Name + " " + p.Version)
		}
		out.names = append(out.names, name)
		out.layers[name] = LayerDigests{Digest: a.Blobs[p.Blob].Digest.String()}
	}
	for name, value := range map[string]any{"env": c.Env, "platform": c.Platform} {
		raw, err := json.Marshal(value)
		if err != nil {
			return out, err
		}
		out.settings[name] = string(raw)
	}
	return out, nil
}

// settingsOf returns the values of an image's configuration by their paths, such as "config.Env", without
// the layers and the history.
func settingsOf(config []byte) map[string]string {
	out := map[string]string{}
	var top, inner map[string]json.RawMessage
	if json.Unmarshal(config, &top) != nil {
		return out
	}
	for name, value := range top {
		switch {
		case name == "rootfs" || name == "history":
		case name == "config" && json.Unmarshal(value, &inner) == nil:
			for name, value := range inner {
				out["config."+name] = string(value)
			}
		default:
			out[name] = string(value)
		}
	}
	return out
}

// differingSettings returns up to limits.RebuildSettings settings that differ, sorted by name.
func differingSettings(first, second map[string]string) []RebuildSetting {
	names := map[string]bool{}
	for _, all := range []map[string]string{first, second} {
		for name := range all {
			names[name] = true
		}
	}
	var out []RebuildSetting
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if first[name] != second[name] && len(out) < limits.RebuildSettings {
			out = append(out, RebuildSetting{printable(name), clipSetting(first[name]), clipSetting(second[name])})
		}
	}
	return out
}

func clipSetting(text string) string { return fault.Clip(withoutControls(text), limits.RebuildSetting) }

// printable returns a text of a worker for operators: without control characters, and of a bounded
// length.
func printable(text string) string { return fault.Clip(withoutControls(text), limits.RebuildMessage) }

func withoutControls(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
}

// differing returns the layers that differ: those of the first image, then those that only the second
// one has.
func differing(first, second parsedImage, packages map[string]spec.Record) []RebuildLayer {
	var out []RebuildLayer
	add := func(name string) {
		l := RebuildLayer{Name: name, First: first.layers[name], Second: second.layers[name]}
		if l.First == l.Second {
			return
		}
		if p, ok := packages[name]; ok {
			l.Package, l.SHA256 = p.URL, p.SHA256
		}
		out = append(out, l)
	}
	for _, name := range first.names {
		add(name)
	}
	for _, name := range second.names {
		if _, both := first.layers[name]; !both {
			add(name)
		}
	}
	return out
}

// withoutLogin returns the address of a package without the parts that may contain secrets: the user,
// the query, and the token in paths of anaconda.org.
func withoutLogin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Opaque != "" {
		return ""
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
	if rest, ok := strings.CutPrefix(u.Path, "/t/"); ok {
		_, after, _ := strings.Cut(rest, "/")
		u.Path, u.RawPath = "/"+after, ""
	}
	return u.String()
}

// packagesByHistory returns the packages of a build's lock by the entries of their layers in the
// history of an image, with addresses that contain no login.
func (s *Service) packagesByHistory(ctx context.Context, rec store.Record) map[string]spec.Record {
	out := map[string]spec.Record{}
	lock, err := s.store.Lock(ctx, rec.ID)
	if err != nil {
		return out // the names of the layers remain
	}
	var records []spec.Record
	if err := json.Unmarshal([]byte(lockRecords(lock)), &records); err != nil {
		return out
	}
	for _, r := range records {
		r.URL = withoutLogin(r.URL)
		out[r.History()] = r
	}
	return out
}
