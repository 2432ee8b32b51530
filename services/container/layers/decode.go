package layers

import (
	"context"
	"strings"

	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/fault"
)

// DecodeData reads the content of a `data:` layer and holds it against what the
// request says of it. fault.Invalid, naming the field, where they differ.
func (u *Unpacking) DecodeData(ctx context.Context, field string, l *containerv1.Layer) ([]byte, error) {
	raw, err := request.Decode(strings.TrimPrefix(l.GetLocation(), request.DataPrefix))
	if err != nil {
		return nil, fault.Invalid.New(field+".location: what follows data: must be base64", err)
	}
	if int64(len(raw)) != l.GetGzipSize() {
		return nil, fault.Invalid.Newf("%s.gzipSize is %d, but the content has %d bytes", field, l.GetGzipSize(), len(raw))
	}
	if d := digest.FromBytes(raw); d.String() != l.GetGzipDigest() {
		return nil, fault.Invalid.Newf("%s.gzipDigest does not match the content, whose digest is %s", field, d)
	}
	tar, err := u.tarDigest(ctx, raw)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fault.Invalid.New(field+".location: the content is not a gzip file, or uncompressed it holds more than a hundred times its length, or all layers of the request together more than 1 GiB", err)
	}
	if tar.String() != l.GetTarDigest() {
		return nil, fault.Invalid.Newf("%s.tarDigest does not match the uncompressed content, whose digest is %s", field, tar)
	}
	return raw, nil
}
