package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/oci"
)

// An Upload is an unfinished blob at a registry. Registries keep it for some time, so that another
// process can continue it (distribution specification, "Pushing a blob in chunks").
type Upload struct {
	client *Client
	repo   Repository
	access Access
	// Location is the address of the upload at the registry: path and query. It changes with
	// each request.
	Location string
	// Size is the number of bytes that the registry has.
	Size int64
	// open states that the registry has accepted a request without a login.
	open bool
}

// ErrUploadAddress is returned for an upload whose address is not one of the repository's uploads at
// the registry, or is longer than limits.UploadAddress. Nothing is sent there.
var ErrUploadAddress = errors.New("the registry names an address for uploads that is not used")

// StartUpload begins the upload of a blob. It may return ErrUploadAddress.
func (c *Client) StartUpload(ctx context.Context, repo Repository, a Access) (*Upload, error) {
	u := &Upload{client: c, repo: repo, access: a, Location: "/v2/" + repo.Name + "/blobs/uploads/"}
	resp, err := u.request(ctx, http.MethodPost, u.Location)
	if err != nil {
		return nil, err
	}
	return u, u.moved(resp)
}

// ContinueUpload returns an upload that was begun earlier, with its size at the registry. It
// returns fault.NotFound if the registry cannot continue the upload, and ErrUploadAddress. After
// other errors another try may succeed.
func (c *Client) ContinueUpload(ctx context.Context, repo Repository, a Access, location string) (*Upload, error) {
	u := &Upload{client: c, repo: repo, access: a, Location: location}
	if !u.isOwn(location) {
		return nil, ErrUploadAddress
	}
	err := u.status(ctx)
	if err != nil && ctx.Err() == nil && isLasting(err) {
		err = fault.NotFound.New("The registry "+repo.Host+" does not continue the upload of a blob", err)
	}
	return u, err
}

// errNoSize is the cause of the error for a response that does not state the size of an upload.
var errNoSize = errors.New("it does not state the size of an upload")

// isLasting reports whether the response to a request would be the same later.
func isLasting(err error) bool {
	if st, ok := errors.AsType[*statusError](err); ok {
		switch st.code {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return false
		}
		return true
	}
	return errors.Is(err, errNoSize)
}

// isOwn reports whether an address, path and query, is one of an upload to the repository. Others
// are not used, since the login may be valid for more than this repository.
func (u *Upload) isOwn(location string) bool {
	p, _, _ := strings.Cut(location, "?")
	return len(location) <= limits.UploadAddress && path.Clean(p) == strings.TrimSuffix(p, "/") && !strings.Contains(p, "%") &&
		strings.HasPrefix(p, "/v2/"+u.repo.Name+"/blobs/uploads/")
}

// status requests the size of the upload.
func (u *Upload) status(ctx context.Context) error {
	resp, err := u.request(ctx, http.MethodGet, u.Location)
	if err != nil {
		return err
	}
	first, last, _ := strings.Cut(strings.TrimPrefix(resp.Header.Get("Range"), "bytes="), "-")
	n, err := strconv.ParseInt(last, 10, 64)
	if err != nil || first != "0" || n < -1 || n == math.MaxInt64 || resp.StatusCode != http.StatusNoContent {
		return unexpected(u.repo.Host, fmt.Errorf("%w: status %d, range %.50q", errNoSize, resp.StatusCode, resp.Header.Get("Range")))
	}
	if u.Size = n + 1; n == 0 { // registries respond with 0-0 or 0--1 for an upload without a byte
		u.Size = 0
	}
	return u.moved(resp)
}

// checked converts responses without a 2xx status to faults. It returns fault.NotFound for statuses
// that are for the request rather than for the login or the moment: registries use different ones
// for an upload that they do not have, that has another size, or whose digest is another one. It
// returns ErrUploadAddress for redirects.
func (u *Upload) checked(resp *http.Response) (*http.Response, error) {
	switch status := resp.StatusCode; status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests:
	default:
		if status/100 != 4 && status != http.StatusNotImplemented {
			break
		}
		u.client.metrics.answered(u.repo.Host, "upload", status)
		drain(resp)
		return nil, fault.NotFound.New(fmt.Sprintf("The registry %s refuses the upload of a blob (status %d)", u.repo.Host, status), &statusError{host: u.repo.Host, code: status})
	}
	resp, err := u.client.checked(u.repo.Host, "upload", resp)
	if err != nil {
		return nil, u.access.Explain(err)
	}
	drain(resp)
	if resp.StatusCode >= 300 {
		return nil, ErrUploadAddress
	}
	return resp, nil
}

// A gate is the body of a request, which the transport may read after it has the response.
type gate struct {
	mu sync.Mutex
	in io.Reader // nil when shut
}

// Read implements io.Reader.
func (g *gate) Read(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.in == nil {
		return 0, io.ErrClosedPipe
	}
	return g.in.Read(p)
}

// shut waits for the last Read.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.in = nil
}

// Append sends n bytes. If it fails, the registry may have got a part of them. content is not read
// after Append has returned.
func (u *Upload) Append(ctx context.Context, content io.Reader, n int64) error {
	key := tokenKey{repo: u.repo, access: u.access, push: true}
	if u.client.auth.header(key) == "" && !u.open { // content can be sent once, and so not before a challenge
		before := u.Size
		if err := u.status(ctx); err != nil {
			return err
		}
		if u.Size != before {
			return fault.NotFound.New("The upload of a blob was continued by another request", nil)
		}
	}
	body := &gate{in: content}
	defer body.shut()
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, u.url(u.Location), body)
	if err != nil {
		return err
	}
	req.ContentLength = n
	req.Header.Set("Content-Type", "application/octet-stream")
	if u.Size > 0 { // some registries accept a first part without a range only
		req.Header.Set("Content-Range", fmt.Sprintf("%d-%d", u.Size, u.Size+n-1))
	}
	if auth := u.client.auth.header(key); auth != "" {
		req.Header.Set("Authorization", auth)
	}
	defer u.client.metrics.observe(u.repo.Host, "upload", time.Now())
	resp, err := u.client.send(req)
	if err != nil {
		u.client.metrics.failed(u.repo.Host, "upload")
		return unreachable(u.repo.Host, err)
	}
	if resp.StatusCode == http.StatusUnauthorized { // the token is no longer valid
		u.client.auth.cache.Delete(key)
		drain(resp)
		return unexpected(u.repo.Host, &statusError{host: u.repo.Host, code: resp.StatusCode})
	}
	if resp, err = u.checked(resp); err != nil {
		return err
	}
	u.Size += n
	return u.moved(resp)
}

// Commit makes the upload a blob. The registry verifies its digest.
func (u *Upload) Commit(ctx context.Context, d digest.Digest) error {
	_, err := u.commit(ctx, url.Values{"digest": {d.String()}})
	return err
}

// CommitComposition makes the upload, an oci.Composition, the blob that it describes. Only the embedded
// image store supports it. The store verifies the blob, and has the request repeated meanwhile.
func (u *Upload) CommitComposition(ctx context.Context, d digest.Digest) error {
	for {
		status, err := u.commit(ctx, url.Values{"digest": {d.String()}, "mediaType": {oci.TypeComposition}})
		if err != nil || status != http.StatusAccepted {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

func (u *Upload) commit(ctx context.Context, query url.Values) (status int, err error) {
	separator := "?"
	if strings.Contains(u.Location, "?") {
		separator = "&"
	}
	resp, err := u.request(ctx, http.MethodPut, u.Location+separator+query.Encode())
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, nil
}

// Cancel asks the registry to delete the upload. Some do not allow it to users who may push;
// registries delete old uploads.
func (u *Upload) Cancel(ctx context.Context) error {
	_, err := u.request(ctx, http.MethodDelete, u.Location)
	return err
}

// request sends a request without a body, and returns the response without its body.
func (u *Upload) request(ctx context.Context, method, location string) (*http.Response, error) {
	defer u.client.metrics.observe(u.repo.Host, "upload", time.Now())
	resp, err := u.client.authorized(ctx, method, u.url(location), tokenKey{repo: u.repo, access: u.access, push: true}, nil)
	if err != nil {
		u.client.metrics.failed(u.repo.Host, "upload")
		return nil, u.access.Explain(unreachable(u.repo.Host, err))
	}
	u.open = resp.Request.Header.Get("Authorization") == ""
	return u.checked(resp)
}

func (u *Upload) url(location string) string { return u.client.BaseURL(u.repo.Host) + location }

// moved stores the address in a response. The login and the content are only for the registry, and
// are sent with its usual scheme.
func (u *Upload) moved(resp *http.Response) error {
	to, err := resp.Location()
	if errors.Is(err, http.ErrNoLocation) && resp.Request.Method != http.MethodPost {
		return nil
	}
	if err != nil {
		return unexpected(u.repo.Host, err)
	}
	if to.Host != resp.Request.URL.Host || !u.isOwn(to.RequestURI()) {
		return ErrUploadAddress
	}
	u.Location = to.RequestURI()
	return nil
}
