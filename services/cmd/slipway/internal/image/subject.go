package image

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// idForms is how every command that takes an ID says which ones.
const idForms = `ID is a request's id, a build's, or the whole name that was answered: HOST/wt/ID/PATH:TAG;
or, with your access token, a request's key, as ` + "`slipway containers`" + ` shows it.`

// orasScheme begins the name of a Singularity image.
const orasScheme = "oras://"

// subject is what an ID on the command line names: a request or a build.
type subject struct{ request, build string }

// readSubject reads an ID in any of its forms. It is made a part of a path.
func readSubject(text string) (subject, error) {
	id := text
	if parts := strings.Split(strings.TrimPrefix(text, orasScheme), "/"); len(parts) > 3 && parts[1] == "wt" {
		id = parts[2]
	}
	if stem, number, ok := strings.Cut(id, "_"); ok && stem != "" && number != "" && strings.Trim(stem, "0123456789abcdef") == "" && strings.Trim(number, "0123456789") == "" {
		return subject{build: id}, nil
	}
	if id != "" && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") == "" {
		return subject{request: id}, nil
	}
	return subject{}, usage.Errorf("%q is none of a request's id, a build's id such as 3f2a5b6c7d8e9f01_1, and a name HOST/wt/ID/PATH:TAG; "+
		"an image in a repository of your own has no id in its name: `slipway builds` shows its build", text)
}

// isKey says whether it is a request by its key, which opens it with the token of the
// user who made it.
func (s subject) isKey() bool { return len(s.request) == 64 }

// path is where the REST contract has it.
func (s subject) path() string {
	if s.build != "" {
		return "/v1alpha1/builds/" + s.build
	}
	return "/v1alpha2/container/" + s.request
}

// BuildOf returns the build that an ID stands for: itself, or that of a request, which
// is known longer than its name works.
func BuildOf(ctx context.Context, c *session.Client, text string) (string, error) {
	what, err := readSubject(text)
	if err != nil || what.build != "" {
		return what.build, err
	}
	var res containerv1.DescribeContainerResponse
	if _, err := c.Do(ctx, session.Call{Method: http.MethodGet, Path: what.path(), Signed: what.isKey()}, &res); err != nil {
		return "", fmt.Errorf("looking for the build of the request: %w", err)
	}
	if res.GetBuildId() == "" {
		return "", errors.New("nothing was built for this request: its image was there; `slipway describe` shows what was requested")
	}
	return res.GetBuildId(), nil
}

// requestOf returns a request that an ID stands for: itself, or a new one for what a
// build has made, or a key stands for.
func requestOf(ctx context.Context, c *session.Client, text string) (string, error) {
	what, err := readSubject(text)
	if err != nil || what.request != "" && !what.isKey() {
		return what.request, err
	}
	_, res, err := freshName(ctx, c, what)
	return res.GetRequestId(), err
}

// freshName gets a fresh name for what was requested or built before.
func freshName(ctx context.Context, c *session.Client, of subject) ([]byte, *containerv1.NameContainerResponse, error) {
	var res containerv1.NameContainerResponse
	id := of.request + of.build // one is empty
	raw, err := c.Do(ctx, session.Call{Method: http.MethodPost, Path: "/v1alpha2/container/" + id + "/name", Signed: true}, &res)
	if err == nil && (res.GetTargetImage() == "" || res.GetRequestId() == "") {
		err = errors.New("the answer holds no name; check --server")
	}
	return raw, &res, err
}

// BuildLockCall asks for the lock of a build; format "" is JSON.
func BuildLockCall(id, format string) session.Call {
	c := session.Call{Method: http.MethodGet, Path: "/v1alpha1/builds/" + url.PathEscape(id) + "/lock"}
	if format != "" {
		c.Query = url.Values{"format": {format}}
	}
	return c
}
