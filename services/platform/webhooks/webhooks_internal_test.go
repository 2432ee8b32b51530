package webhooks

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"slipway.dev/services/internal/limits"
)

// TestSignature checks the example of the Standard Webhooks specification.
func TestSignature(t *testing.T) {
	t.Parallel()
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := signature([]secret{{Key: key}}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), `{"test": 2432232314}`)
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("the signature is %s, want %s", got, want)
	}
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://hooks.example.org/a?b=c":    "https://hooks.example.org/a?b=c",
		" http://hooks.example.org:8080/x  ": "http://hooks.example.org:8080/x",
		"":                                   "https or http",
		"hooks.example.org":                  "https or http",
		"ftp://hooks.example.org":            "https or http",
		"file:///etc/passwd":                 "https or http",
		"https:///path":                      "https or http",
		"https://a b/":                       "https or http",
		"https://a/\nHost: b":                "https or http",
		"https://u:p@hooks.example.org":      "must not contain a user name",
		"https://hooks.example.org/#x":       "fragment",
		"https://hooks.example.org/#":        "fragment",
		"https://h/" + strings.Repeat("x", limits.WebhookURL): "at most",
		"https://h/\x00": "NUL",
	} {
		got, err := parseURL(text)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"https://hooks.example.org/a?b=c", "http://[::1]:80/", "https://u@h/#f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseURL(text)
		if err != nil {
			return
		}
		u, err := url.Parse(got)
		if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "http" && u.Scheme != "https" {
			t.Errorf("%q became %q: %v", text, got, err)
		}
		if again, err := parseURL(got); err != nil || again != got {
			t.Errorf("%q became %q, then %q: %v", text, got, again, err)
		}
	})
}

func TestParseEvents(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                              "*",
		"build.*":                       "build.*",
		"Build.Failed,container.ready":  "build.failed,container.ready",
		"build.failed,build.failed":     "build.failed",
		"build.exploded":                "error",
		"b*":                            "error",
		"webhook.test":                  "error",
		strings.Repeat("build.*,", 100): "error",
	} {
		var chosen []string
		if text != "" {
			chosen = strings.Split(text, ",")
		}
		events, err := parseEvents(chosen)
		got := strings.Join(events, ",")
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", text, got, err, want)
		}
	}
	if matches([]string{"build.*"}, "container.ready") || !matches([]string{"build.*"}, "build.failed") || !matches([]string{"*"}, "webhook.test") || matches([]string{"build.failed"}, "build.started") {
		t.Error("a pattern matches wrongly")
	}
}

// TestPauses checks that a message is attempted again soon, and then not more often than hourly.
func TestPauses(t *testing.T) {
	t.Parallel()
	var total time.Duration
	var n int
	for n = 1; total < limits.WebhookRetryPeriod; n++ {
		total += pause(n)
	}
	if pause(1) != 5*time.Second || pause(100) != limits.WebhookPause || n > 40 {
		t.Errorf("%d attempts in %s", n, total)
	}
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "120": 2 * time.Minute, "-5": 0, "999999999999": limits.WebhookPause, "x": 0, "99999999999999999999999": 0,
		"Sat, 31 Jan 2026 12:00:30 GMT": 30 * time.Second, "Sat, 31 Jan 2036 12:00:30 GMT": limits.WebhookPause, "Sat, 31 Jan 1996 12:00:30 GMT": 0,
	} {
		resp := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {header}}}
		if got := attemptOf(resp, now).retryAfter; got != want {
			t.Errorf("Retry-After %q: %s, want %s", header, got, want)
		}
	}
}
