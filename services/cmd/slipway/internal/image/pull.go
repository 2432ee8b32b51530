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
	"time"

	"github.com/spf13/cobra"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/follow"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Pull is `slipway pull`.
func Pull(s *session.Settings) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "pull ID --sif FILE",
		Short: "Download a Singularity image that a request has made",
		Long: `Download a Singularity image that a request has made, over plain HTTP(S).

` + idForms + `
A build that runs is waited for, and its log shown on standard error. The bytes are
held against the image's digest. A download that was interrupted goes on where it
was: what is there of it is FILE.<digest>.part. Where singularity can pull oras://
names, the name that was answered does as well.`,
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
			if err := made(cmd, c, s, request); err != nil {
				return err
			}
			d := &download{client: c, path: subject{request: request}.path() + "/sif", file: file, tell: cmd.ErrOrStderr()}
			if err := d.run(cmd.Context()); err != nil {
				return fmt.Errorf("downloading %s: %w", file, err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "sif", "", "The `file` to write.")
	return cmd
}

// made waits until the image of a request is there, as who pulls any other does.
func made(cmd *cobra.Command, c *session.Client, s *session.Settings, request string) error {
	var now containerv1.GetContainerStatusResponse
	at := session.Call{Method: http.MethodGet, Path: subject{request: request}.path() + "/status"}
	if _, err := c.Do(cmd.Context(), at, &now); err != nil {
		return fmt.Errorf("looking for the image: %w", err)
	}
	if now.GetStatus() == "DONE" { // a failure's reason comes with the refusal of the file
		return nil
	}
	show := follow.NewConsole(cmd.ErrOrStderr(), s.IsLive(cmd.ErrOrStderr()), true)
	return follow.Await(cmd.Context(), c, &containerv1.SubmitContainerResponse{RequestId: &request, BuildId: now.BuildId, TargetImage: now.TargetImage}, show)
}

// attempts is how often in a row a download that breaks is taken up again without
// a byte.
const attempts = 5

// download brings a file over, and takes it up again where it broke.
type download struct {
	client     *session.Client
	path, file string
	tell       io.Writer

	digest string // of the whole file, hex
	size   int64
	sum    hash.Hash
	at     int64 // how much is there
	shown  time.Time
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

var etagForm = regexp.MustCompile(`^"sha256:([0-9a-f]{64})"$`)

// describe asks what the file is.
func (d *download) describe(ctx context.Context) error {
	res, err := d.ask(ctx, http.MethodHead, 0)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return d.refused(ctx)
	}
	tag := etagForm.FindStringSubmatch(res.Header.Get("Etag"))
	if tag == nil || res.ContentLength < 0 {
		return errors.New("the server does not answer like a Slipway server; check --server")
	}
	d.digest, d.size = tag[1], res.ContentLength
	return nil
}

// refused asks again for the words, which an answer to HEAD does not have.
func (d *download) refused(ctx context.Context) error {
	res, err := d.ask(ctx, http.MethodGet, 0)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	return session.Refusal(res, raw)
}

// ask asks for the file from a byte on. It may take as long as it wants to.
func (d *download) ask(ctx context.Context, method string, from int64) (*http.Response, error) {
	header := http.Header{"Accept": {"*/*"}}
	if from > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		header.Set("If-Range", `"sha256:`+d.digest+`"`)
	}
	return d.client.Ask(ctx, session.Call{Method: method, Path: d.path}, header)
}

// fetch reads what is there already, then the rest.
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

// errRefused marks an answer that asking again does not change.
var errRefused = errors.New("the server refused")

func (d *download) rest(ctx context.Context, out *os.File) error {
	res, err := d.ask(ctx, http.MethodGet, d.at)
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
		return fmt.Errorf("%w to go on: it answered %s", errRefused, res.Status)
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

// Write counts and sums what was written.
func (d *download) Write(p []byte) (int, error) {
	d.sum.Write(p)
	d.at += int64(len(p))
	d.show(false)
	return len(p), nil
}

// show prints from time to time how far it is.
func (d *download) show(end bool) {
	if now := time.Now(); end || now.Sub(d.shown) > 2*time.Second {
		d.shown = now
		fmt.Fprintf(d.tell, "%s of %s\n", output.BytesText(float64(d.at)), output.BytesText(float64(d.size)))
	}
}
