package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

// outcome is the result of a command.
type outcome struct {
	out, errs string
	code      int
}

// slipway runs a command line in its own environment.
func slipway(ctx context.Context, env map[string]string, args ...string) outcome {
	return slipwayWith(ctx, "", env, args...)
}

// slipwayWith runs the command line with a standard input.
func slipwayWith(ctx context.Context, in string, env map[string]string, args ...string) outcome {
	var out, errs bytes.Buffer
	root := command(func(name string) string { return env[name] }, args...)
	root.SetArgs(args)
	root.SetIn(strings.NewReader(in))
	root.SetOut(&out)
	root.SetErr(&errs)
	code := run(ctx, root)
	return outcome{out.String(), errs.String(), code}
}

// exchange is the one call that a server expects, and its response.
type exchange struct {
	call   string // method and URI
	auth   string
	body   string // JSON; empty for none
	status int    // 0 for 200
	header map[string]string
	answer string
}

func (e exchange) serve(t *testing.T) string {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Method + " " + r.RequestURI; got != e.call {
			t.Errorf("called %q, want %q", got, e.call)
		}
		if got := r.Header.Get("Authorization"); got != e.auth {
			t.Errorf("Authorization %q, want %q", got, e.auth)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the body: %v", err)
		}
		if !sameJSON(string(body), e.body) {
			t.Errorf("sent %s, want %s", body, e.body)
		}
		for name, value := range e.header {
			w.Header().Set(name, value)
		}
		if e.status != 0 {
			w.WriteHeader(e.status)
		}
		_, _ = io.WriteString(w, e.answer)
	})
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// sameJSON compares values, since protojson's spacing is random.
func sameJSON(a, b string) bool {
	if a == "" || b == "" {
		return a == b
	}
	var va, vb any
	if json.Unmarshal([]byte(a), &va) != nil || json.Unmarshal([]byte(b), &vb) != nil {
		return false
	}
	return reflect.DeepEqual(va, vb)
}

// sight is a command and its expected result. errs are parts of standard error; without any,
// standard error must be empty.
type sight struct {
	name string
	args []string
	env  map[string]string
	ex   exchange
	out  string
	errs []string
	code int
}

func (s sight) check(t *testing.T) {
	t.Helper()
	args := append([]string{"--server", s.ex.serve(t)}, s.args...)
	got := slipway(t.Context(), s.env, args...)
	if got.out != s.out {
		t.Errorf("printed\n%s\nwant\n%s", got.out, s.out)
	}
	if got.code != s.code {
		t.Errorf("exit code %d, want %d", got.code, s.code)
	}
	if len(s.errs) == 0 && got.errs != "" {
		t.Errorf("unexpected error %q", got.errs)
	}
	for _, want := range s.errs {
		if !strings.Contains(got.errs, want) {
			t.Errorf("error %q does not contain %q", got.errs, want)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		env  map[string]string
		want string
	}{
		{name: "unknown command", args: []string{"frobnicate"}, want: "there is no command \"frobnicate\"\nSee `slipway --help`."},
		{name: "nearly a command", args: []string{"buidl"}, want: "there is no command \"buidl\"; did you mean `slipway build`"},
		{name: "a version as docker has it", args: []string{"conda", "samtools:1.20"}, want: "\"samtools:1.20\": a version follows =, as in samtools=1.20"},
		{name: "unknown flag", args: []string{"info", "--token", "x"}, want: "unknown flag: --token\nSee `slipway info --help`."},
		{name: "no reference", args: []string{"image"}, want: "0 arguments instead of 1; write it as `slipway image REF [flags]`"},
		{name: "two references", args: []string{"inspect", "a", "b"}, want: "2 arguments instead of 1"},
		{name: "superfluous argument", args: []string{"info", "a"}, want: "1 argument instead of 0"},
		{name: "format", args: []string{"info", "-o", "xml"}, want: "must be text, wide, json, yaml or name"},
		{name: "variable", args: []string{"image", "a", "--env", "PATH"}, want: "must be NAME=value"},
		{name: "variable without a name", args: []string{"image", "a", "--env", "=x"}, want: "must be NAME=value"},
		{name: "server", args: []string{"info", "--server", "localhost:9090"}, want: "must be a URL such as http://localhost:9090"},
		{name: "server of the environment", args: []string{"info"}, env: map[string]string{"SLIPWAY_SERVER": "ftp://x"}, want: `not "ftp://x"`},
		{name: "image instead of id", args: []string{"status", "quay.io/a/b/c:1"}, want: "is not the id of a request, the id of a build"},
		{name: "empty id", args: []string{"describe", ""}, want: "is not the id of a request, the id of a build"},
		{name: "id with a path", args: []string{"revoke", "../x"}, want: "is not the id of a request, the id of a build"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := slipway(t.Context(), c.env, c.args...)
			if got.code != 2 || got.out != "" || !strings.Contains(got.errs, c.want) {
				t.Errorf("got %+v, want exit code 2 and %q", got, c.want)
			}
		})
	}
}

func TestHelpVersionCompletion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"", "\nImages:\n  batch "},
		{"--help", "\nThis program:\n  completion "},
		{"--help", "SLIPWAY_TOKEN"},
		{"image --help", "--layer"},
		{"login --help", "--token-stdin"},
		{"tokens create --help", "slipway tokens create ci --expires-in 90d > token"},
		{"credentials --help", "No command shows a\nstored secret"},
		{"credentials add --help", "--password-stdin"},
		{"runs list --help", "--search 'rnaseq status:FAILED after:2026-01-31'"},
		{"runs show --help", "the exit code reports"},
		{"--version", "slipway version 0.0.0-dev (unknown)"},
		{"completion bash", "bash completion"},
		{"completion zsh", "#compdef slipway"},
		{"completion fish", "fish completion"},
		{"completion powershell", "powershell completion"},
	} {
		got := slipway(t.Context(), nil, strings.Fields(c.args)...)
		if got.code != 0 || !strings.Contains(got.out, c.want) {
			t.Errorf("slipway %s: exit code %d, %q, want %q", c.args, got.code, got.out, c.want)
		}
	}
}

// TestVersion checks the User-Agent, by which programs are distinguished.
func TestVersion(t *testing.T) {
	t.Parallel()
	if got := slipway(t.Context(), nil, "version"); got.code != 0 || !strings.HasPrefix(got.out, "slipway "+version+" (") {
		t.Errorf("%+v", got)
	}
}
