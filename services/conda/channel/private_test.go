package channel_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/upstream"
)

// TestPrivate checks that a login is only sent to its channel, in the form that its user
// name selects; that an index which was read with the login is not served to other callers;
// and that no log or message contains the login.
func TestPrivate(t *testing.T) {
	t.Parallel()
	for form, a := range map[string]channel.Access{
		"basic":  {Scope: "u1", Username: "ada", Password: "s3cret"},
		"bearer": {Scope: "u1", Username: "bearer", Password: "s3cret"},
		"token":  {Scope: "u1", Username: "token", Password: "s3cret"},
	} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			site := newWeb(t)
			shown := map[string]func(*http.Request) bool{
				"basic":  func(r *http.Request) bool { u, p, _ := r.BasicAuth(); return u == "ada" && p == "s3cret" },
				"bearer": func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer s3cret" },
				"token":  func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/t/s3cret/c/linux-64/") },
			}[form]
			broken := false
			site.answers(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case !shown(r):
					w.WriteHeader(http.StatusForbidden)
				case broken:
					w.WriteHeader(http.StatusBadGateway)
				case strings.HasSuffix(r.URL.Path, "/repodata.json"):
					_, _ = w.Write(repodata("1"))
				default:
					w.WriteHeader(http.StatusNotFound)
				}
			})
			w := open(t, site, t.TempDir())
			state, err := w.get(t, a)
			if err != nil {
				t.Fatal(err)
			}
			records, err := state.Index.Records("a")
			if err != nil || len(records) != 1 || strings.Contains(records[0].URL, "s3cret") || records[0].URL != site.URL+"/c/linux-64/a-1-0.conda" {
				t.Errorf("records are %+v, %v", records, err)
			}
			if got, err := w.versions(t); !errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), "store your login") {
				t.Errorf("without the login: %q, %v", got, err)
			}
			old := channel.Access{Scope: "u2", Username: a.Username, Password: "0ld"}
			if _, err := w.get(t, old); !errors.Is(err, fault.Denied) || !strings.Contains(err.Error(), "does not accept your login") || strings.Contains(err.Error(), "0ld") {
				t.Errorf("with another login: %v", err)
			}
			broken = true
			w.clock.forward(2 * time.Hour)
			_, _ = w.get(t, a)
			w.settled()
			site.Close()
			w.clock.forward(2 * time.Hour)
			_, _ = w.get(t, a)
			w.settled()
			state, _ = w.get(t, a)
			w.stop()
			if text := w.log.String() + state.Failure; strings.Contains(text, "s3cret") || state.Failure == "" {
				t.Errorf("the log or the error contains the login: %s", text)
			}
		})
	}
}

// TestRedirectReceivesNoToken checks that a redirect sends neither login nor address to
// another host.
func TestRedirectReceivesNoToken(t *testing.T) {
	t.Parallel()
	files, site := newWeb(t), newWeb(t)
	files.answers(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(repodata("1")) })
	site.answers(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "repodata.json") {
			http.NotFound(w, r)
			return
		}
		http.Redirect(w, r, "http://localhost:"+port(files)+"/file", http.StatusFound)
	})
	for _, a := range []channel.Access{{Scope: "1", Username: "token", Password: "s3cret"}, {Scope: "2", Username: "ada", Password: "s3cret"}} {
		egress, err := upstream.NewEgress([]string{"127.0.0.1", "localhost"})
		if err != nil {
			t.Fatal(err)
		}
		w := open(t, site, t.TempDir(), func(o *channel.Options) { o.Client = channel.NewClient(upstream.NewTransport(egress)) })
		if _, err := w.get(t, a); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range files.asked {
		if r.Header.Get("Authorization") != "" || r.Header.Get("Referer") != "" {
			t.Errorf("the other host received %v", r.Header)
		}
	}
	if len(files.asked) != 2 {
		t.Errorf("the other host received %d requests", len(files.asked))
	}
}

func port(s *web) string {
	u, err := url.Parse(s.URL)
	if err != nil {
		panic(err)
	}
	return u.Port()
}
