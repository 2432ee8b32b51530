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

// A Blob is the response to a blob request. Exactly one of Body and Redirect is set. The
// caller must close Body.
type Blob struct {
	// Status is 200, or 206 with ContentRange.
	Status       int
	ContentRange string
	// Size is the length of Body in bytes, or -1 if the registry did not state it.
	Size int64
	// Body is the content, which is not verified. If its connection breaks, reading
	// continues with another request. It is empty for HEAD.
	Body io.ReadCloser
	// Redirect is a URL of the content that needs no login. It is https (or http for a
	// plain registry), and its host is one that clients may be redirected to.
	Redirect *url.URL
}

// Blob requests a blob, or the part of it in rangeHeader ("bytes=…").
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
		b.Body = &resumingReader{
			ctx: ctx, body: resp.Body, at: rangeStart(b.ContentRange), left: b.Size,
			reopen: func(at, left int64) (io.ReadCloser, error) {
				return c.rest(ctx, repo, d, a, at, left)
			},
		}
	}
	return b, nil
}

// blob sends a blob request. It follows redirects within the registry, because a client
// could not log in there.
func (c *Client) blob(ctx context.Context, method string, repo Repository, d digest.Digest, a Access, rangeHeader string) (*http.Response, error) {
	var header http.Header
	if rangeHeader != "" {
		header = http.Header{"Range": {rangeHeader}}
	}
	var conn *stallConn
	ctx = noteConn(ctx, &conn)
	resp, err := c.get(ctx, method, "blob", repo, "/blobs/"+d.String(), a, header)
	for hop := 0; err == nil && resp.StatusCode >= 300 && hop < limits.Redirects; hop++ {
		target := ownLocation(resp)
		if target == nil {
			break
		}
		drain(resp)
		resp, err = c.authorized(ctx, method, target.String(), tokenKey{repo: repo, access: a}, header)
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

// ownLocation returns the target of a redirect within the registry, or nil for other targets.
func ownLocation(resp *http.Response) *url.URL {
	target, err := resp.Location()
	if err != nil || target.Host != resp.Request.URL.Host || target.Scheme != resp.Request.URL.Scheme {
		return nil
	}
	return target
}

// rest requests left bytes that start at at.
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

// rangeStart returns the first offset of a Content-Range ("bytes 5-9/10" is 5), or 0 if it
// is empty.
func rangeStart(contentRange string) int64 {
	first, _, _ := strings.Cut(strings.TrimPrefix(contentRange, "bytes "), "-")
	n, _ := strconv.ParseInt(first, 10, 64)
	return n
}

// ReadBlob opens a part of a blob, following redirects. length must be at least 1. If the
// connection breaks, reading continues with another request. The content is not verified. The
// caller must close the reader.
func (c *Client) ReadBlob(ctx context.Context, repo Repository, d digest.Digest, a Access, from, length int64) (io.ReadCloser, error) {
	b, err := c.openPart(ctx, repo, d, a, from, length)
	if err != nil || b.Size <= 0 {
		return body(b), err
	}
	if _, ok := b.Body.(*resumingReader); ok {
		return b.Body, nil
	}
	return &resumingReader{ctx: ctx, body: b.Body, at: from, left: b.Size, reopen: func(at, left int64) (io.ReadCloser, error) {
		// The address that the registry redirected to may have expired.
		b, err := c.openPart(ctx, repo, d, a, at, left)
		return body(b), err
	}}, nil
}

// body returns the body of a blob, and nil for nil.
func body(b *Blob) io.ReadCloser {
	if b == nil {
		return nil
	}
	return b.Body
}

// openPart requests a part of a blob, following redirects. A redirected response is not resumed.
func (c *Client) openPart(ctx context.Context, repo Repository, d digest.Digest, a Access, from, length int64) (*Blob, error) {
	part := fmt.Sprintf("bytes=%d-%d", from, from+length-1)
	b, err := c.Blob(ctx, http.MethodGet, repo, d, a, part)
	if err != nil {
		return nil, err
	}
	for hop := 0; b.Redirect != nil; hop++ {
		if hop == limits.Redirects {
			return nil, unexpected(repo.Host, errors.New("it redirects too often"))
		}
		resp, err := c.follow(ctx, repo, b.Redirect, http.Header{"Range": {part}})
		if err != nil {
			return nil, err
		}
		b = &Blob{Status: resp.StatusCode, ContentRange: resp.Header.Get("Content-Range"), Size: resp.ContentLength, Body: resp.Body}
		if resp.StatusCode >= 300 {
			if b.Redirect, err = resp.Location(); err != nil {
				return nil, unexpected(repo.Host, err)
			}
			drain(resp)
		}
	}
	if b.Status == http.StatusPartialContent && rangeStart(b.ContentRange) == from || b.Status == http.StatusOK && from == 0 {
		return b, nil
	}
	_ = b.Body.Close()
	return nil, unexpected(repo.Host, errors.New("it does not return the requested range"))
}
