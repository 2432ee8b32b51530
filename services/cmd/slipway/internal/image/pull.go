package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/follow"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Pull returns `slipway pull`.
func Pull(s *session.Settings) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "pull ID --sif FILE",
		Short: "Download the Singularity image of a request",
		Long: `Download the Singularity image of a request over plain HTTP(S).

` + idForms + `
The command waits for a running build and shows its log on standard error. It
verifies the image's digest. An interrupted download is resumed; its partial file is
FILE.<digest>.part. If singularity supports oras://, it can also pull the name of
the request.`,
		Example: `  slipway pull $(slipway conda samtools=1.20 --sif) --sif samtools.sif
  slipway pull 3f2a5b6c7d8e9f01_1 --sif samtools.sif`,
		Args: usage.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return usage.Errorf("--sif is missing: the file to write")
			}
			c, err := s.Client()
			if err != nil {
				return err
			}
			request, err := requestOf(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if err := waitForImage(cmd, c, s, request); err != nil {
				return err
			}
			d := &download{client: c, path: request.path() + "/sif", signed: request.isID(), file: file, tell: cmd.ErrOrStderr(), live: s.IsLive(cmd.ErrOrStderr())}
			if err := d.run(cmd.Context()); err != nil {
				return fmt.Errorf("downloading %s: %w", file, err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "sif", "", "The `file` to write.")
	return cmd
}

// waitForImage waits until the image of a request exists, as any pull does.
func waitForImage(cmd *cobra.Command, c *session.Client, s *session.Settings, request subject) error {
	var now containerv1.GetContainerStatusResponse
	at := session.Call{Method: http.MethodGet, Path: request.path() + "/status"}
	if _, err := c.Do(cmd.Context(), at, &now); err != nil {
		return fmt.Errorf("looking for the image: %w", err)
	}
	if now.GetStatus() == "DONE" { // the response for the file contains a failure's reason
		return nil
	}
	show := follow.NewConsole(cmd.ErrOrStderr(), s.IsLive(cmd.ErrOrStderr()), true)
	return follow.Await(cmd.Context(), c, &containerv1.SubmitContainerResponse{RequestId: now.Id, BuildId: now.BuildId, TargetImage: now.TargetImage}, show)
}

// attempts is the maximum number of consecutive attempts to resume a download without
// progress.
const attempts = 5

// download downloads a file and resumes after errors.
type download struct {
	client     *session.Client
	path, file string
	signed     bool // whether the access token is sent
	tell       io.Writer

	digest string // of the whole file, in hex
	size   int64
	sum    hash.Hash
	at     int64 // position in bytes
	live   bool  // whether the line of the progress is replaced
	shown  time.Time
	began  time.Time
	first  int64 // where this run of the program began
}

func (d *download) run(ctx context.Context) error {
	if err := d.describe(ctx); err != nil {
		return err
	}
	part := fmt.Sprintf("%s.%s.part", d.file, d.digest[:12])
	out, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := d.fetch(ctx, out); err != nil {
		return err
	}
	if got := hex.EncodeToString(d.sum.Sum(nil)); got != d.digest {
		_ = os.Remove(part)
		return fmt.Errorf("its digest is %s instead of %s; it was removed", got, d.digest)
	}
	if err := errors.Join(out.Chmod(0o755), out.Close()); err != nil {
		return err
	}
	return os.Rename(part, d.file)
}

var etagForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^"sha256:([0-9a-f]{64})"$`)
})

// describe requests the file's size and digest.
func (d *download) describe(ctx context.Context) error {
	res, err := d.request(ctx, http.MethodHead, 0)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return d.refused(ctx)
	}
	tag := etagForm().FindStringSubmatch(res.Header.Get("Etag"))
	if tag == nil || res.ContentLength < 0 {
		return errors.New("the server does not answer like a Slipway server; check --server")
	}
	d.digest, d.size = tag[1], res.ContentLength
	return nil
}

// refused repeats the request to get the error message, which a response to HEAD does not
// have.
func (d *download) refused(ctx context.Context) error {
	res, err := d.request(ctx, http.MethodGet, 0)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	return d.client.Refusal(res, raw)
}

// request requests the file from an offset, without a timeout.
func (d *download) request(ctx context.Context, method string, from int64) (*http.Response, error) {
	header := http.Header{"Accept": {"*/*"}}
	if from > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		header.Set("If-Range", `"sha256:`+d.digest+`"`)
	}
	return d.client.DoRaw(ctx, session.Call{Method: method, Path: d.path, Signed: d.signed}, header)
}

// fetch reads the partial file, then downloads the rest.
func (d *download) fetch(ctx context.Context, out *os.File) error {
	d.sum = sha256.New()
	var err error
	if d.at, err = io.Copy(d.sum, out); err != nil {
		return err
	}
	if d.at > d.size {
		d.at = 0
		d.sum.Reset()
		if err := out.Truncate(0); err != nil {
			return err
		}
	}
	d.began, d.first = time.Now(), d.at
	for try := 0; d.at < d.size; try++ {
		before := d.at
		err := d.rest(ctx, out)
		if d.at > before {
			try = 0
		}
		var local *os.PathError
		switch {
		case err == nil:
		case ctx.Err() != nil, errors.As(err, &local), errors.Is(err, errRefused), try == attempts:
			return err
		default:
			select {
			case <-time.After(time.Second << try):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	d.show(true)
	return nil
}

// errRefused marks a response after which a retry is useless.
var errRefused = errors.New("the server refused")

func (d *download) rest(ctx context.Context, out *os.File) error {
	res, err := d.request(ctx, http.MethodGet, d.at)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusPartialContent && strings.HasPrefix(res.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", d.at)):
	case res.StatusCode == http.StatusOK && res.Header.Get("Etag") == `"sha256:`+d.digest+`"`:
		d.at = 0
		d.sum.Reset()
	case res.StatusCode >= 500:
		return fmt.Errorf("the server answered %s", res.Status)
	default:
		return fmt.Errorf("%w to resume the download: it answered %s", errRefused, res.Status)
	}
	if _, err := out.Seek(d.at, io.SeekStart); err != nil {
		return err
	}
	_, err = io.Copy(io.MultiWriter(out, d), io.LimitReader(res.Body, d.size-d.at))
	if err == nil && d.at < d.size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// Write counts and hashes written bytes.
func (d *download) Write(p []byte) (int, error) {
	d.sum.Write(p)
	d.at += int64(len(p))
	d.show(false)
	return len(p), nil
}

// show prints the progress: on a terminal on a line that is replaced, elsewhere on one line at the end.
func (d *download) show(end bool) {
	now := time.Now()
	if !end && (!d.live || now.Sub(d.shown) < 100*time.Millisecond) {
		return
	}
	d.shown = now
	text := output.BytesText(float64(d.at)) + " of " + output.BytesText(float64(d.size))
	if took := now.Sub(d.began).Seconds(); took >= 1 && d.at > d.first {
		text += ", " + output.BytesText(float64(d.at-d.first)/took) + "/s"
	}
	switch {
	case d.live && end:
		text = "\r\x1b[K" + text + "\n"
	case d.live:
		text = "\r\x1b[K" + text
	default:
		text += "\n"
	}
	fmt.Fprint(d.tell, text)
}
