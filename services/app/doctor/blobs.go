package doctor

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"slipway.dev/services/app"
	"slipway.dev/services/internal/bucket"
)

// blobFolder is the folder of blob_cache, and how many bytes more it may come to hold; ""
// where it is none.
func (d *doctor) blobFolder() (dir string, more int64) {
	if d.Config.BlobCache == "" || bucket.IsAddress(d.Config.BlobCache) {
		return "", 0
	}
	dir, err := filepath.Abs(d.Config.BlobCache)
	if err != nil {
		return "", 0
	}
	more = int64(d.Config.BlobCacheSize)
	found, _ := os.ReadDir(dir) // which may not be there yet
	for _, e := range found {
		if info, err := e.Info(); err == nil {
			more -= info.Size()
		}
	}
	return dir, max(more, 0)
}

// blobs are where blob_cache keeps them.
func (d *doctor) blobs(ctx context.Context) []Finding {
	const check = "blob cache"
	if bucket.IsAddress(d.Config.BlobCache) {
		return d.bucket(ctx)
	}
	dir, more := d.blobFolder()
	if dir == "" {
		return nil
	}
	at := standing(dir)
	if err := unix.Access(at, unix.W_OK|unix.X_OK); err != nil {
		return one(check, "", fmt.Errorf("this user cannot write to %s: %w", at, err), Fail, "give it to the user that runs slipwayd (chown), or set another blob_cache")
	}
	if sameDisk(at, standing(d.Config.DataDir)) {
		return one(check, dir+" can be written; the disk is that of data_dir", nil, OK, "")
	}
	return room(check, at, dir, more, "free space, put blob_cache on a larger disk, or lower blob_cache_size")
}

// bucket does with an object of its own what is done with blobs: it is put, found, listed,
// read by a URL as clients do, and removed.
func (d *doctor) bucket(ctx context.Context) []Finding {
	const check = "blob cache"
	b, err := app.Bucket(d.Config)
	if err != nil {
		return one(check, "", err, Fail, "correct blob_cache")
	}
	defer b.Close()
	content := []byte("slipwayd doctor " + rand.Text())
	name, sum := ".doctor-"+hex.EncodeToString(content[len(content)-8:]), sha256.Sum256(content)
	began := time.Now()
	if err := b.Put(ctx, name, bytes.NewReader(content), int64(len(content)), hex.EncodeToString(sum[:]), false); err != nil {
		return one(check, "", fmt.Errorf("nothing can be put into %s: %w", b, err), Fail, advice(err))
	}
	wrote := time.Since(began)
	defer func() { _ = b.Delete(context.WithoutCancel(ctx), name) }()
	for _, step := range []struct {
		what string
		do   func() error
		help string
	}{
		{"an object that was put is not found", func() error { return found(ctx, b, name, len(content)) }, "let the keys s3:GetObject"},
		{"the bucket cannot be listed", func() error { return listed(ctx, b, name) }, "let the keys s3:ListBucket: without it nothing is kept, for nobody sees how much there is"},
		{"clients cannot read at " + b.Host(), func() error { return signed(ctx, b, name, content) }, "see that clients reach public_endpoint (else endpoint) of blob_cache, and that the clocks agree; this machine may be one that does not"},
		{"objects cannot be removed", func() error { return b.Delete(ctx, name) }, "let the keys s3:DeleteObject: without it the bucket grows beyond blob_cache_size"},
	} {
		if err := step.do(); err != nil {
			return one(check, "", fmt.Errorf("%s, %s: %w", b, step.what, err), Fail, step.help)
		}
	}
	if wrote > time.Second {
		return one(check, "", fmt.Errorf("%s takes %s to put a small object; a pull waits for 1s at most to hear whether a blob is there", b, wrote.Round(time.Millisecond)), Warn, "use a bucket that is nearer")
	}
	return one(check, fmt.Sprintf("%s takes objects, lists and removes them, and gives them to clients at %s", b, b.Host()), nil, OK, "")
}

// advice is by what the bucket answered.
func advice(err error) string {
	var refused *bucket.Refused
	if !errors.As(err, &refused) {
		return "see that the endpoint of blob_cache runs, and that blob_cache_credentials_file or AWS's environment has its keys"
	}
	switch refused.Code {
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken":
		return "correct the keys: those of blob_cache_credentials_file, or of AWS's environment"
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException":
		return "set the bucket's region in blob_cache: ?region=…"
	case "RequestTimeTooSkewed":
		return "synchronise this machine's clock: timedatectl set-ntp true"
	case "NoSuchBucket":
		return "make the bucket, or correct its name in blob_cache"
	case "AccessDenied":
		return "let the keys s3:PutObject, s3:GetObject, s3:DeleteObject and s3:ListBucket"
	}
	return "see what the bucket's server says of it"
}

func found(ctx context.Context, b *bucket.Bucket, name string, size int) error {
	o, err := b.Stat(ctx, name)
	if err == nil && o.Size != int64(size) {
		err = fmt.Errorf("it has %d bytes, not %d", o.Size, size)
	}
	return err
}

func listed(ctx context.Context, b *bucket.Bucket, name string) error {
	for o, err := range b.List(ctx) {
		if err != nil {
			return err
		}
		if o.Name == name { // it is among the first: names of blobs have no dot before them
			return nil
		}
	}
	return errors.New("what was put is not in the list")
}

// signed reads an object as a client that was sent to it.
func signed(ctx context.Context, b *bucket.Bucket, name string, want []byte) error {
	location, err := b.Presign(ctx, name, time.Minute)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return errors.New("the URL is malformed")
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 5 * time.Second, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return bucket.Plain(err) // the URL lets whoever has it read
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err == nil && (resp.StatusCode != http.StatusOK || !bytes.Equal(got, want)) {
		err = fmt.Errorf("it is answered %s", resp.Status)
	}
	return err
}
