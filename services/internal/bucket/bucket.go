// Package bucket stores objects in an S3 bucket and creates presigned URLs, with which clients
// read objects directly from the bucket. The bucket is configured by the operator, like a
// database, so that egress rules do not apply to it.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// A Bucket is the part of a bucket below a prefix. Errors wrap fs.ErrNotExist if the object
// does not exist, and fs.ErrExist if it already exists. Use Open to create a Bucket. It is
// safe for concurrent use.
type Bucket struct {
	address Address
	client  minio.Core
	public  *minio.Client // signs URLs for PublicEndpoint
	http    *http.Transport
}

// An Object describes an object in the bucket.
type Object struct {
	// Name is the name without the prefix.
	Name string
	// Size is the length in bytes.
	Size int64
	// Modified is the time of the upload by the server's clock.
	Modified time.Time
}

// Open returns a client for a bucket, without connecting to it. The keys are read from
// credentialsFile, a file in AWS's format, or from AWS's environment if that is "". The
// caller must close the Bucket.
func Open(a Address, credentialsFile string) (*Bucket, error) {
	b := &Bucket{address: a, http: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		ResponseHeaderTimeout: 30 * time.Second,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConnsPerHost:   32,
		DisableCompression:    true,
		WriteBufferSize:       64 << 10,
	}}
	keys := credentials.New(&keyProvider{file: credentialsFile})
	client, err := b.connect(a.endpoint(), keys)
	if err != nil {
		return nil, err
	}
	b.client = minio.Core{Client: client}
	b.public = client
	if a.PublicEndpoint != "" {
		if b.public, err = b.connect(a.PublicEndpoint, keys); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (b *Bucket) connect(endpoint string, keys *credentials.Credentials) (*minio.Client, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, errors.New("the bucket's endpoint is not a valid URL")
	}
	return minio.New(u.Host, &minio.Options{
		Creds: keys, Secure: u.Scheme == "https", Transport: b.http, Region: b.address.region(), MaxRetries: 1,
	})
}

// Close closes idle connections.
func (b *Bucket) Close() { b.http.CloseIdleConnections() }

// String returns the address without its parameters.
func (b *Bucket) String() string { return b.address.String() }

func (b *Bucket) object(name string) string { return b.address.Prefix + name }

// Stat returns the metadata of an object.
func (b *Bucket) Stat(ctx context.Context, name string) (Object, error) {
	info, err := b.client.StatObject(ctx, b.address.Bucket, b.object(name), minio.StatObjectOptions{})
	if err != nil {
		return Object{}, Sanitize(err)
	}
	return Object{Name: name, Size: info.Size, Modified: info.LastModified}, nil
}

// Put uploads an object of size bytes with the given SHA-256 (hex), which the server
// verifies. Uploads are atomic: if ctx is cancelled or the body ends too early, the object
// is not created. An existing object is replaced, or causes fs.ErrExist if isNew is set.
func (b *Bucket) Put(ctx context.Context, name string, body io.Reader, size int64, sha256 string, isNew bool) error {
	o := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableContentSha256: true, DisableMultipart: true}
	if isNew {
		o.SetMatchETagExcept("*")
	}
	_, err := b.client.PutObject(ctx, b.address.Bucket, b.object(name), body, size, "", sha256, o)
	return Sanitize(err)
}

// Get returns at most limit bytes of an object. It is for small objects.
func (b *Bucket) Get(ctx context.Context, name string, limit int64) ([]byte, Object, error) {
	body, o, err := b.Open(ctx, name)
	if err != nil {
		return nil, Object{}, err
	}
	defer body.Close()
	content, err := io.ReadAll(io.LimitReader(body, limit))
	return content, o, Sanitize(err)
}

// Open opens an object. The caller must close it.
func (b *Bucket) Open(ctx context.Context, name string) (io.ReadCloser, Object, error) {
	body, info, _, err := b.client.GetObject(ctx, b.address.Bucket, b.object(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, Object{}, Sanitize(err)
	}
	return body, Object{Name: name, Size: info.Size, Modified: info.LastModified}, nil
}

// Delete deletes an object. A missing object is not an error.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	return Sanitize(b.client.RemoveObject(ctx, b.address.Bucket, b.object(name), minio.RemoveObjectOptions{}))
}

// List iterates over all objects below the prefix, sorted by name, without those in
// subfolders. It ends after the first error.
func (b *Bucket) List(ctx context.Context) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for info := range b.client.ListObjectsIter(ctx, b.address.Bucket, minio.ListObjectsOptions{Prefix: b.address.Prefix}) {
			if info.Err != nil {
				yield(Object{}, Sanitize(info.Err))
				return
			}
			name := strings.TrimPrefix(info.Key, b.address.Prefix)
			if !yield(Object{Name: name, Size: info.Size, Modified: info.LastModified}, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Object{}, err)
		}
	}
}

// Presign returns a URL that grants read access to an object for the given time. It sends no
// request, except to renew expired keys.
func (b *Bucket) Presign(ctx context.Context, name string, validity time.Duration) (string, error) {
	u, err := b.public.Presign(ctx, http.MethodGet, b.address.Bucket, b.object(name), validity, nil)
	if err != nil {
		return "", Sanitize(err)
	}
	return u.String(), nil
}

// Host returns the server as seen by clients, host[:port].
func (b *Bucket) Host() string { return b.public.EndpointURL().Host }

// Sanitize returns err without URLs and with no text of the server except its error code,
// because the text may repeat parts of the request. It maps S3 errors to fs.ErrExist,
// fs.ErrNotExist and *ResponseError.
func Sanitize(err error) error {
	if err == nil {
		return nil
	}
	var said minio.ErrorResponse
	if !errors.As(err, &said) {
		var where *url.Error
		if errors.As(err, &where) {
			return fmt.Errorf("the bucket's server does not respond: %w", where.Err)
		}
		return err
	}
	switch {
	case said.Code == minio.PreconditionFailed || said.StatusCode == http.StatusPreconditionFailed || said.StatusCode == http.StatusConflict:
		return fmt.Errorf("the bucket responded with %s: %w", said.Code, fs.ErrExist)
	case said.Code == minio.NoSuchKey || said.StatusCode == http.StatusNotFound && said.Code != minio.NoSuchBucket:
		return fmt.Errorf("the bucket responded with %s: %w", said.Code, fs.ErrNotExist)
	}
	return &ResponseError{Code: said.Code, Status: said.StatusCode}
}

// A ResponseError is an error response of the server.
type ResponseError struct {
	// Code is the S3 error code, e.g. "AccessDenied". Status is the HTTP status code.
	Code   string
	Status int
}

// Error implements error.
func (r *ResponseError) Error() string {
	return fmt.Sprintf("the bucket responded with %d %s", r.Status, r.Code)
}
