package bucket_test

import (
	"strings"
	"testing"

	"slipway.dev/services/internal/bucket"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bucket.Address{
		"s3://blobs":                             {Bucket: "blobs"},
		"s3://blobs/":                            {Bucket: "blobs"},
		"s3://my.blobs/a/b/?region=eu-west-1":    {Bucket: "my.blobs", Prefix: "a/b/", Region: "eu-west-1"},
		"s3://blobs/a?endpoint=http://minio:900": {Bucket: "blobs", Prefix: "a/", Endpoint: "http://minio:900"},
		"s3://blobs?endpoint=https%3A%2F%2Fs3&public_endpoint=https://s3.example.org": {
			Bucket: "blobs", Endpoint: "https://s3", PublicEndpoint: "https://s3.example.org",
		},
	} {
		if got, err := bucket.Parse(text); err != nil || got != want {
			t.Errorf("%s was parsed as %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "blobs", "/blobs", "http://blobs", "s3://", "s3://B", "s3://b", "s3://a..b?x", "s3://blobs/a/../b", "s3://blobs/a//b", "s3://blobs/ä",
		"s3://blobs?secret=geheim", "s3://key:geheim@blobs", "s3://key:geheim%zz@blobs", "s3://blobs?endpoint=geheim", "s3://blobs?endpoint=https://u:geheim@h",
		"s3://blobs?endpoint=https://h/geheim", "s3://blobs?endpoint=ftp://h", "s3://blobs?region=eu&region=us", "s3://blobs?region=", "s3://blobs#geheim", "s3://blobs?%zz",
	} {
		if got, err := bucket.Parse(text); err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%q was parsed as %+v, %v", text, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("s3://blobs/a?region=eu-west-1&endpoint=https://h:9000&public_endpoint=https://h")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := bucket.Parse(text)
		if err != nil {
			return
		}
		again, err := bucket.Parse(a.String())
		if err != nil || again.Bucket != a.Bucket || again.Prefix != a.Prefix {
			t.Errorf("%q was parsed as %+v, and its String as %+v, %v", text, a, again, err)
		}
		b, err := bucket.Open(a, "")
		if err == nil {
			b.Close()
		}
	})
}
