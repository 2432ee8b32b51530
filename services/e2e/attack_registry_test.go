package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/limits"
)

// hostile is a registry that returns documents that require as much memory as possible. The tag
// selects the kind of document.
type hostile struct {
	tags  map[string][]byte
	blobs map[string][]byte
}

func newHostile() *hostile {
	h := &hostile{tags: map[string][]byte{}, blobs: map[string][]byte{}}
	var labels strings.Builder
	for i := range limits.DocumentValues - 1000 {
		fmt.Fprintf(&labels, `,"%d":"%0100d"`, i, i)
	}
	config := h.add(`{"architecture":"amd64","os":"linux","config":{"Labels":{"a":""` + labels.String() + `}}}`)
	manifest := func(i int) []byte {
		return []byte(fmt.Sprintf(`{"schemaVersion":2,"mediaType":"%s","config":{"mediaType":"%s","digest":"%s","size":%d},"layers":[],"annotations":{"i":"%d"}}`,
			ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageConfig, digest.FromBytes(config), len(config), i))
	}
	index := func(n int) []byte {
		var entries []string
		for i := range n {
			m := h.add(string(manifest(i)))
			entries = append(entries, fmt.Sprintf(`{"mediaType":"%s","digest":"%s","size":%d,"platform":{"os":"linux","architecture":"amd64"}}`,
				ocispec.MediaTypeImageManifest, digest.FromBytes(m), len(m)))
		}
		return []byte(`{"schemaVersion":2,"mediaType":"` + ocispec.MediaTypeImageIndex + `","manifests":[` + strings.Join(entries, ",") + `]}`)
	}
	h.tags["wide"], h.tags["heavy"], h.tags["large"] = index(250), index(limits.ImagesChanged), manifest(0)
	h.tags["nothing"] = []byte(`{"schemaVersion":2,"mediaType":"` + ocispec.MediaTypeImageIndex + `","manifests":[` + strings.Repeat(`{},`, limits.Document/3-50) + `{}]}`)
	h.tags["huge"] = []byte(`{"schemaVersion":2,"mediaType":"` + ocispec.MediaTypeImageIndex + `","manifests":[` + strings.Repeat(`{},`, 8<<20/3) + `{}]}`)
	for _, raw := range h.tags {
		h.add(string(raw))
	}
	return h
}

func (h *hostile) add(raw string) []byte {
	h.blobs[digest.FromString(raw).String()] = []byte(raw)
	return []byte(raw)
}

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	last := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	raw, ok := h.tags[last]
	if !ok {
		raw, ok = h.blobs[last]
	}
	switch {
	case r.URL.Path == "/v2/":
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	case strings.Contains(r.URL.Path, "/manifests/") && strings.Contains(string(raw[:min(len(raw), 200)]), ocispec.MediaTypeImageIndex):
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
	case strings.Contains(r.URL.Path, "/manifests/"):
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
	}
	_, _ = w.Write(raw)
}

// TestAttackHostileRegistry inspects and augments images of a registry whose documents require
// much memory, twenty times concurrently.
func TestAttackHostileRegistry(t *testing.T) {
	leaveToServers(t)
	up := httptest.NewServer(newHostile())
	t.Cleanup(up.Close)
	host := strings.TrimPrefix(up.URL, "http://")
	open := settings{thisProgram: plain(), "limit_pulls_anonymous": "0", "limit_pulls_user": "0"}
	eachShape(t, []string{host}, open, func(t *testing.T, p *program) {
		before := map[*process]int64{}
		for _, proc := range p.procs {
			before[proc] = proc.peak()
		}
		for _, tag := range []string{"wide", "heavy", "nothing", "huge", "large"} {
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					image := fmt.Sprintf("%s/team/app%d:%s", host, i, tag)
					r := p.call(http.MethodPost, "/v1alpha1/inspect", map[string]any{"containerImage": image, "platform": "linux/amd64"})
					if tag != "heavy" && (r.status == http.StatusOK) != (tag == "large") {
						t.Errorf("inspecting %s returned %d, %d bytes", image, r.status, len(r.body))
					}
					pullHostile(t, p, image, tag == "large")
				})
			}
			all.Wait()
		}
		for _, proc := range p.procs {
			if grown := proc.peak() - before[proc]; grown > hostileGrowth {
				t.Errorf("%s grew by %d MB", proc.name, grown>>20)
			} else {
				t.Logf("%s grew by %d MB", proc.name, grown>>20)
			}
		}
	})
}

// hostileGrowth is the allowed growth of a process in bytes, for twenty concurrent responses of
// 3.5 MB: each exists as received bytes, as a message, and as JSON.
const hostileGrowth = 768 << 20

// pullHostile requests an image with an addition.
func pullHostile(t testing.TB, p *program, image string, good bool) {
	r := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image, "containerConfig": map[string]any{"env": []string{"A=1"}}})
	if r.status == http.StatusOK {
		target, _ := r.json(t)["targetImage"].(string)
		r = request(t, http.MethodGet, v2(target)+"/manifests/"+target[strings.LastIndexByte(target, ':')+1:], nil)
	}
	if (r.status == http.StatusOK) != good {
		t.Errorf("pulling %s returned %d, %d bytes", image, r.status, len(r.body))
	}
}
