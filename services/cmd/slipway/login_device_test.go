package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// deviceServer responds to the polling of a program that displays a code, and creates a
// token for it when it is allowed.
func deviceServer(t *testing.T, lifetime string, answers ...string) (url string, asked chan struct{}) {
	t.Helper()
	asked = make(chan struct{}, 1000)
	var count atomic.Int64
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/oauth/device_authorization":
			_, _ = io.WriteString(w, `{"device_code":"secret","user_code":"BDFG-HJKL","verification_uri":"https://p/oauth/device","interval":0.01,"expires_in":`+lifetime+`}`)
		case "/api/oauth/access_token":
			if r.PostFormValue("device_code") != "secret" || r.PostFormValue("client_id") != "slipway" || r.PostFormValue("grant_type") != "urn:ietf:params:oauth:grant-type:device_code" {
				t.Errorf("asked with %v", r.PostForm)
			}
			asked <- struct{}{}
			answer := answers[min(int(count.Add(1)), len(answers))-1]
			switch {
			case answer == "away":
				w.WriteHeader(http.StatusServiceUnavailable)
			case !strings.Contains(answer, "access_token"):
				w.WriteHeader(http.StatusBadRequest)
			}
			_, _ = io.WriteString(w, answer)
		case "/api/tokens":
			if r.Header.Get("Authorization") != "Bearer a.b.c" {
				t.Errorf("made by %s", r.Header.Get("Authorization"))
			}
			_, _ = io.WriteString(w, `{"accessKey":"lasting","token":{"id":1}}`)
		default:
			if r.Header.Get("Authorization") != "Bearer lasting" {
				w.WriteHeader(http.StatusForbidden)
			}
			_, _ = io.WriteString(w, `{"user":{"userName":"ada"}}`)
		}
	}), asked
}

func TestLoginOnAnotherMachine(t *testing.T) {
	t.Parallel()
	home := map[string]string{"HOME": t.TempDir()}
	pending := `{"error":"authorization_pending","message":"Ask again"}`
	url, asked := deviceServer(t, "900", pending, "away", pending, `{"access_token":"a.b.c"}`)
	got := slipway(t.Context(), home, "login", "--device", "--server", url)
	if got.code != 0 || got.out != "Signed in to "+url+" as ada.\n" || !strings.Contains(got.errs, "https://p/oauth/device") || !strings.Contains(got.errs, "BDFG-HJKL") || len(asked) != 4 {
		t.Fatalf("asked %d times, got %+v", len(asked), got)
	}
	if got := slipway(t.Context(), home, "whoami"); got.code != 0 || !strings.Contains(got.out, "ada") {
		t.Errorf("from then on: %+v", got)
	}

	for name, c := range map[string]struct{ lifetime, answer, want string }{
		"too late":       {"900", `{"error":"expired_token","message":"The code is over"}`, "signing in: The code is over"},
		"not entered":    {"1", pending, "the code was not entered within 1s"},
		"no such server": {"0", "", "check --server"},
	} {
		url, _ := deviceServer(t, c.lifetime, c.answer)
		if got := slipway(t.Context(), home, "login", "--device", "--server", url); got.code != 1 || !strings.Contains(got.errs, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	url, asked = deviceServer(t, "900", pending)
	go func() {
		<-asked
		stop()
	}()
	if got := slipway(ctx, home, "login", "--device", "--server", url); got.code != 1 || !strings.Contains(got.errs, "interrupted before the sign-in was complete") {
		t.Errorf("after Ctrl-C: %+v", got)
	}
}
