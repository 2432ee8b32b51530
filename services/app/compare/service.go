package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// service is a client of a running service's public API.
type service struct{ base, token string }

// builtImage is a built image.
type builtImage struct{ build, name string }

// answerBytes is the maximum size of a response. A lock of thousands of packages is a tenth
// of it.
const answerBytes = 40_000_000

// call makes a call and decodes its response.
func (s *service) call(ctx context.Context, method, path string, body, out proto.Message) error {
	var content io.Reader
	if body != nil {
		raw, err := protojson.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(raw)
	}
	resp, err := s.send(ctx, method, path, content, http.Header{"Content-Type": {"application/json"}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := s.read(resp)
	if err != nil {
		return err
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, out); err != nil {
		return fmt.Errorf("%s does not respond like slipwayd; it must be running, and --server must be its address: %w", s.base, err)
	}
	return nil
}

// send makes a call. A response other than 200 is an error with the server's message.
func (s *service) send(ctx context.Context, method, path string, content io.Reader, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, content)
	if err != nil {
		return nil, err
	}
	req.Header = header
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("slipwayd must be running and reachable at %s: %w", s.base, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	var refusal struct{ Message string }
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if json.Unmarshal(raw, &refusal) != nil || refusal.Message == "" {
		refusal.Message = resp.Status
	}
	return nil, errors.New(refusal.Message)
}

// make requests an image and waits until it exists.
func (s *service) make(ctx context.Context, r *containerv1.ContainerRequest) (builtImage, error) {
	var answer containerv1.SubmitContainerResponse
	if err := s.call(ctx, http.MethodPost, "/v1alpha2/container", r, &answer); err != nil {
		return builtImage{}, err
	}
	out := builtImage{build: answer.GetBuildId(), name: answer.GetTargetImage()}
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		var now containerv1.GetContainerStatusResponse
		if err := s.call(ctx, http.MethodGet, "/v1alpha2/container/"+answer.GetRequestId()+"/status", nil, &now); err != nil {
			return out, err
		}
		switch {
		case now.GetStatus() == "DONE" && now.GetSucceeded():
			return out, nil
		case now.GetStatus() == "DONE":
			return out, fmt.Errorf("the build %s failed (%s): %s", out.build, now.GetReasonCode(), now.GetMessage())
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return out, ctx.Err()
		}
	}
}

// installs is the line of a Dockerfile that copies packages installed in a container, in
// our Dockerfile and in the generated ones.
const installs = "COPY --from=build /opt/conda /opt/conda\n"

// lock returns the lock of an assembled image. If its packages were installed in a
// container instead, it returns an error, since the image would be compared with itself.
// Steps after the assembly do not matter.
func (s *service) lock(ctx context.Context, build string) (string, error) {
	var record buildv1.Build
	if err := s.call(ctx, http.MethodGet, "/v1alpha1/builds/"+build, nil, &record); err != nil {
		return "", err
	}
	if strings.Contains(record.GetContainerFile(), installs) {
		return "", fmt.Errorf("the packages were installed in a container, so that there is nothing to compare: `slipway logs %s` shows the reason", build)
	}
	resp, err := s.send(ctx, http.MethodGet, "/v1alpha1/builds/"+build+"/lock?format=explicit", nil, http.Header{})
	if err != nil {
		return "", fmt.Errorf("reading the lock: %w", err)
	}
	defer resp.Body.Close()
	raw, err := s.read(resp)
	return string(raw), err
}

// read reads a response.
func (s *service) read(resp *http.Response) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, answerBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the response of %s: %w", s.base, err)
	case len(raw) > answerBytes:
		return nil, fmt.Errorf("the response of %s is larger than %d MiB", s.base, answerBytes>>20)
	}
	return raw, nil
}
