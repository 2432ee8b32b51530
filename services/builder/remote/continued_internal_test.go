package remote

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/regclient/regclient/types/ref"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// states holds states in memory.
type states map[digest.Digest]UploadState

func (s states) Load(_ context.Context, d digest.Digest) UploadState { return s[d] }
func (s states) Save(d digest.Digest, u UploadState)                 { s[d] = u }

// A copyWorld is a source and a target, with one blob at the source.
type copyWorld struct {
	from, to *testkit.Registry
	source   *Repository
	target   *Target
	blob     ocispec.Descriptor
	content  []byte
}

func newCopyWorld(t *testing.T) copyWorld {
	t.Helper()
	w := copyWorld{from: testkit.NewRegistry(t, testkit.Open), to: testkit.NewRegistry(t, testkit.Bearer)}
	egress, err := upstream.NewEgress([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	client := upstream.New(upstream.Options{Egress: egress, Plain: []string{w.from.Host, w.to.Host}, Metrics: prometheus.NewRegistry()})
	s := session{Deps: Deps{Egress: egress, Registries: client}}
	login := upstream.Access{Scope: "test", Login: upstream.Login{Username: testkit.User, Password: testkit.Password}}
	at := upstream.Repository{Host: w.from.Host, Name: "lab/tool"}
	w.source = &Repository{session: s, at: at}
	w.target = &Target{session: s, repo: upstream.Repository{Host: w.to.Host, Name: "copy/tool"}, access: login, Client: s.control(w.to.Host, login, nil)}
	if w.source.ref, err = ref.New(w.from.Host + "/lab/tool"); err != nil {
		t.Fatal(err)
	}
	if w.target.Ref, err = ref.New(w.to.Host + "/copy/tool:v1"); err != nil {
		t.Fatal(err)
	}
	w.content = bytes.Repeat([]byte("0123456789abcdef"), (limits.MirrorContinued+3<<20)/16)
	w.blob = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromBytes(w.content), Size: int64(len(w.content))}
	u, err := client.StartUpload(t.Context(), at, upstream.Access{})
	if err == nil {
		err = u.Append(t.Context(), bytes.NewReader(w.content), w.blob.Size)
	}
	if err == nil {
		err = u.Commit(t.Context(), w.blob.Digest)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestCopyContinued continues uploads whose state is right, wrong, lost or false.
func TestCopyContinued(t *testing.T) {
	t.Parallel()
	w := newCopyWorld(t)
	start := func(content []byte) UploadState {
		u, err := w.target.Registries.StartUpload(t.Context(), w.target.repo, w.target.access)
		if err == nil {
			err = u.Append(t.Context(), bytes.NewReader(content), int64(len(content)))
		}
		if err != nil {
			t.Fatal(err)
		}
		h, err := newStepHash(w.blob, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = h.sum.Write(content[:limits.UploadStep])
		h.offset = limits.UploadStep
		h.step()
		return UploadState{Location: u.Location, Steps: h.steps}
	}
	for name, state := range map[string]func() UploadState{
		"none":          func() UploadState { return UploadState{} },
		"right":         func() UploadState { return start(w.content[:5<<20]) },
		"complete":      func() UploadState { return start(w.content) },
		"other content": func() UploadState { return start(bytes.Repeat([]byte("x"), 5<<20)) },
		"too long":      func() UploadState { return start(append([]byte("x"), w.content...)) },
		"without steps": func() UploadState { return UploadState{Location: start(w.content[:5<<20]).Location} },
		"malformed steps": func() UploadState {
			return UploadState{start(w.content[:5<<20]).Location, []HashStep{{1 << 20, []byte("?")}, {-5, nil}}}
		},
		"false steps": func() UploadState {
			return UploadState{start(w.content[:5<<20]).Location, start(bytes.Repeat([]byte("x"), 2<<20)).Steps}
		},
		"unknown upload": func() UploadState { return UploadState{Location: "/v2/copy/tool/blobs/uploads/unknown"} },
		"elsewhere":      func() UploadState { return UploadState{Location: "/v2/other/blobs/uploads/unknown"} },
	} {
		s := states{w.blob.Digest: state()}
		how, err := w.target.CopyContinued(t.Context(), w.source, w.blob, s)
		if err != nil || how != Copied || s[w.blob.Digest].Location != "" {
			t.Errorf("%s: %q, %v, and the state %+v remains", name, how, err, s[w.blob.Digest])
		}
		b, err := w.target.Registries.ReadBlob(t.Context(), w.target.repo, w.blob.Digest, w.target.access, 0, w.blob.Size)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = b.Close()
		w.to.Empty(t)
	}
}

// TestCopyWholeOnly checks that a registry that accepts no parts of blobs is reported, and that it
// accepts the blob as a whole.
func TestCopyWholeOnly(t *testing.T) {
	t.Parallel()
	w := newCopyWorld(t)
	w.to.Intercept(func(out http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			http.NotFound(out, r)
		}
		return r.Method == http.MethodPatch
	})
	s := states{}
	if _, err := w.target.CopyContinued(t.Context(), w.source, w.blob, s); !errors.Is(err, ErrWholeOnly) || s[w.blob.Digest].Location != "" {
		t.Fatalf("got %v and the state %v, want ErrWholeOnly", err, s)
	}
	if how, err := w.target.CopyVerified(t.Context(), w.source, w.blob); err != nil || how != Copied {
		t.Errorf("as a whole: %q, %v", how, err)
	}
}

// TestCopyContinuedFails checks that a failure keeps the state, unless the blob is wrong.
func TestCopyContinuedFails(t *testing.T) {
	t.Parallel()
	w := newCopyWorld(t)
	s := states{}
	w.from.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		rw.WriteHeader(http.StatusForbidden)
		return true
	})
	if _, err := w.target.CopyContinued(t.Context(), w.source, w.blob, s); !errors.As(err, new(*SourceError)) || !errors.Is(err, fault.Denied) {
		t.Errorf("a source that denies: %v", err)
	}
	w.from.Intercept(func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		rw.Header().Set("Content-Range", "bytes 0-1/2")
		_, _ = rw.Write(bytes.Repeat([]byte("x"), int(w.blob.Size)))
		return true
	})
	if _, err := w.target.CopyContinued(t.Context(), w.source, w.blob, s); err == nil || !strings.Contains(err.Error(), "its digest is") {
		t.Errorf("a source that lies: %v", err)
	}
	if s[w.blob.Digest].Location != "" {
		t.Errorf("the state %+v remains", s[w.blob.Digest])
	}
}
