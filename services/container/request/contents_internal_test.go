package request

import (
	"encoding/base64"
	"strings"
	"testing"
)

func TestDecodeBase64(t *testing.T) {
	t.Parallel()
	const text = "FROM a\xff\xfe?>~\nRUN b"
	std := base64.StdEncoding.EncodeToString([]byte(text))
	for name, in := range map[string]string{
		"standard": std, "not padded": strings.TrimRight(std, "="), "for addresses": base64.URLEncoding.EncodeToString([]byte(text)),
		"for addresses, not padded": base64.RawURLEncoding.EncodeToString([]byte(text)),
		"in lines":                  std[:8] + "\n" + std[8:16] + "\r\n\t " + std[16:] + "\n",
	} {
		if got, err := Decode(in); err != nil || string(got) != text {
			t.Errorf("%s: %q is read as %q, %v", name, in, got, err)
		}
	}
	for _, in := range []string{"a", "ab=c", "ab*d", "=ab", "{}", "é"} {
		if got, err := Decode(in); err == nil {
			t.Errorf("%q is read as %q", in, got)
		}
	}
}

func FuzzDecodeBase64(f *testing.F) {
	f.Add([]byte("FROM alpine"), "\n")
	f.Fuzz(func(t *testing.T, raw []byte, blank string) {
		in := base64.RawURLEncoding.EncodeToString(raw)
		if strings.Trim(blank, " \t\r\n") == "" {
			in = in[:len(in)/2] + blank + in[len(in)/2:]
		}
		if got, err := Decode(in); err != nil || string(got) != string(raw) {
			t.Errorf("%q is read as %q, %v", in, got, err)
		}
		_, _ = Decode(blank)
	})
}
