package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/builder/arena"
	"slipway.dev/services/builder/flatten"
	"slipway.dev/services/builder/shadow"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// tree reads the content of an image from the registry that serves its name. Nothing is
// stored on disk.
func (s *service) tree(ctx context.Context, image builtImage) (*shadow.Tree, error) {
	layers, err := s.layers(ctx, image.name)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", image.name, err)
	}
	t, err := flattened(ctx, layers, flatten.Write)
	if errors.Is(err, flatten.ErrTwice) {
		t, err = flattened(ctx, layers, flatten.WriteTwice)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", image.name, err)
	}
	return t, nil
}

type writer func(context.Context, flatten.Output, []flatten.Layer, flatten.Limits) (flatten.Summary, error)

func flattened(ctx context.Context, layers []flatten.Layer, write writer) (*shadow.Tree, error) {
	out, in := io.Pipe()
	go func() {
		archive := flatten.NewTar(in)
		_, err := write(ctx, archive, layers, flatten.Limits{Entries: limits.ImageEntries, Names: limits.ImageEntries, NameBytes: limits.ImageNameBytes, Memory: arena.NewBudget(limits.ImageTables)})
		if err == nil {
			err = archive.Close()
		}
		in.CloseWithError(err)
	}()
	t, err := shadow.Read(out)
	return t, errors.Join(err, out.Close())
}

// layers returns the layers of the image with a name, HOST/PATH:TAG.
func (s *service) layers(ctx context.Context, name string) ([]flatten.Layer, error) {
	ref, err := oci.ParseReference(name)
	if err != nil {
		return nil, err
	}
	at := "/v2/" + ref.Repository
	types := []string{ocispec.MediaTypeImageManifest, oci.TypeDockerManifest, ocispec.MediaTypeImageIndex, oci.TypeDockerIndex}
	doc, err := s.document(ctx, at+"/manifests/"+ref.Identifier(), types)
	if err != nil {
		return nil, err
	}
	if oci.IsIndex(doc.MediaType) { // BuildKit adds provenance to an image in an index
		x, err := oci.ParseIndex(doc)
		if err != nil {
			return nil, err
		}
		if len(x.Manifests) == 0 {
			return nil, errors.New("the index is empty")
		}
		if doc, err = s.document(ctx, at+"/manifests/"+x.Manifests[0].Digest.String(), types); err != nil {
			return nil, err
		}
	}
	m, err := oci.ParseManifest(doc)
	if err != nil {
		return nil, err
	}
	var out []flatten.Layer
	for _, l := range m.Layers {
		out = append(out, flatten.Layer{Name: l.Digest.String(), Size: l.Size, Open: func(ctx context.Context) (io.ReadCloser, error) {
			resp, err := s.send(ctx, http.MethodGet, at+"/blobs/"+l.Digest.String(), nil, http.Header{})
			if err != nil {
				return nil, err
			}
			return &verified{ReadCloser: resp.Body, sum: l.Digest.Verifier()}, nil
		}})
	}
	return out, nil
}

func (s *service) document(ctx context.Context, path string, types []string) (oci.Document, error) {
	resp, err := s.send(ctx, http.MethodGet, path, nil, http.Header{"Accept": {strings.Join(types, ", ")}})
	if err != nil {
		return oci.Document{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, limits.Document+1))
	if err == nil && len(raw) > limits.Document {
		err = errors.New("a manifest is too large")
	}
	return oci.NewDocument(resp.Header.Get("Content-Type"), raw), err
}

// verified reads a layer. Its last Read returns an error if the digest does not match.
type verified struct {
	io.ReadCloser
	sum digest.Verifier
}

// Read returns the next bytes.
func (v *verified) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	_, _ = v.sum.Write(p[:n]) // a hash never fails
	if errors.Is(err, io.EOF) && !v.sum.Verified() {
		return n, errors.New("a layer does not have its digest")
	}
	return n, err
}
