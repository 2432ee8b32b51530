package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// Referrers returns the manifests that refer to a manifest, from the referrers API or, if the
// registry has none, from the fallback tag. It returns fault.Invalid instead of an incomplete list.
func (c *Client) Referrers(ctx context.Context, repo Repository, d digest.Digest, a Access) ([]ocispec.Descriptor, error) {
	var out []ocispec.Descriptor
	path := "/referrers/" + d.String()
	for range limits.ReferrerPages {
		page, next, err := c.referrers(ctx, repo, path, a)
		if len(out) == 0 && lacksReferrers(err) {
			return c.fallbackReferrers(ctx, repo, d, a)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, page...)
		if next == "" && len(out) <= limits.Referrers {
			return out, nil
		}
		path = next
	}
	return nil, fault.Invalid.Newf("%s has more than %d referrers or %d pages of them", d, limits.Referrers, limits.ReferrerPages)
}

// referrers returns one page of a list, and the path of the next one.
func (c *Client) referrers(ctx context.Context, repo Repository, path string, a Access) (page []ocispec.Descriptor, next string, err error) {
	resp, err := c.get(ctx, http.MethodGet, "referrers", repo, path, a, accept(ocispec.MediaTypeImageIndex))
	if err != nil {
		return nil, "", err
	}
	defer drain(resp)
	raw, release, err := c.read(ctx, repo, resp)
	if err != nil {
		return nil, "", err
	}
	defer release()
	index, err := oci.ParseIndex(oci.NewDocument(ocispec.MediaTypeImageIndex, slices.Clone(raw)))
	if err != nil {
		return nil, "", err
	}
	next, err = nextPage(repo, resp)
	return index.Manifests, next, err
}

var linkNext = regexp.MustCompile(`<([^>]*)>\s*;\s*rel="?next"?`)

// nextPage returns the path of the next page in the Link header, within the referrers of the
// repository; "" for none.
func nextPage(repo Repository, resp *http.Response) (string, error) {
	link := linkNext.FindStringSubmatch(resp.Header.Get("Link"))
	if link == nil {
		return "", nil
	}
	target, err := url.Parse(link[1])
	if err != nil {
		return "", unexpected(repo.Host, fmt.Errorf("malformed Link: %w", err))
	}
	target = resp.Request.URL.ResolveReference(target)
	path, ok := strings.CutPrefix(target.EscapedPath(), "/v2/"+repo.Name)
	if !ok || !strings.HasPrefix(path, "/referrers/") || target.Host != resp.Request.URL.Host || len(target.RawQuery) > limits.RedirectURL {
		return "", unexpected(repo.Host, errors.New("the next page of referrers is elsewhere"))
	}
	return path + "?" + target.RawQuery, nil
}

// lacksReferrers reports whether a registry has no referrers API.
func lacksReferrers(err error) bool {
	var st *statusError
	return errors.As(err, &st) && slices.Contains([]int{http.StatusNotFound, http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotImplemented}, st.code)
}

// fallbackReferrers returns the list of the tag that clients maintain if a registry has no
// referrers API.
func (c *Client) fallbackReferrers(ctx context.Context, repo Repository, d digest.Digest, a Access) ([]ocispec.Descriptor, error) {
	doc, err := c.Manifest(ctx, repo, d.Algorithm().String()+"-"+d.Encoded(), a)
	if errors.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !oci.IsIndex(doc.MediaType) {
		return nil, nil // a tag of the same form with another purpose
	}
	index, err := oci.ParseIndex(doc)
	if err == nil && len(index.Manifests) > limits.Referrers {
		err = fault.Invalid.Newf("%s has more than %d referrers", d, limits.Referrers)
	}
	return index.Manifests, err
}
