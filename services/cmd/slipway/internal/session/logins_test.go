package session

import (
	"net/url"
	"testing"
)

func TestServerKey(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"http://LOCALHOST:9090/": "http://localhost:9090", "https://a.b:443": "https://a.b", "http://a.b:443": "http://a.b:443",
		"https://a.b/x/": "https://a.b/x", "https://u:p@a.b": "https://a.b",
	} {
		u, err := url.Parse(s)
		if err != nil || serverKey(u) != want {
			t.Errorf("%s is %s, want %s", s, serverKey(u), want)
		}
	}
}
