package upstream

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// ChannelScheme is the scheme of the URL of a Conda channel in a registry, e.g.
// "oci://ghcr.io/channel-mirrors/conda-forge".
const ChannelScheme = "oci"

// Media types of the layers of Conda artifacts in registries.
const (
	typeRepodata     = "application/vnd.conda.repodata.v1+json"
	typeRepodataZstd = typeRepodata + "+zst"
	typeRepodataGzip = typeRepodata + "+gzip"
	typePackage      = "application/vnd.conda.package.v2"
	typePackageOld   = "application/vnd.conda.package.v1"
)

// A ChannelTransport is an http.RoundTripper that also reads Conda channels in registries: it
// translates a GET or HEAD request for a file of a channel, e.g.
// "oci://HOST/PATH/linux-64/repodata.json.zst", into requests for a manifest and a layer. The
// layout is that of conda-oci-mirror. For files that a channel does not have, the response has
// status 404.
//
// HTTP basic authentication of a request is used as the login at the registry. The content is
// verified against its digest: reading a body to its end returns an error if the content does
// not match.
type ChannelTransport struct {
	client *Client
	next   http.RoundTripper
}

// NewChannelTransport returns a transport that reads registries with client, and sends requests for all other
// URLs to next.
func NewChannelTransport(client *Client, next http.RoundTripper) *ChannelTransport {
	return &ChannelTransport{client: client, next: next}
}

// RoundTrip implements http.RoundTripper.
func (t *ChannelTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != ChannelScheme {
		return t.next.RoundTrip(req)
	}
	if req.Body != nil {
		_ = req.Body.Close() // required of a RoundTripper
	}
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		return nil, errors.New("channels in registries are read-only")
	}
	resp, err := t.file(req)
	if err == nil {
		return resp, nil
	}
	f, ok := fault.As(err)
	if !ok {
		return nil, err
	}
	// Callers handle the status codes of channels: they know which of them to retry, and when.
	switch f.Kind {
	case fault.NotFound:
		return respond(req, http.StatusNotFound), nil
	case fault.Unauthenticated:
		return respond(req, http.StatusUnauthorized), nil
	case fault.Denied:
		return respond(req, http.StatusForbidden), nil
	case fault.Exhausted, fault.Unavailable:
		code := http.StatusServiceUnavailable
		if f.Kind == fault.Exhausted {
			code = http.StatusTooManyRequests
		}
		resp := respond(req, code)
		if f.RetryAfter > 0 {
			resp.Header.Set("Retry-After", strconv.Itoa(int((f.RetryAfter+time.Second-1)/time.Second)))
		}
		return resp, nil
	default:
		return nil, err
	}
}

// file returns the response for a file of a channel.
func (t *ChannelTransport) file(req *http.Request) (*http.Response, error) {
	file, ok := parseChannelFile(req.URL)
	if !ok {
		return respond(req, http.StatusNotFound), nil
	}
	access := Access{Scope: "channel"}
	access.Login.Username, access.Login.Password, _ = req.BasicAuth()
	ctx, done := t.client.Hold(req.Context())
	defer done()
	doc, err := t.client.Manifest(ctx, file.repo, file.tag, access)
	if err != nil {
		return nil, err
	}
	if !oci.IsManifest(doc.MediaType) {
		return respond(req, http.StatusNotFound), nil
	}
	m, err := oci.ParseManifest(doc)
	if err != nil {
		return nil, unexpected(file.repo.Host, err)
	}
	layer, ok := file.layer(m)
	if !ok {
		return respond(req, http.StatusNotFound), nil
	}
	if layer.Size <= 0 || len(layer.URLs) > 0 {
		return nil, unexpected(file.repo.Host, errors.New("the manifest of "+file.repo.Name+" has a layer without a size, or outside of the registry"))
	}
	etag := strconv.Quote(layer.Digest.String())
	if req.Header.Get("If-None-Match") == etag {
		return respond(req, http.StatusNotModified), nil
	}
	if req.Method == http.MethodHead {
		return respond(req, http.StatusOK), nil
	}
	blob, err := t.client.ReadBlob(req.Context(), file.repo, layer.Digest, access, 0, layer.Size)
	if err != nil {
		return nil, err
	}
	resp := respond(req, http.StatusOK)
	resp.Body, resp.ContentLength = &verifiedBlob{ReadCloser: blob, want: layer.Digest, seen: layer.Digest.Verifier(), left: layer.Size}, layer.Size
	if layer.MediaType == typeRepodataGzip {
		resp.Body, resp.ContentLength = &gunzipped{packed: sentBody{ReadCloser: resp.Body}}, -1
	}
	// Packages have no ETag, so that callers never request a part of one: the client of the
	// registry itself resumes an interrupted read.
	if file.list {
		resp.Header.Set("Etag", etag)
	}
	return resp, nil
}

// respond returns a response without a body.
func respond(req *http.Request, code int) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req,
	}
}

// A channelFile is a file of a channel as a registry stores it.
type channelFile struct {
	repo Repository
	tag  string
	// types are the media types of layers with the file, the preferred one first.
	types []string
	// list reports whether the file is a package list.
	list bool
}

// layer returns the layer of a manifest that has the file.
func (f channelFile) layer(m ocispec.Manifest) (ocispec.Descriptor, bool) {
	for _, mediaType := range f.types {
		if i := slices.IndexFunc(m.Layers, func(l ocispec.Descriptor) bool { return l.MediaType == mediaType }); i >= 0 {
			return m.Layers[i], true
		}
	}
	return ocispec.Descriptor{}, false
}

// parseChannelFile returns the repository and the tag of a file with the URL
// oci://HOST/PATH/SUBDIR/FILE. It returns false for files that channels in registries do not
// have, and for names that are invalid in registries.
func parseChannelFile(u *url.URL) (channelFile, bool) {
	if u.Scheme != ChannelScheme || u.Host == "" || u.User != nil || u.Opaque != "" || u.RawQuery != "" || u.Fragment != "" || len(u.Path) > limits.URL ||
		strings.Contains(strings.ToLower(u.RawPath), "%2f") {
		return channelFile{}, false
	}
	folder, file := path.Split(strings.TrimPrefix(u.Path, "/"))
	folder = strings.TrimSuffix(folder, "/")
	if parent := path.Dir(folder); parent == "." || parent == "/" {
		return channelFile{}, false // a channel without a path
	}
	var f channelFile
	switch file {
	case "repodata.json.zst":
		f = channelFile{Repository{u.Host, folder + "/repodata.json"}, "latest", []string{typeRepodataZstd}, true}
	case "repodata.json":
		f = channelFile{Repository{u.Host, folder + "/repodata.json"}, "latest", []string{typeRepodata, typeRepodataGzip}, true}
	default:
		stem, mediaType := strings.TrimSuffix(file, ".conda"), typePackage
		if stem == file {
			stem, mediaType = strings.TrimSuffix(file, ".tar.bz2"), typePackageOld
		}
		name, tag, ok := packageReference(stem)
		if stem == file || !ok {
			return channelFile{}, false
		}
		f = channelFile{Repository{u.Host, folder + "/" + name}, tag, []string{mediaType}, false}
	}
	ref, err := oci.ParseReference(f.repo.Host + "/" + f.repo.Name + ":" + f.tag)
	if err != nil || ref.Registry != f.repo.Host || ref.Repository != f.repo.Name || ref.Tag != f.tag {
		return channelFile{}, false
	}
	return f, true
}

// packageReference returns the last component of the repository and the tag of a package with a file name
// NAME-VERSION-BUILD, without its extension. Only NAME may contain dashes.
func packageReference(stem string) (name, tag string, ok bool) {
	i := strings.LastIndexByte(stem, '-')
	if i < 0 {
		return "", "", false
	}
	j := strings.LastIndexByte(stem[:i], '-')
	if j <= 0 || j+1 == i || i+1 == len(stem) {
		return "", "", false
	}
	name, tag = stem[:j], stem[j+1:]
	if strings.ContainsAny(name, "/:@") {
		return "", "", false
	}
	if strings.HasPrefix(name, "_") { // the names of repositories begin with a letter or a digit
		name = "zzz" + name
	}
	return name, strings.NewReplacer("+", "__p__", "!", "__e__", "=", "__eq__").Replace(tag), true
}

// A verifiedBlob reads a blob, and returns an error at its end unless the content has the expected digest and
// size.
type verifiedBlob struct {
	io.ReadCloser
	want digest.Digest
	seen digest.Verifier
	left int64
}

// Read implements io.Reader.
func (v *verifiedBlob) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.left -= int64(n)
	_, _ = v.seen.Write(p[:n]) // never fails
	if v.left < 0 || errors.Is(err, io.EOF) && (v.left > 0 || !v.seen.Verified()) {
		return 0, fault.Unavailable.Newf("The registry sent content that does not have the digest %s", v.want)
	}
	return n, err
}

// A gunzipped is the decompressed content of a gzip stream, which is opened by the first Read.
// The compression ratio is limited here, because the caller knows and limits only the
// decompressed length.
type gunzipped struct {
	packed sentBody
	plain  *gzip.Reader
	size   int64
}

// A sentBody counts the bytes that are read from a body.
type sentBody struct {
	io.ReadCloser
	read int64
}

// Read implements io.Reader.
func (s *sentBody) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.read += int64(n)
	return n, err
}

// Read implements io.Reader.
func (g *gunzipped) Read(p []byte) (int, error) {
	if g.plain == nil {
		plain, err := gzip.NewReader(&g.packed)
		if err != nil {
			return 0, err
		}
		g.plain = plain
	}
	n, err := g.plain.Read(p)
	if g.size += int64(n); g.size > limits.ChannelInflated+limits.ChannelRatio*g.packed.read {
		return 0, fault.Unavailable.Newf("The channel's list of packages expands to more than %d times its download size", limits.ChannelRatio)
	}
	if errors.Is(err, io.EOF) { // the content is verified at its end
		if _, err := io.Copy(io.Discard, &g.packed); err != nil {
			return n, err
		}
	}
	return n, err
}

// Close closes the compressed stream.
func (g *gunzipped) Close() error { return g.packed.Close() }
