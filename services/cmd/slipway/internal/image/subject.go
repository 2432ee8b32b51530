package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// idForms describes the accepted IDs in the help of every command that takes one.
const idForms = `ID is the id of a request or of a build, or an image name: HOST/wt/TOKEN/PATH:TAG, or
HOST/c/ID/NAME:TAG of a kept image. The id of a request is not secret: access to its
image, and revoking it, require the name, or the id with the access token of the user
who made the request.`

// orasScheme is the prefix of the name of a Singularity image.
const orasScheme = "oras://"

// subject is a parsed ID: a request, by its id or its token, or a build. The id of a kept image is used like a token.
type subject struct{ request, build string }

// KeptID is a regular expression for the id of a kept image.
const KeptID = `[0-9a-f]{16}|org-[a-z2-7]{26}`

var keptID = regexp.MustCompile(`^(?:` + KeptID + `)$`)

// readSubject parses an ID in any of its forms. The result is safe to use in a path.
func readSubject(text string) (subject, error) {
	id := text
	if parts := strings.Split(strings.TrimPrefix(text, orasScheme), "/"); len(parts) > 3 && (parts[1] == "wt" || parts[1] == "c" && keptID.MatchString(parts[2])) {
		id = parts[2]
	}
	if stem, number, ok := strings.Cut(id, "_"); ok && stem != "" && number != "" && strings.Trim(stem, "0123456789abcdef") == "" && strings.Trim(number, "0123456789") == "" {
		return subject{build: id}, nil
	}
	if keptID.MatchString(id) || id != "" && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") == "" {
		return subject{request: id}, nil
	}
	return subject{}, usage.Errorf("%q is not the id of a request, the id of a build such as 3f2a5b6c7d8e9f01_1, or a name HOST/wt/TOKEN/PATH:TAG or HOST/c/ID/NAME:TAG; "+
		"an image in a repository of your own has no id in its name: `slipway builds` shows its build", text)
}

// IsSubject reports whether text has one of the forms of an ID.
func IsSubject(text string) bool {
	_, err := readSubject(text)
	return err == nil
}

// isID reports whether s is the id of a request, which requires the access token of its user.
func (s subject) isID() bool { return len(s.request) == 64 }

// isKept reports whether s is the id of a kept image.
func (s subject) isKept() bool { return keptID.MatchString(s.request) }

// path returns the path in the REST contract.
func (s subject) path() string {
	if s.build != "" {
		return "/v1alpha1/builds/" + s.build
	}
	return "/v1alpha2/container/" + s.request
}

// BuildOf returns the id of the build for an ID: of the build itself, or of the build of a
// request, whose name may have expired.
func BuildOf(ctx context.Context, c *session.Client, text string) (string, error) {
	what, err := readSubject(text)
	if err != nil || what.build != "" {
		return what.build, err
	}
	var res containerv1.DescribeContainerResponse
	if _, err := c.Do(ctx, session.Call{Method: http.MethodGet, Path: what.path()}, &res); err != nil {
		return "", fmt.Errorf("looking for the build of the request: %w", err)
	}
	if res.GetBuildId() == "" {
		return "", errors.New("nothing was built for this request: its image existed; `slipway describe` shows the request")
	}
	return res.GetBuildId(), nil
}

// LockOf returns the lock of the image for an ID as the text of a file in a format; "" is JSON. That of a kept image
// exists for as long as its name.
func LockOf(ctx context.Context, c *session.Client, text, format string) ([]byte, error) {
	what, err := readSubject(text)
	if err != nil {
		return nil, err
	}
	if what.isKept() && format != "" {
		return c.Do(ctx, session.Call{Method: http.MethodGet, Path: "/v1alpha1/catalog/" + what.request + "/lock", Query: url.Values{"format": {format}}, Signed: true}, nil)
	}
	id, err := BuildOf(ctx, c, text)
	if err != nil {
		return nil, err
	}
	return c.BuildLockFile(ctx, id, format)
}

// requestOf returns the request of an image name. For the id of a build or of a request it
// makes a new request, which is identified by its token or, for a frozen image, which has no
// token, by its id.
func requestOf(ctx context.Context, c *session.Client, text string) (subject, error) {
	what, err := readSubject(text)
	if err != nil || what.request != "" && !what.isID() {
		return what, err
	}
	_, res, err := freshName(ctx, c, what)
	return subject{request: cmp.Or(res.GetContainerToken(), res.GetRequestId())}, err
}

// freshName requests a new name for an earlier request or build. The name of a kept image does not change.
func freshName(ctx context.Context, c *session.Client, of subject) ([]byte, *containerv1.NameContainerResponse, error) {
	if of.isKept() {
		var kept containerv1.CatalogImage
		if _, err := c.Do(ctx, session.Call{Method: http.MethodGet, Path: "/v1alpha1/catalog/" + of.request, Signed: true}, &kept); err != nil {
			return nil, nil, err
		}
		out := &containerv1.NameContainerResponse{ContainerToken: &of.request, TargetImage: kept.TargetImage, BuildId: kept.BuildId}
		raw, err := protojson.Marshal(out)
		return raw, out, err
	}
	return c.NewName(ctx, of.request+of.build) // one is empty
}
