package store_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/oci"
)

// BenchmarkServe reads a blob of 64 MB that is a file, and one that is composed of 64 parts.
func BenchmarkServe(b *testing.B) {
	s := newServedStore(b)
	var pieces []oci.Piece
	var all []byte
	for i := range uint64(64) {
		content := noise(i, 1<<20)
		pieces = append(pieces, oci.Piece{Digest: s.blob(b, "builds", content), Length: 1 << 20})
		all = append(all, content...)
	}
	file, composed := s.blob(b, "builds/file", all), digest.FromBytes(all)
	if status, why := s.upload(b, ownLogin(), "builds", composed, document(b, pieces...), oci.TypeComposition); status != http.StatusCreated {
		b.Fatalf("composing returned %d %s", status, why)
	}
	for name, path := range map[string]string{"file": "/v2/builds/file/blobs/" + file.String(), "composed": "/v2/builds/blobs/" + composed.String()} {
		for _, r := range []struct{ name, header string }{{"whole", ""}, {"128 KiB", "bytes=20000000-20131071"}} {
			b.Run(name+"/"+r.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://"+s.host+path, http.NoBody)
					if err != nil {
						b.Fatal(err)
					}
					req.SetBasicAuth("slipway", "secret")
					if r.header != "" {
						req.Header.Set("Range", r.header)
					}
					resp, err := http.DefaultClient.Do(req)
					if err != nil {
						b.Fatal(err)
					}
					n, err := io.Copy(io.Discard, resp.Body)
					b.SetBytes(n)
					if err := resp.Body.Close(); err != nil {
						b.Fatal(err)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
