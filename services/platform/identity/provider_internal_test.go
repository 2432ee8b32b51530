package identity

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway.dev/services/internal/limits"
)

// endlessServer starts a server that responds with head, followed by repetitions of unit
// until the client disconnects, or 64 MiB.
func endlessServer(t testing.TB, head, unit string) *httptest.Server {
	t.Helper()
	piece := strings.Repeat(unit, 64<<10/len(unit))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, head)
		for n := 0; err == nil && n < 64<<20; n += len(piece) {
			_, err = io.WriteString(w, piece)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestProviderResponsesAreBounded reads an endless response of a provider.
func TestProviderResponsesAreBounded(t *testing.T) {
	s := endlessServer(t, `{"keys":[`, `{},`)
	p := newProvider(Deps{Endpoint: "https://slipway.test"})
	resp, err := p.client.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if n > limits.ProviderAnswer || !errors.As(err, new(*http.MaxBytesError)) {
		t.Errorf("read %d bytes, %v", n, err)
	}
}
