package layers

import (
	"context"
	"fmt"

	"github.com/opencontainers/go-digest"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// DecodeData decodes a `data:` layer and verifies it against the request. It returns
// fault.Invalid with the field if they differ.
func (u *Unpacking) DecodeData(ctx context.Context, field string, l *containerv1.Layer) ([]byte, error) {
	text, err := request.DataOf(l.GetLocation())
	if err != nil {
		return nil, fault.In(field+".location", err)
	}
	raw, err := request.Decode(text)
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
	switch _, busy := fault.As(err); {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case busy:
		return nil, err
	case err != nil:
		return nil, fault.Invalid.New(fmt.Sprintf("%s.location: the content is not a gzip file, or expands to more than %d MiB and more than %d times its length, or all layers of the request together expand to more than %d MiB",
			field, limits.LayerFloor>>20, limits.LayerRatio, limits.LayersExpanded>>20), err)
	}
	if tar.String() != l.GetTarDigest() {
		return nil, fault.Invalid.Newf("%s.tarDigest does not match the uncompressed content, whose digest is %s", field, tar)
	}
	return raw, nil
}
