package main

import (
	"net/http"
	"strings"
	"testing"
)

// ada is the metrics account "ada:secret" as it is sent.
const ada = "Basic YWRhOnNlY3JldA=="

func TestMetrics(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, args string
		exchange   exchange
		want       string
	}{
		{
			"all organisations", "builds",
			exchange{call: "GET /v1alpha2/metrics/builds", answer: `{"metric":"builds","count":12,"orgs":{"b.org":2,"a.org":10}}`},
			"ORGANISATION  COUNT\na.org         10\nb.org         2\ntotal         12\n",
		},
		{
			"a day", "pulls --date 2026-02-28",
			exchange{call: "GET /v1alpha2/metrics/pulls?date=2026-02-28", answer: `{"metric":"pulls","count":12,"orgs":{"a.org":10}}`},
			"ORGANISATION  COUNT\na.org         10\n(none)        2\ntotal         12\n",
		},
		{
			"both", "filesystem --date 2026-02-28 --org a.org",
			exchange{call: "GET /v1alpha2/metrics/filesystem/pulls?date=2026-02-28&org=a.org", answer: `{"count":1e6}`},
			"ORGANISATION  COUNT\ntotal         1000000\n",
		},
		{
			"a signed-in administrator", "pulls",
			exchange{call: "GET /v1alpha2/metrics/pulls", auth: "Bearer secret", answer: `{"metric":"pulls","count":0,"orgs":{}}`},
			"ORGANISATION  COUNT\ntotal         0\n",
		},
		{
			"the server's own words", "pulls --org a.org -o json",
			exchange{call: "GET /v1alpha2/metrics/pulls?org=a.org", answer: `{"metric":"pulls","count":0,"orgs":{"a.org":0},"later":1}`},
			"{\n  \"metric\": \"pulls\",\n  \"count\": 0,\n  \"orgs\": {\n    \"a.org\": 0\n  },\n  \"later\": 1\n}\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"SLIPWAY_TOKEN": "secret"}
			if c.exchange.auth == "" {
				c.exchange.auth, env["SLIPWAY_METRICS_USER"] = ada, "ada:secret"
			}
			env["SLIPWAY_SERVER"] = c.exchange.serve(t)
			got := slipway(t.Context(), env, strings.Fields("metrics "+c.args)...)
			if got.out != c.want || got.code != 0 {
				t.Errorf("got %d\n%s%s\nwant\n%s", got.code, got.out, got.errs, c.want)
			}
		})
	}
}

func TestMetricsChart(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != ada || r.URL.Query().Get("org") != "a.org" {
			t.Errorf("asked %s", r.RequestURI)
		}
		answers := map[string]string{"2026-02-27": "0", "2026-02-28": "1600", "2026-03-01": "1", "2026-03-02": "500"}
		_, _ = w.Write([]byte(`{"count":` + answers[r.URL.Query().Get("date")] + `}`))
	})
	args := []string{"metrics", "pulls", "--server", url, "--user", "ada:secret", "--days", "4", "--date", "2026-03-02", "--org", "a.org"}
	want := "DAY         COUNT\n" +
		"2026-02-27      0  \n" +
		"2026-02-28   1600  " + strings.Repeat("█", 50) + "\n" +
		"2026-03-01      1  ▏\n" +
		"2026-03-02    500  " + strings.Repeat("█", 15) + "▋\n"
	if got := slipway(t.Context(), nil, args...); got.out != want || got.code != 0 {
		t.Errorf("got %d\n%s%s\nwant\n%s", got.code, got.out, got.errs, want)
	}
	got := slipway(t.Context(), nil, append(args, "-o", "json")...)
	if !sameJSON(got.out, `{"metric":"pulls","org":"a.org","days":[{"date":"2026-02-27","count":0},{"date":"2026-02-28","count":1600},
		{"date":"2026-03-01","count":1},{"date":"2026-03-02","count":500}]}`) {
		t.Errorf("got %s%s", got.out, got.errs)
	}
}

func TestMetricsRefusals(t *testing.T) {
	t.Parallel()
	refused := exchange{
		call: "GET /v1alpha2/metrics/builds", auth: "Basic YTpi", status: http.StatusUnauthorized,
		header: map[string]string{"Www-Authenticate": `Basic realm="slipway"`}, answer: `{"message":"The name or password is wrong"}`,
	}
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"metrics builds", "SLIPWAY_METRICS_USER", 2},
		{"metrics builds --user ada", "NAME:PASSWORD", 2},
		{"metrics builds --user a:b --days 367", "--days", 2},
		{"metrics builds --user a:b --days -1", "--days", 2},
		{"metrics builds --user a:b --days 2 --date x", "--date", 2},
		{"metrics images", `there is no command "images"`, 2},
		{"metrics builds --user a:b", "The name or password is wrong (it is read from SLIPWAY_METRICS_USER", 1},
	} {
		env := map[string]string{"SLIPWAY_SERVER": refused.serve(t)}
		if got := slipway(t.Context(), env, strings.Fields(c.args)...); got.code != c.code || !strings.Contains(got.errs, c.want) || got.out != "" {
			t.Errorf("%s: got %d %s%s", c.args, got.code, got.out, got.errs)
		}
	}
}
