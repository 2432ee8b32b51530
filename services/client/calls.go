package client

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
)

// Causes of a ForeignError.
var (
	// ErrNoName is the cause if a response has no image name.
	ErrNoName = errors.New("the response has no image name")
	// ErrNoImage is the cause if an inspection describes no image.
	ErrNoImage = errors.New("the response describes no image")
)

// Submit makes a container request. The response has the name to pull, which is a secret; a
// pull waits for the build. Submit also returns the response as JSON, as Do does.
func (c *Client) Submit(ctx context.Context, req *containerv1.ContainerRequest) ([]byte, *containerv1.SubmitContainerResponse, error) {
	var res containerv1.SubmitContainerResponse
	raw, err := c.Do(ctx, Call{Method: http.MethodPost, Path: "/v1alpha2/container", Signed: true, Body: req}, &res)
	if err == nil && res.GetTargetImage() == "" {
		err = c.Foreign(ErrNoName)
	}
	return raw, &res, err
}

// NewName requests a new name for the image of an earlier request or of a build. A request's
// id requires its user's access token. Nothing is built.
func (c *Client) NewName(ctx context.Context, id string) ([]byte, *containerv1.NameContainerResponse, error) {
	var res containerv1.NameContainerResponse
	raw, err := c.Do(ctx, Call{Method: http.MethodPost, Path: pathOf("v1alpha2", "container", id, "name"), Signed: true}, &res)
	if err == nil && (res.GetTargetImage() == "" || res.GetRequestId() == "") {
		err = c.Foreign(ErrNoName)
	}
	return raw, &res, err
}

// Status returns the state of a container request.
func (c *Client) Status(ctx context.Context, requestID string) (*containerv1.GetContainerStatusResponse, error) {
	var res containerv1.GetContainerStatusResponse
	if _, err := c.Do(ctx, Call{Method: http.MethodGet, Path: pathOf("v1alpha2", "container", requestID, "status")}, &res); err != nil {
		return nil, err
	}
	return &res, nil
}

// Log calls each with every line of the current log of a build. Lines may have terminal
// escapes. Follow also waits for later lines.
func (c *Client) Log(ctx context.Context, buildID string, each func(line string)) error {
	what := Call{Method: http.MethodGet, Path: pathOf("v1alpha1", "builds", buildID, "logs")}
	body, err := c.Open(ctx, what, http.Header{"Accept": {"text/plain"}}, time.Minute)
	if err != nil {
		return err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		each(lines.Text())
	}
	if err := lines.Err(); err != nil {
		return c.Unreachable(err)
	}
	return nil
}

// Lock returns the packages that Conda packages resolve to. The query must not have a
// format. If the packages conflict, the error is an *Error with a Conflict.
func (c *Client) Lock(ctx context.Context, q *condav1.LockQuery) ([]byte, *condav1.LockPackagesResponse, error) {
	var res condav1.LockPackagesResponse
	raw, err := c.Do(ctx, lockCall(q), &res)
	return raw, &res, err
}

// LockFile returns the lock as the text of a file in the query's format, such as "explicit".
// Without a format it is JSON.
func (c *Client) LockFile(ctx context.Context, q *condav1.LockQuery) ([]byte, error) {
	return c.Do(ctx, lockCall(q), nil)
}

func lockCall(q *condav1.LockQuery) Call {
	return Call{Method: http.MethodPost, Path: "/v1alpha1/conda/lock", Signed: true, Body: q}
}

// BuildLock returns the lock that a build of Conda packages was started with.
func (c *Client) BuildLock(ctx context.Context, buildID string) (*buildv1.GetBuildLockResponse, error) {
	var res buildv1.GetBuildLockResponse
	_, err := c.Do(ctx, buildLockCall(buildID, ""), &res)
	return &res, err
}

// BuildLockFile returns the lock of a build as the text of a file in a format; "" is JSON.
func (c *Client) BuildLockFile(ctx context.Context, buildID, format string) ([]byte, error) {
	return c.Do(ctx, buildLockCall(buildID, format), nil)
}

func buildLockCall(id, format string) Call {
	what := Call{Method: http.MethodGet, Path: pathOf("v1alpha1", "builds", id, "lock")}
	if format != "" {
		what.Query = url.Values{"format": {format}}
	}
	return what
}

// Conflict returns why Conda packages cannot be solved, and changes that work, in the fields
// Conflict and Suggestions. They are empty if the error is not a conflict.
func (e *Error) Conflict() (*condav1.LockPackagesResponse, error) {
	data := e.Body // of a lock
	if e.Details != nil {
		data = e.Details // of a container request
	}
	var res condav1.LockPackagesResponse
	err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, &res)
	return &res, err
}

// Search finds Conda packages. The parameters are q, command, file, channel, platform, max
// and offset (gateway/contract/conda.md#packages).
func (c *Client) Search(ctx context.Context, parameters url.Values) ([]byte, *condav1.SearchPackagesResponse, error) {
	var res condav1.SearchPackagesResponse
	raw, err := c.Do(ctx, Call{Method: http.MethodGet, Path: "/v1alpha1/conda/packages", Query: parameters, Signed: true}, &res)
	return raw, &res, err
}

// Inspect returns the config and the layers of an image, which is read with the caller's
// credentials. The platform selects one of a multi-platform image; "" is linux/amd64.
func (c *Client) Inspect(ctx context.Context, image *inspectv1.ImageQuery, platform string) ([]byte, *inspectv1.InspectImageResponse, error) {
	what := Call{Method: http.MethodPost, Path: "/v1alpha1/inspect", Signed: true, Body: image}
	if platform != "" {
		what.Query = url.Values{"platform": {platform}}
	}
	var res inspectv1.InspectImageResponse
	raw, err := c.Do(ctx, what, &res)
	if err == nil && res.GetContainer() == nil && res.GetIndex() == nil {
		err = c.Foreign(ErrNoImage)
	}
	return raw, &res, err
}

// pathOf returns a path of segments, which may have any characters.
func pathOf(segments ...string) string {
	var b strings.Builder
	for _, s := range segments {
		b.WriteByte('/')
		if s == "." || s == ".." { // a path has no such segment
			b.WriteString(strings.ReplaceAll(s, ".", "%2E"))
			continue
		}
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}
