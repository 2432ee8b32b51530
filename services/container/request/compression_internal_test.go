package request

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
)

// TestCompressions checks which compressions may be requested for which content.
func TestCompressions(t *testing.T) {
	t.Parallel()
	const (
		file     = `"containerFile": "RlJPTSBhCg=="`
		image    = `"containerImage": "a"`
		packages = `"packages": {"type": "CONDA", "entries": ["bwa"]}`
		steps    = packages + `, "buildTemplate": "conda/micromamba:v2"`
		lock     = `"packages": {"type": "CONDA", "entries": ["https://h.example/conda.lock"]}`
		own      = `"packages": {"type": "CONDA", "entries": ["bwa"], "condaOpts": {"mambaImage": "m"}}`
	)
	for _, tc := range []struct{ of, compression, want string }{
		{file, `{}`, ""},
		{file, `{"mode": "gzip"}`, ""},
		{file, `{"mode": "gzip", "level": 0}`, ""},
		{file, `{"mode": "gzip", "level": 9, "force": true}`, ""},
		{file, `{"level": 9}`, ""},
		{file, `{"mode": "zstd", "level": 1}`, ""},
		{file, `{"mode": "zstd", "level": "22", "force": true}`, ""},
		{file, `{"mode": "estargz", "level": 9}`, ""},
		{file, `{"mode": "lz4"}`, `buildCompression.mode must be one of gzip, zstd, estargz, zstd:chunked, erofs, erofs+zstd, not "lz4"`},
		{file, `{"mode": "ZSTD"}`, "buildCompression.mode must be one of"},
		{file, `{"level": 10}`, "buildCompression.level must be 0 to 9 for gzip, not 10"},
		{file, `{"mode": "gzip", "level": -1}`, "buildCompression.level must be 0 to 9 for gzip, not -1"},
		{file, `{"mode": "estargz", "level": 22}`, "buildCompression.level must be 0 to 9 for estargz, not 22"},
		{file, `{"mode": "zstd", "level": 0}`, "buildCompression.level must be 1 to 22 for zstd, not 0"},
		{file, `{"mode": "zstd", "level": 23}`, "buildCompression.level must be 1 to 22 for zstd, not 23"},
		{image, `{"mode": "gzip", "force": false}`, ""},
		{image, `{"mode": "zstd"}`, ""}, // clients send it with every request
		{image, `{"mode": "lz4"}`, "buildCompression.mode must be one of"},
		{image + `, "format": "sif"`, `{"mode": "zstd"}`, ""},
		{image + `, "freeze": true, "buildRepository": "q.example/a"`, `{"force": true}`, ""},
		{packages, `{"mode": "zstd", "level": 19}`, ""},
		{packages, `{"mode": "gzip", "level": 1}`, ""},
		{packages, `{"mode": "estargz", "level": 9}`, ""},
		{packages, `{"mode": "zstd:chunked", "level": 22}`, ""},
		{packages, `{"mode": "estargz", "force": true}`, "buildCompression.force is not for Conda packages"},
		{packages + `, "soci": true`, `{"mode": "zstd:chunked"}`, "soci requires layers with gzip"},
		{file, `{"mode": "zstd:chunked"}`, "buildCompression.mode zstd:chunked is for Conda packages that are put into layers as they are, but containerFile requires"},
		{steps, `{"mode": "zstd:chunked"}`, "buildCompression.mode zstd:chunked is for Conda packages"},
		{own, `{"mode": "zstd:chunked"}`, "buildCompression.mode zstd:chunked is for Conda packages"},
		{image, `{"mode": "zstd:chunked"}`, ""},
		{packages, `{"mode": "erofs"}`, ""},
		{packages, `{"mode": "erofs+zstd", "level": 22}`, ""},
		{packages + `, "format": "sif"`, `{"mode": "erofs"}`, ""},
		{image, `{"mode": "erofs"}`, ""},
		{packages, `{"mode": "erofs", "level": 1}`, "buildCompression.level is not for erofs"},
		{packages, `{"mode": "erofs+zstd", "level": 0}`, "buildCompression.level must be 1 to 22 for erofs+zstd, not 0"},
		{packages, `{"mode": "erofs", "force": true}`, "buildCompression.force is not for Conda packages"},
		{file, `{"mode": "erofs"}`, "buildCompression.mode erofs is for Conda packages that are put into layers as they are, but containerFile requires"},
		{steps, `{"mode": "erofs+zstd"}`, "buildCompression.mode erofs+zstd is for Conda packages"},
		{packages + `, "soci": true`, `{"mode": "erofs"}`, "soci requires layers with gzip, and buildCompression.mode is erofs"},
		{packages + `, "mount": true`, `{"mode": "erofs"}`, "mount and buildCompression.mode erofs exclude each other"},
		{packages, `{"mode": "zstd", "force": true}`, "buildCompression.force is not for Conda packages"},
		{`"condaFile": "ZGVwZW5kZW5jaWVzOiBbYndhXQo="`, `{"mode": "estargz"}`, ""},
		{steps, `{"mode": "estargz"}`, ""},
		{own, `{"mode": "estargz"}`, ""},
		{file + `, "soci": true`, `{"mode": "zstd"}`, "soci requires layers with gzip, and buildCompression.mode is zstd"},
		{packages + `, "soci": true`, `{"mode": "zstd"}`, "soci requires layers with gzip"},
		{file + `, "soci": true`, `{"mode": "estargz"}`, ""},
		{image + `, "soci": true`, `{"mode": "zstd"}`, ""},
		{lock, `{"mode": "zstd", "force": true}`, "buildCompression.force is not for Conda packages"},
	} {
		r := &containerv1.ContainerRequest{}
		if err := protojson.Unmarshal([]byte("{"+tc.of+`, "buildCompression": `+tc.compression+"}"), r); err != nil {
			t.Fatal(err)
		}
		_, err := readAll(r, false)
		if tc.want == "" && err != nil || tc.want != "" && (!errors.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), tc.want)) {
			t.Errorf("%s of %s: got %v, want %q", tc.compression, tc.of, err, tc.want)
		}
	}
}
