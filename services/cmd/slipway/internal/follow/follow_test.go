package follow

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/session"
)

// clientOf returns a client of a server with this handler.
func clientOf(t *testing.T, h http.HandlerFunc) *session.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	var in session.Settings
	in.Add(&cobra.Command{}, func(name string) string { return map[string]string{"SLIPWAY_SERVER": s.URL}[name] })
	c, err := in.Client()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// events writes a line of a log and additional text.
func events(w http.ResponseWriter, more string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, "retry: 1\n\nevent: log\nid: 1\ndata: line\n\n"+more)
	_ = http.NewResponseController(w).Flush()
}

func TestFollowerGivesUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events func(w http.ResponseWriter, r *http.Request)
		want   string
	}{
		"silence": {func(w http.ResponseWriter, r *http.Request) {
			events(w, "")
			<-r.Context().Done()
		}, "nothing was received for 50ms"},
		"silence from the start": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "nothing was received for 50ms"},
		"breaks":                 {func(w http.ResponseWriter, _ *http.Request) { events(w, "") }, "the connection ended before the build"},
		"an odd end":             {func(w http.ResponseWriter, _ *http.Request) { events(w, "event: done\ndata: x\n\n") }, "does not answer like a Slipway server"},
		"refused":                {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "502 Bad Gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFollower(clientOf(t, c.events), "beef_1", func(event) error { return nil })
			f.silence, f.patience = time.Minute, time.Nanosecond
			if strings.HasPrefix(name, "silence") {
				f.silence = 50 * time.Millisecond
			}
			if _, err := f.run(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	t.Run("nobody reads it", func(t *testing.T) {
		t.Parallel()
		c := clientOf(t, func(w http.ResponseWriter, _ *http.Request) { events(w, "event: done\ndata: {\"succeeded\":true}\n\n") })
		f := newFollower(c, "beef_1", func(event) error { return os.ErrClosed })
		if _, err := f.run(t.Context()); !errors.Is(err, os.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// TestTerminal checks that the last line shows the duration and is removed at the end.
func TestTerminal(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	c := &Console{w: &b, live: true, phases: true, start: time.Now()}
	err := c.during(func() error {
		return errors.Join(c.show(event{"log", "one"}), c.show(event{"phase", "push"}), c.show(event{"log", "two"}))
	})
	const erase = "\r\x1b[K"
	want := erase + "waiting for a worker 0s" + erase + "one\nwaiting for a worker 0s" + erase + "==> push (0s)\npush 0s" + erase + "two\npush 0s" + erase
	if err != nil || b.String() != want {
		t.Errorf("got %q, %v\nwant %q", b.String(), err, want)
	}
}
