package redact_test

import (
	"bytes"
	"encoding/base32"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"slipway.dev/services/internal/redact"
)

// token has the form of the tokens in image names.
const token = "k7mzq2vd4tyxwn3bpr5hcgaejs"

func TestText(t *testing.T) {
	t.Parallel()
	const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9"
	for in, want := range map[string]string{
		"/view/containers/" + token:                                 "/view/containers/k7mz…",
		"//v2/wt/" + token + "/library/alpine/manifests/3":          "//v2/wt/k7mz…/library/alpine/manifests/3",
		"/api/v1alpha2/container/" + token + "?x=1":                 "/api/v1alpha2/container/k7mz…?x=1",
		"/v2/wt/%6b7m" + token[3:]:                                  "/v2/wt/%6b7mz…",
		"/v2/wt/%256B" + token[1:]:                                  "/v2/wt/%256B7mz…",
		"x" + token + "y":                                           "xk7m…",
		token[:25]:                                                  "k7mz…",
		strings.ToUpper(token) + ",":                                "K7MZ…,",
		"eyJ0aWQiOjF9LjAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJj=":     "eyJ0…",
		"token " + jwt + ".":                                        "token eyJh….",
		"Get \"https://b.example/x?X-Amz-Signature=ab12&a=b\": EOF": "Get \"https://b.example/x?X-Amz-Signature=…&a=b\": EOF",
		"https://ada:secret@example.org/x":                          "https://…example.org/x",
		"Authorization: Bearer ghp_0123456789abcdefgh":              "Authorization: Bearer …",
		"it needs basic authentication":                             "it needs basic authentication",
		// Text without secrets is unchanged.
		"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"sha256:" + strings.Repeat("abcdef234567", 5) + "abcd":                    "sha256:" + strings.Repeat("abcdef234567", 5) + "abcd",
		"TestAttackForeignPagesInChromium(0xc000123456)":                          "TestAttackForeignPagesInChromium(0xc000123456)",
		"code=503 status=200 100% of 20%zz":                                       "code=503 status=200 100% of 20%zz",
		"/v1alpha1/builds/0123456789abcdef_1?max=10&sort=name":                    "/v1alpha1/builds/0123456789abcdef_1?max=10&sort=name",
		"%": "%",
		"":  "",
	} {
		if got := redact.Text(in); got != want {
			t.Errorf("%s becomes\n%s, want\n%s", in, got, want)
		}
	}
}

// FuzzText verifies that no eight consecutive characters of a random token remain, regardless
// of the surrounding text and the encoding.
func FuzzText(f *testing.F) {
	for i, before := range []string{"/view/containers/", "//v2/wt/", "/v1alpha1/builds/", "/api/v1alpha2/container/", "?x=", "a", "%", "%2", "%25", "A", "eyJ", "https://"} {
		f.Add(uint64(i), before, "/status", uint32(i*77), uint8(i%3))
	}
	f.Fuzz(func(t *testing.T, seed uint64, before, after string, encoded uint32, times uint8) {
		random := rand.New(rand.NewPCG(seed, 1))
		var raw [17]byte
		for i := range raw {
			raw[i] = byte(random.Uint32())
		}
		token := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw[:]))[:26]
		var carried strings.Builder
		for i := range token {
			if encoded>>i&1 == 0 {
				carried.WriteByte(token[i])
				continue
			}
			fmt.Fprintf(&carried, "%%%s%02x", strings.Repeat("25", int(times%4)), token[i])
		}
		got := redact.Text(before + carried.String() + after)
		for decoded := got; ; {
			for i := range len(token) - 7 {
				if strings.Contains(decoded, token[i:i+8]) {
					t.Fatalf("%q becomes %q, which holds %q", before+carried.String()+after, got, token[i:i+8])
				}
			}
			next, err := url.PathUnescape(decoded)
			if err != nil || next == decoded {
				return
			}
			decoded = next
		}
	})
}

// TestWriter redacts lines that are written in parts.
func TestWriter(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := redact.NewWriter(&out)
	for _, part := range []string{"one\ntwo " + token[:13], token[13:], " three\nfour", "\n"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := out.String(); got != "one\ntwo k7mz… three\nfour\n" {
		t.Errorf("%q", got)
	}
	out.Reset()
	if _, err := w.Write(bytes.Repeat([]byte("long "), 20_000)); err != nil || out.Len() != 100_000 {
		t.Errorf("%d bytes of a long unfinished line are written, %v", out.Len(), err)
	}
}

func BenchmarkBytes(b *testing.B) {
	line := []byte(`{"time":"2026-01-02T03:04:05.678901234Z","level":"INFO","msg":"Request","method":"GET","path":"/v2/wt/` + token + `/library/alpine/blobs/sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","status":200,"bytes":3623807,"ms":12.345,"client":"192.0.2.7","request_id":"ABCDEFGHIJKLMNOP"}` + "\n")
	b.ReportAllocs()
	for b.Loop() {
		redact.Bytes(line)
	}
}
