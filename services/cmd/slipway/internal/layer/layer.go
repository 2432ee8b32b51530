// Package layer creates a layer from local files or a URL: its bytes and their digests, and
// reports of omitted or suspicious files.
package layer

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
)

// DataPrefix marks a layer whose content is in the request.
const DataPrefix = "data:"

// Limits of gateway/contract/container-service.md#container-request: a location has
// at most 14,000,000 characters, its prefix included.
const (
	maxBase64  = 14_000_000 - len(DataPrefix)
	maxContent = int64(maxBase64 / 4 * 3)
)

// Read reads a layer from a directory, without ignored files, or from a tar.gz file or a
// URL. To the writer tell it reports the files of a directory that are omitted for other
// reasons, and those that look like secrets. The timeout applies to a download; 0 means none.
func Read(ctx context.Context, source string, patience time.Duration, ignored *Ignored, tell io.Writer) (*containerv1.Layer, error) {
	b := blob{gzip: sha256.New(), tar: sha256.New()}
	if strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://") {
		if err := b.download(ctx, source, patience); err != nil {
			return nil, err
		}
		return b.layer(source), nil
	}
	if err := readLocal(ctx, source, ignored, tell, &b); err != nil {
		return nil, err
	}
	if b.size > maxContent {
		return nil, fmt.Errorf("it is %d characters long as base64 (%s compressed), but the limit is %d; host it as a tar.gz file and give its http(s) URL instead",
			(b.size+2)/3*4, output.BytesText(float64(b.size)), maxBase64)
	}
	return b.layer(DataPrefix + base64.StdEncoding.EncodeToString(b.content)), nil
}

func readLocal(ctx context.Context, source string, ignored *Ignored, tell io.Writer, b *blob) error {
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		return pack(ctx, source, ignored, tell, b)
	}
	return b.read(f)
}

// download follows redirects. It sends no access token, since the layer is on another
// server.
func (b *blob) download(ctx context.Context, source string, patience time.Duration) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, source, nil)
	if err != nil {
		return fmt.Errorf("reading its URL: %w", err)
	}
	req.Header.Set("Accept-Encoding", "identity") // otherwise the transport may decompress it
	web := http.Client{Timeout: patience}
	res, err := web.Do(req)
	if err != nil {
		return fmt.Errorf("downloading it: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("downloading it: the server answered %s", res.Status)
	}
	return b.read(res.Body)
}

// blob receives a gzipped tar: it counts and hashes the bytes, and keeps them as long as
// they are few enough to send.
type blob struct {
	gzip, tar hash.Hash
	size      int64
	content   []byte // only the beginning if size exceeds maxContent
}

// Write receives compressed bytes. It never fails.
func (b *blob) Write(p []byte) (int, error) {
	b.gzip.Write(p)
	b.size += int64(len(p))
	if b.size <= maxContent {
		b.content = append(b.content, p...)
	}
	return len(p), nil
}

// read receives compressed data to its end.
func (b *blob) read(r io.Reader) error {
	unpacked, err := gzip.NewReader(io.TeeReader(r, b))
	if err != nil {
		return fmt.Errorf("reading it as a tar.gz file: %w", err)
	}
	if _, err := io.Copy(b.tar, unpacked); err != nil { //nolint:gosec // however large: it is hashed, not kept
		return fmt.Errorf("reading it as a tar.gz file: %w", err)
	}
	return nil
}

func (b *blob) layer(location string) *containerv1.Layer {
	return &containerv1.Layer{
		Location:   location,
		GzipDigest: "sha256:" + hex.EncodeToString(b.gzip.Sum(nil)),
		GzipSize:   proto.Int64(b.size),
		TarDigest:  "sha256:" + hex.EncodeToString(b.tar.Sum(nil)),
	}
}
