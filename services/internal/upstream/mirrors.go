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

// Mirror is where an operator has what is at another registry. It is asked without a
// login: none is for a host that it was not given for.
type Mirror struct {
	// Registry is what is mirrored, as image names have it, e.g. "docker.io".
	Registry string
	// Host is the mirror's; Path stands before the paths of repositories there, "" for
	// nothing.
	Host, Path string
}

// String is the mirror as configurations have it, e.g. "mirror.example.org/dockerhub".
func (m Mirror) String() string {
	if m.Path == "" {
		return m.Host
	}
	return m.Host + "/" + m.Path
}

// repository is how a path of a repository is written.
const repository = `[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*`

var (
	hostForm = regexp.MustCompile(`^(localhost|[a-z0-9-]+(\.[a-z0-9-]+)+|\[[0-9a-f:]+\]|[a-z0-9-]+:[0-9]+)(:[0-9]+)?$`)
	pathForm = regexp.MustCompile(`^` + repository + `$`)
	// contentForm is the path of a manifest, by tag or digest, or of a blob (distribution
	// specification, pull).
	contentForm = regexp.MustCompile(`^/v2/(` + repository + `)(/manifests/[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|/(?:manifests|blobs)/[a-z0-9]+(?:[+._-][a-z0-9]+)*:[A-Za-z0-9=_-]{1,256})$`)
)

// ParseMirrors reads mirrors as an operator writes them, "docker.io=mirror.example.org/dockerhub".
// Those of one registry are asked in order.
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

// mirrored asks mirrors for what is read, and the registry itself for what they lack,
// and while they are away. What is written goes to the registry alone.
type mirrored struct {
	http.RoundTripper
	// client asks them. It has no mirrors, and is given no login.
	client *Client
	// of are the mirrors by the host at which their registry is reached.
	of map[string][]*mirror
}

type mirror struct {
	Mirror
	// back is when one that was away is asked again, in nanoseconds since the epoch.
	back atomic.Int64
}

// withMirrors puts the mirrors of the settings before a transport.
func withMirrors(o Options, t http.RoundTripper, docs *Documents) http.RoundTripper {
	if len(o.Mirrors) == 0 {
		return t
	}
	out := &mirrored{RoundTripper: t, client: bare(o, t, docs), of: map[string][]*mirror{}}
	for _, m := range o.Mirrors {
		out.of[Host(m.Registry)] = append(out.of[Host(m.Registry)], &mirror{Mirror: m})
	}
	return out
}

// RoundTrip implements http.RoundTripper.
func (t *mirrored) RoundTrip(r *http.Request) (*http.Response, error) {
	name, path := content(r)
	if name == "" {
		return t.RoundTripper.RoundTrip(r)
	}
	for _, m := range t.of[r.URL.Host] {
		if time.Now().UnixNano() < m.back.Load() {
			continue
		}
		resp, away := t.ask(r, m.Mirror, name, path)
		if resp != nil {
			return resp, nil
		}
		if away && r.Context().Err() == nil {
			m.back.Store(time.Now().Add(limits.MirrorAway).UnixNano())
		}
	}
	return t.RoundTripper.RoundTrip(r)
}

// content is the repository and the rest of the path of a request that reads a manifest
// or a blob; "" for any other. URLs that strangers name come by here too: what no registry
// has is no business of a mirror's.
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

// ask asks a mirror; nil where it lacks the content, or is away.
func (t *mirrored) ask(r *http.Request, m Mirror, name, path string) (_ *http.Response, away bool) {
	repo := Repository{Host: m.Host, Name: strings.TrimPrefix(m.Path+"/"+name, "/")}
	header := r.Header.Clone()
	header.Del("Authorization") // the registry's own
	header.Del("Cookie")
	resp, err := t.client.authorized(r.Context(), r.Method, t.client.BaseURL(m.Host)+"/v2/"+repo.Name+path, tokenKey{repo, Access{}}, header)
	for hop := 0; err == nil && isRedirect(resp) && hop < limits.Redirects; hop++ {
		target := ownLocation(resp)
		if target == nil {
			break
		}
		drain(resp)
		resp, err = t.client.authorized(r.Context(), r.Method, target.String(), tokenKey{repo, Access{}}, header)
	}
	if refusal := (*statusError)(nil); errors.As(err, &refusal) { // its token service's
		return nil, busy(refusal.code)
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

// serves says whether an answer is content, or leads to it where a client may be sent; then
// its address is made whole, since it is another's than that of the request.
func (t *mirrored) serves(ctx context.Context, resp *http.Response, repo Repository) bool {
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
