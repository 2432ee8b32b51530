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

// answering is a server that answers head, and then one until it is left alone.
func answering(t testing.TB, head, one string) *httptest.Server {
	t.Helper()
	piece := strings.Repeat(one, 64<<10/len(one))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, head)
		for n := 0; err == nil && n < 64<<20; n += len(piece) {
			_, err = io.WriteString(w, piece)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestProvidersAnswersEnd reads a provider that does not stop.
func TestProvidersAnswersEnd(t *testing.T) {
	s := answering(t, `{"keys":[`, `{},`)
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
