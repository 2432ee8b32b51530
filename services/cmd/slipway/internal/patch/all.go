package patch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/client"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
)

const (
	// patchedAtOnce is the number of images that are patched concurrently.
	patchedAtOnce = 4
	// mostPatched is the maximum number of images that one command patches.
	mostPatched = 10_000
	// pageSize is the number of images that are listed in one call.
	pageSize = "1000"
)

// A result is the outcome for one image.
type result struct {
	RequestID string `json:"requestId"`
	// Image is the earlier image.
	Image string `json:"containerImage"`
	// Result is "patched", "would be patched", "unchanged" or "failed".
	Result       string `json:"result"`
	NewRequestID string `json:"newRequestId,omitempty"`
	// TargetImage is the new name; "" if the image was not patched.
	TargetImage string `json:"targetImage,omitempty"`
	// Changes are the packages that differ, e.g. "openssl 3.0.13 → 3.0.14".
	Changes []string `json:"changes,omitempty"`
	Message string   `json:"message,omitempty"`
}

// patchAll exchanges a package in all images in which it is outdated.
func (f *flags) patchAll(cmd *cobra.Command, c *session.Client, args []string) error {
	b, err := parseBound(args)
	if err != nil {
		return err
	}
	images, err := f.outdated(cmd, c, b)
	if err != nil {
		return err
	}
	results := make([]result, len(images))
	turns := make(chan struct{}, patchedAtOnce)
	var all sync.WaitGroup
	var mu sync.Mutex
	done, failed := 0, 0
	var isLimited atomic.Bool // whether the server has rejected a patch because of a limit
	for i, image := range images {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			if isLimited.Load() {
				results[i] = result{RequestID: image.GetRequestId(), Image: image.GetContainerImage(), Result: resultFailed, Message: "not tried, since a limit was reached; repeat the command later"}
			} else {
				results[i] = f.patch(cmd.Context(), c, image, b, &isLimited)
			}
			mu.Lock()
			defer mu.Unlock()
			if done++; results[i].Result == resultFailed {
				failed++
			}
			if done%100 == 0 {
				cmd.PrintErrf("slipway: %d of %d images, %d failed\n", done, len(images), failed)
			}
		})
	}
	all.Wait()
	raw, err := json.Marshal(map[string]any{"results": results})
	if err != nil {
		return err
	}
	if err := f.output.List(cmd, raw, resultsTable(results), "No image has to be patched"); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d images were not patched", failed, len(images))
	}
	return cmd.Context().Err()
}

const resultFailed = "failed"

// outdated returns the images to patch.
func (f *flags) outdated(cmd *cobra.Command, c *session.Client, b bound) (out []*containerv1.OutdatedImage, err error) {
	query, err := queryOf(cmd.Context(), c, b, *f.workspace, false)
	if err != nil {
		return nil, err
	}
	query.Set("max", pageSize)
	wheels := 0
	for {
		_, res, err := list(cmd.Context(), c, query)
		if err != nil {
			return nil, err
		}
		for _, i := range res.GetImages() {
			switch {
			case i.GetReplacedBy() != "" && !f.again:
			case onlyWheels(i):
				wheels++
			default:
				out = append(out, i)
			}
		}
		if len(out) > mostPatched {
			return nil, fmt.Errorf("more than %d images have %s; patch those of one --workspace at a time", mostPatched, b)
		}
		if res.GetNextPageToken() == "" {
			if n := res.GetUnindexed(); n > 0 {
				cmd.PrintErrf("slipway: the packages of %d more images are not known yet; repeat the command later\n", n)
			}
			if wheels > 0 {
				cmd.PrintErrf("slipway: %d images only have it as a wheel, which a patch does not exchange; they need a new lock\n", wheels)
			}
			return out, nil
		}
		query.Set("pageToken", res.GetNextPageToken())
	}
}

// onlyWheels reports whether an image only has an outdated package as a wheel.
func onlyWheels(i *containerv1.OutdatedImage) bool {
	return !slices.ContainsFunc(i.GetPackages(), func(p *containerv1.OutdatedPackage) bool { return p.GetKind() != "pypi" })
}

// patch exchanges a package in one of several images.
func (f *flags) patch(ctx context.Context, c *session.Client, image *containerv1.OutdatedImage, b bound, isLimited *atomic.Bool) result {
	out := result{RequestID: image.GetRequestId(), Image: image.GetContainerImage(), Result: "patched"}
	_, res, err := f.request(ctx, c, image.GetRequestId(), []string{b.spec()})
	var refusal *client.Error
	switch {
	case errors.As(err, &refusal) && refusal.Code == "patch.unchanged":
		out.Result, out.Message = "unchanged", refusal.Message
		return out
	case err != nil:
		if refusal != nil && refusal.Response.StatusCode == http.StatusTooManyRequests {
			isLimited.Store(true)
		}
		out.Result, out.Message = resultFailed, err.Error()
		return out
	case f.dryRun:
		out.Result = "would be patched"
	}
	out.Changes = changesOf(res)
	out.NewRequestID, out.TargetImage = res.GetRequestId(), res.GetTargetImage()
	if f.await && !res.GetSucceeded() {
		if err := c.Wait(ctx, res.GetRequestId(), res.GetBuildId(), client.Watch{}); err != nil {
			out.Result, out.Message = resultFailed, err.Error()
		}
	}
	return out
}

// changesOf returns the changes of a patch, each once.
func changesOf(r *containerv1.PatchImageResponse) (out []string) {
	for _, platform := range r.GetChanges() {
		for _, p := range platform.GetPackages() {
			if text := p.GetName() + " " + cmp.Or(p.GetOld().GetVersion(), "none") + " → " + cmp.Or(p.GetNew().GetVersion(), "none"); !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}

func resultsTable(results []result) output.Table {
	t := output.Table{{"ID", "RESULT", "NEW NAME", "CHANGES", "MESSAGE"}}
	for _, r := range results {
		t = append(t, []string{r.RequestID, r.Result, r.TargetImage, strings.Join(r.Changes, ", "), r.Message})
	}
	return t
}
