package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/limits"
)

// Blob is an answer to a blob request. Exactly one of Body and Redirect is set;
// the caller closes Body.
type Blob struct {
	// Status is 200, or 206 with ContentRange.
	Status       int
	ContentRange string
	// Size is the length of Body in bytes; -1 when the registry did not say.
	Size int64
	// Body is the content, not verified. An upstream connection that breaks is
	// taken up again where it ended. Empty for HEAD.
	Body io.ReadCloser
	// Redirect is where else the content is; whoever reads it needs no login
	// there. It is https (or http, for a plain registry) at a host to which clients
	// may be sent.
	Redirect *url.URL
}

// Blob asks for a blob, or with rangeHeader ("bytes=…") for a part of it.
func (c *Client) Blob(ctx context.Context, method string, repo Repository, d digest.Digest, a Access, rangeHeader string) (*Blob, error) {
	resp, err := c.blob(ctx, method, repo, d, a, rangeHeader)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		target, err := resp.Location()
		drain(resp)
		if err != nil {
			return nil, unexpected(repo.Host, err)
		}
		if target, err = c.passable(ctx, repo, target); err != nil {
			return nil, err
		}
		return &Blob{Redirect: target}, nil
	}
	b := &Blob{Status: resp.StatusCode, ContentRange: resp.Header.Get("Content-Range"), Size: resp.ContentLength}
	b.Body = resp.Body
	if method == http.MethodGet && b.Size >= 0 {
		b.Body = &resuming{
			ctx: ctx, body: resp.Body, at: rangeStart(b.ContentRange), left: b.Size,
			again: func(at, left int64) (io.ReadCloser, error) {
				return c.rest(ctx, repo, d, a, at, left)
			},
		}
	}
	return b, nil
}

// blob goes along with redirects that stay at the registry, where a client
// could not log in itself.
func (c *Client) blob(ctx context.Context, method string, repo Repository, d digest.Digest, a Access, rangeHeader string) (*http.Response, error) {
	var header http.Header
	if rangeHeader != "" {
		header = http.Header{"Range": {rangeHeader}}
	}
	var conn *patientConn
	ctx = noteConn(ctx, &conn)
	resp, err := c.get(ctx, method, "blob", repo, "/blobs/"+d.String(), a, header)
	for hop := 0; err == nil && resp.StatusCode >= 300 && hop < limits.Redirects; hop++ {
		target := ownLocation(resp)
		if target == nil {
			break
		}
		drain(resp)
		resp, err = c.authorized(ctx, method, target.String(), tokenKey{repo, a}, header)
		if err != nil {
			return nil, a.Explain(unreachable(repo.Host, err))
		}
		resp, err = c.checked(repo.Host, "blob", resp)
		err = a.Explain(err)
	}
	if err == nil {
		wire(resp, conn)
	}
	return resp, err
}

// ownLocation is where a registry redirects to within itself; nil for anywhere
// else.
func ownLocation(resp *http.Response) *url.URL {
	target, err := resp.Location()
	if err != nil || target.Host != resp.Request.URL.Host || target.Scheme != resp.Request.URL.Scheme {
		return nil
	}
	return target
}

// rest asks for left bytes from at on.
func (c *Client) rest(ctx context.Context, repo Repository, d digest.Digest, a Access, at, left int64) (io.ReadCloser, error) {
	resp, err := c.blob(ctx, http.MethodGet, repo, d, a, fmt.Sprintf("bytes=%d-%d", at, at+left-1))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusPartialContent || rangeStart(resp.Header.Get("Content-Range")) != at {
		drain(resp)
		return nil, unexpected(repo.Host, errElsewhere)
	}
	return resp.Body, nil
}

// rangeStart reads "bytes 5-9/10" as 5; 0 where nothing is stated.
func rangeStart(contentRange string) int64 {
	first, _, _ := strings.Cut(strings.TrimPrefix(contentRange, "bytes "), "-")
	n, _ := strconv.ParseInt(first, 10, 64)
	return n
}

// ReadBlob begins to read a part of a blob, wherever the registry keeps it; length
// is at least 1. The bytes are not verified; the caller closes.
func (c *Client) ReadBlob(ctx context.Context, repo Repository, d digest.Digest, a Access, from, length int64) (io.ReadCloser, error) {
	part := fmt.Sprintf("bytes=%d-%d", from, from+length-1)
	b, err := c.Blob(ctx, http.MethodGet, repo, d, a, part)
	if err != nil {
		return nil, err
	}
	status, rng := b.Status, b.ContentRange
	for hop := 0; b.Redirect != nil; hop++ {
		if hop == limits.Redirects {
			return nil, unexpected(repo.Host, errors.New("it redirects too often"))
		}
		resp, err := c.follow(ctx, repo, b.Redirect, http.Header{"Range": {part}})
		if err != nil {
			return nil, err
		}
		b = &Blob{Body: resp.Body}
		if resp.StatusCode >= 300 {
			if b.Redirect, err = resp.Location(); err != nil {
				return nil, unexpected(repo.Host, err)
			}
			drain(resp)
		}
		status, rng = resp.StatusCode, resp.Header.Get("Content-Range")
	}
	if status == http.StatusPartialContent && rangeStart(rng) == from || status == http.StatusOK && from == 0 {
		return b.Body, nil
	}
	_ = b.Body.Close()
	return nil, unexpected(repo.Host, errors.New("it does not answer the part that was asked for"))
}
