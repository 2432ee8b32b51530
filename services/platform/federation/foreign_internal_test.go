package federation

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit/heap"
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

// TestForeignAnswersAreBounded asks a platform that answers what takes memory.
func TestForeignAnswersAreBounded(t *testing.T) {
	f := &Service{client: http.DefaultClient}
	for _, tc := range []struct{ name, head, one string }{
		{"without an end", `{"credentials":[`, `{},`},
		{"of one text", `{"a":"`, `x`},
	} {
		s := answering(t, tc.head, tc.one)
		heap.Within(t, 0, 64<<20, nil, func() {
			var answer struct{ Credentials []struct{ A [20]string } }
			err := f.ask(t.Context(), request{method: http.MethodGet, endpoint: s.URL, path: "/x"}, &answer)
			if !errors.Is(err, fault.Unavailable) {
				t.Errorf("%s: got %v", tc.name, err)
			}
		})
	}
	raw := []byte(`{"credentials":[` + strings.Repeat(`{},`, limits.PlatformAnswer/3-100) + `{}]}`)
	heap.Within(t, 8, 1<<20, raw, func() {
		var answer struct{ Credentials []struct{ A [20]string } }
		if answerShape().Decode(raw, &answer) == nil {
			t.Error("a million credentials of nothing are read")
		}
	})
}
