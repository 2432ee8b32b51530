package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// A Mirror is a copy of another registry that an operator provides. It is used without a
// login, because logins are only sent to the host that they are configured for.
type Mirror struct {
	// Registry is the mirrored registry as in image names, e.g. "docker.io".
	Registry string
	// Host is the mirror's host. Path is the prefix of repositories there, or "".
	Host, Path string
}

// String returns the mirror as in the configuration, e.g. "mirror.example.org/dockerhub".
func (m Mirror) String() string {
	if m.Path == "" {
		return m.Host
	}
	return m.Host + "/" + m.Path
}

// repository matches the path of a repository.
const repository = `[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*`

var (
	hostForm = regexp.MustCompile(`^(localhost|[a-z0-9-]+(\.[a-z0-9-]+)+|\[[0-9a-f:]+\]|[a-z0-9-]+:[0-9]+)(:[0-9]+)?$`)
	pathForm = regexp.MustCompile(`^` + repository + `$`)
	// contentForm matches the path of a manifest, by tag or digest, or of a blob
	// (distribution specification, pull).
	contentForm = regexp.MustCompile(`^/v2/(` + repository + `)(/manifests/[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|/(?:manifests|blobs)/[a-z0-9]+(?:[+._-][a-z0-9]+)*:[A-Za-z0-9=_-]{1,256})$`)
)

// ParseMirrors parses a setting such as "docker.io=mirror.example.org/dockerhub". The
// mirrors of a registry are tried in order.
func ParseMirrors(values []string) ([]Mirror, error) {
	var out []Mirror
	for _, v := range values {
		registry, at, _ := strings.Cut(strings.TrimSpace(v), "=")
		host, path, _ := strings.Cut(strings.TrimSuffix(at, "/"), "/")
		m := Mirror{oci.CanonicalHost(registry), host, path}
		if !hostForm.MatchString(registry) || !hostForm.MatchString(host) || path != "" && !pathForm.MatchString(path) {
			return nil, fmt.Errorf("%q is not REGISTRY=HOST or REGISTRY=HOST/PATH, e.g. docker.io=mirror.example.org/dockerhub", v)
		}
		if oci.SameHost(m.Registry, host) && path == "" {
			return nil, fmt.Errorf("%q makes a registry its own mirror", v)
		}
		out = append(out, m)
	}
	return out, nil
}

// A mirroredTransport sends requests for content to mirrors first, and to the registry if
// the mirrors lack the content or are unavailable. Other requests are sent to the registry
// only.
type mirroredTransport struct {
	http.RoundTripper
	// client sends requests to mirrors. It has no mirrors and no logins.
	client *Client
	// of are the mirrors by the address of their registry.
	of map[string][]*mirror
}

type mirror struct {
	Mirror
	// retryAt is the time until which an unavailable mirror is skipped, in nanoseconds
	// since the epoch.
	retryAt atomic.Int64
}

// withMirrors adds the configured mirrors to a transport.
func withMirrors(o Options, t http.RoundTripper, docs *Documents) http.RoundTripper {
	if len(o.Mirrors) == 0 {
		return t
	}
	out := &mirroredTransport{RoundTripper: t, client: bare(o, t, docs), of: map[string][]*mirror{}}
	for _, m := range o.Mirrors {
		out.of[Host(m.Registry)] = append(out.of[Host(m.Registry)], &mirror{Mirror: m})
	}
	return out
}

// RoundTrip implements http.RoundTripper.
func (t *mirroredTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	name, path := content(r)
	if name == "" {
		return t.RoundTripper.RoundTrip(r)
	}
	for _, m := range t.of[r.URL.Host] {
		if time.Now().UnixNano() < m.retryAt.Load() {
			continue
		}
		resp, unavailable := t.try(r, m.Mirror, name, path)
		if resp != nil {
			return resp, nil
		}
		if unavailable && r.Context().Err() == nil {
			m.retryAt.Store(time.Now().Add(limits.MirrorBackoff).UnixNano())
		}
	}
	return t.RoundTripper.RoundTrip(r)
}

// content returns the repository and the rest of the path of a request for a manifest or a
// blob, and "" for other requests. The transport also gets URLs that users named, and only
// valid paths of registries may be sent to a mirror.
func content(r *http.Request) (name, path string) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || r.URL.RawQuery != "" || r.URL.RawPath != "" {
		return "", ""
	}
	found := contentForm.FindStringSubmatch(r.URL.Path)
	if found == nil {
		return "", ""
	}
	return found[1], found[2]
}

// try sends a request to a mirror. The response is nil if the mirror lacks the content or
// is unavailable.
func (t *mirroredTransport) try(r *http.Request, m Mirror, name, path string) (_ *http.Response, unavailable bool) {
	repo := Repository{Host: m.Host, Name: strings.TrimPrefix(m.Path+"/"+name, "/")}
	header := r.Header.Clone()
	header.Del("Authorization") // it is for the registry
	header.Del("Cookie")
	resp, err := t.client.authorized(r.Context(), r.Method, t.client.BaseURL(m.Host)+"/v2/"+repo.Name+path, tokenKey{repo: repo}, header)
	for hop := 0; err == nil && isRedirect(resp) && hop < limits.Redirects; hop++ {
		target := ownLocation(resp)
		if target == nil {
			break
		}
		drain(resp)
		resp, err = t.client.authorized(r.Context(), r.Method, target.String(), tokenKey{repo: repo}, header)
	}
	if status := (*statusError)(nil); errors.As(err, &status) { // of its token service
		return nil, busy(status.code)
	}
	if err != nil {
		return nil, true
	}
	if !t.serves(r.Context(), resp, repo) {
		drain(resp)
		return nil, busy(resp.StatusCode)
	}
	resp.Request = r
	return resp, false
}

// serves reports whether a response is content, or a redirect to it that a client may
// follow. The target of a redirect is made absolute, because it is relative to the mirror.
func (t *mirroredTransport) serves(ctx context.Context, resp *http.Response, repo Repository) bool {
	if !isRedirect(resp) {
		return resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent
	}
	target, err := resp.Location()
	if err != nil || target.Scheme != "https" {
		return false
	}
	if target, err = t.client.passable(ctx, repo, target); err != nil {
		return false
	}
	resp.Header.Set("Location", target.String())
	return target.Host != resp.Request.URL.Host
}

func isRedirect(resp *http.Response) bool { return resp.StatusCode >= 300 && resp.StatusCode < 400 }
