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
	"slipway.dev/services/internal/disk"
)

// blobFolder returns the folder of blob_cache, and the number of bytes by which it may still
// grow; "" if blob_cache is not a folder.
func (d *doctor) blobFolder() (dir string, more int64) {
	if d.Config.BlobCache == "" || bucket.IsAddress(d.Config.BlobCache) {
		return "", 0
	}
	dir, err := filepath.Abs(d.Config.BlobCache)
	if err != nil {
		return "", 0
	}
	more = int64(d.Config.BlobCacheSize)
	found, _ := os.ReadDir(dir) // the folder may not exist yet
	for _, e := range found {
		if info, err := e.Info(); err == nil {
			more -= info.Size()
		}
	}
	return dir, max(more, 0)
}

// blobs checks where blob_cache stores blobs.
func (d *doctor) blobs(ctx context.Context) []Finding {
	const check = "blob cache"
	if bucket.IsAddress(d.Config.BlobCache) {
		return d.bucket(ctx)
	}
	dir, more := d.blobFolder()
	if dir == "" {
		return nil
	}
	at := disk.Existing(dir)
	if err := unix.Access(at, unix.W_OK|unix.X_OK); err != nil {
		return one(check, "", fmt.Errorf("this user cannot write to %s: %w", at, err), Fail, "give it to the user that runs slipwayd (chown), or set another blob_cache")
	}
	if disk.Same(at, disk.Existing(d.Config.DataDir)) {
		return one(check, dir+" is writable, on the disk of data_dir", nil, OK, "")
	}
	return d.freeSpace(check, at, dir, more, "free space, put blob_cache on a larger disk, or lower blob_cache_size")
}

// bucket performs all operations on blobs with a test object: it puts, finds and lists it,
// reads it by a presigned URL as clients do, and deletes it.
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
		return one(check, "", fmt.Errorf("objects cannot be stored in %s: %w", b, err), Fail, advice(err))
	}
	wrote := time.Since(began)
	defer func() { _ = b.Delete(context.WithoutCancel(ctx), name) }()
	for _, step := range []struct {
		what string
		do   func() error
		help string
	}{
		{"an object that was put is not found", func() error { return found(ctx, b, name, len(content)) }, "allow the keys s3:GetObject"},
		{"the bucket cannot be listed", func() error { return listed(ctx, b, name) }, "allow the keys s3:ListBucket: without it nothing is cached, since the size of the cache is unknown"},
		{"clients cannot read at " + b.Host(), func() error { return signed(ctx, b, name, content) }, "check that clients reach public_endpoint (or endpoint) of blob_cache, and that the clocks agree; maybe only this machine cannot reach it"},
		{"objects cannot be removed", func() error { return b.Delete(ctx, name) }, "allow the keys s3:DeleteObject: without it the bucket grows beyond blob_cache_size"},
	} {
		if err := step.do(); err != nil {
			return one(check, "", fmt.Errorf("%s, %s: %w", b, step.what, err), Fail, step.help)
		}
	}
	if wrote > time.Second {
		return one(check, "", fmt.Errorf("storing a small object in %s takes %s; a pull waits at most 1s for the lookup of a blob", b, wrote.Round(time.Millisecond)), Warn, "use a bucket with a lower latency")
	}
	return one(check, fmt.Sprintf("%s stores, lists and deletes objects, and clients can read them at %s", b, b.Host()), nil, OK, "")
}

// advice returns the fix for a bucket's error.
func advice(err error) string {
	var refused *bucket.ResponseError
	if !errors.As(err, &refused) {
		return "check that the endpoint of blob_cache is running, and that blob_cache_credentials_file or AWS's environment has its keys"
	}
	switch refused.Code {
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken":
		return "correct the keys: those of blob_cache_credentials_file, or of AWS's environment"
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException":
		return "set the bucket's region in blob_cache: ?region=…"
	case "RequestTimeTooSkewed":
		return "synchronise this machine's clock: timedatectl set-ntp true"
	case "NoSuchBucket":
		return "create the bucket, or correct its name in blob_cache"
	case "AccessDenied":
		return "allow the keys s3:PutObject, s3:GetObject, s3:DeleteObject and s3:ListBucket"
	}
	return "check the log of the bucket's server"
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
		if o.Name == name { // it is among the first, since names of blobs do not begin with a dot
			return nil
		}
	}
	return errors.New("the test object is not in the list")
}

// signed reads an object by its presigned URL, as clients do.
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
		return bucket.Sanitize(err) // the URL is a secret
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err == nil && (resp.StatusCode != http.StatusOK || !bytes.Equal(got, want)) {
		err = fmt.Errorf("the response is %s", resp.Status)
	}
	return err
}
