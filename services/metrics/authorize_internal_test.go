package metrics

import (
	"encoding/base64"
	"testing"
)

func TestAccessToken(t *testing.T) {
	t.Parallel()
	token := base64.StdEncoding.EncodeToString([]byte(`{"tid":1}.00`))
	basic := func(login string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(login)) }
	for header, want := range map[string]string{
		"Bearer " + token: token, "bearer  " + token: token, "Bearer a.b.c": "a.b.c", basic("@token:" + token): token, basic(":" + token): token,
		basic("ada:secret"): "", basic(token): "", "Basic " + token: "", "Basic !": "", "Bearer": "", "": "", "Digest " + token: "",
	} {
		if got := accessToken(header); got != want {
			t.Errorf("accessToken(%q) = %q, want %q", header, got, want)
		}
	}
}

func FuzzAccessToken(f *testing.F) {
	f.Add("Bearer x")
	f.Add("Basic OnRva2Vu")
	f.Fuzz(func(t *testing.T, header string) {
		if token := accessToken(header); len(token) > len(header) {
			t.Errorf("accessToken(%q) = %q", header, token)
		}
	})
}
