// Package bucket puts objects into an S3 bucket and has clients read them there, by URLs
// that are signed for a while. It knows nothing of what the objects are. The bucket is the
// operator's, like a database: no egress rule is asked.
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

// Bucket is the part of a bucket below a prefix. Errors wrap fs.ErrNotExist where there is
// no such object, and fs.ErrExist where there is one already. Make it with Open. Safe for
// concurrent use.
type Bucket struct {
	address Address
	client  minio.Core
	public  *minio.Client // signs as clients see the server
	http    *http.Transport
}

// Object is what the bucket says of one.
type Object struct {
	// Name is without the prefix.
	Name string
	// Size is in bytes.
	Size int64
	// Modified is when it was put, by the server's clock.
	Modified time.Time
}

// Open makes the client of a bucket; it asks nothing. The keys are in a file in AWS's
// format, or, when that is "", in AWS's environment. The caller closes it.
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
	keys := credentials.New(&login{file: credentialsFile})
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
		return nil, errors.New("the bucket's endpoint is no URL")
	}
	return minio.New(u.Host, &minio.Options{
		Creds: keys, Secure: u.Scheme == "https", Transport: b.http, Region: b.address.region(), MaxRetries: 1,
	})
}

// Close gives connections up.
func (b *Bucket) Close() { b.http.CloseIdleConnections() }

// String is where it is.
func (b *Bucket) String() string { return b.address.String() }

func (b *Bucket) object(name string) string { return b.address.Prefix + name }

// Stat answers an object without its content.
func (b *Bucket) Stat(ctx context.Context, name string) (Object, error) {
	info, err := b.client.StatObject(ctx, b.address.Bucket, b.object(name), minio.StatObjectOptions{})
	if err != nil {
		return Object{}, Plain(err)
	}
	return Object{Name: name, Size: info.Size, Modified: info.LastModified}, nil
}

// Put makes an object of size bytes with this hash (SHA-256, hex), which the server
// verifies. It is there in full or not at all: when ctx or the body ends too early, there
// is none. One that is there is replaced, unless it is to be new.
func (b *Bucket) Put(ctx context.Context, name string, body io.Reader, size int64, sha256 string, isNew bool) error {
	o := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableContentSha256: true, DisableMultipart: true}
	if isNew {
		o.SetMatchETagExcept("*")
	}
	_, err := b.client.PutObject(ctx, b.address.Bucket, b.object(name), body, size, "", sha256, o)
	return Plain(err)
}

// Get answers at most limit bytes of an object, for small ones.
func (b *Bucket) Get(ctx context.Context, name string, limit int64) ([]byte, Object, error) {
	body, info, _, err := b.client.GetObject(ctx, b.address.Bucket, b.object(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, Object{}, Plain(err)
	}
	defer body.Close()
	content, err := io.ReadAll(io.LimitReader(body, limit))
	return content, Object{Name: name, Size: info.Size, Modified: info.LastModified}, Plain(err)
}

// Delete removes an object; one that is not there is no error.
func (b *Bucket) Delete(ctx context.Context, name string) error {
	return Plain(b.client.RemoveObject(ctx, b.address.Bucket, b.object(name), minio.RemoveObjectOptions{}))
}

// List goes through all objects in the order of their names; those in folders below are
// not among them. An error ends it.
func (b *Bucket) List(ctx context.Context) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for info := range b.client.ListObjectsIter(ctx, b.address.Bucket, minio.ListObjectsOptions{Prefix: b.address.Prefix}) {
			if info.Err != nil {
				yield(Object{}, Plain(info.Err))
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

// Presign is a URL with which whoever has it can read an object for so long. No request
// is made, but for keys that have run out.
func (b *Bucket) Presign(ctx context.Context, name string, lasts time.Duration) (string, error) {
	u, err := b.public.Presign(ctx, http.MethodGet, b.address.Bucket, b.object(name), lasts, nil)
	if err != nil {
		return "", Plain(err)
	}
	return u.String(), nil
}

// Host is the server as clients reach it, host[:port].
func (b *Bucket) Host() string { return b.public.EndpointURL().Host }

// Plain is an error in words of ours, without URLs, with the server's code: what servers say beside it
// may repeat the request.
func Plain(err error) error {
	if err == nil {
		return nil
	}
	var said minio.ErrorResponse
	if !errors.As(err, &said) {
		var where *url.Error
		if errors.As(err, &where) {
			return fmt.Errorf("the bucket's server does not answer: %w", where.Err)
		}
		return err
	}
	switch {
	case said.Code == minio.PreconditionFailed || said.StatusCode == http.StatusPreconditionFailed || said.StatusCode == http.StatusConflict:
		return fmt.Errorf("the bucket answers %s: %w", said.Code, fs.ErrExist)
	case said.Code == minio.NoSuchKey || said.StatusCode == http.StatusNotFound && said.Code != minio.NoSuchBucket:
		return fmt.Errorf("the bucket answers %s: %w", said.Code, fs.ErrNotExist)
	}
	return &Refused{Code: said.Code, Status: said.StatusCode}
}

// Refused is an answer that is an error.
type Refused struct {
	// Code is S3's word for it, e.g. "AccessDenied"; Status is of HTTP.
	Code   string
	Status int
}

// Error implements error.
func (r *Refused) Error() string { return fmt.Sprintf("the bucket answers %d %s", r.Status, r.Code) }
