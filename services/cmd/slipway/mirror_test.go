package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestMirror checks the requests of `slipway mirror` and the order of the names that it prints.
func TestMirror(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1alpha2/container":
			raw, _ := io.ReadAll(r.Body)
			body := string(raw)
			if !strings.Contains(body, `"mirror":true`) || !strings.Contains(body, `"buildRepository":"registry.example.org/mirror"`) {
				t.Errorf("requested %s", body)
			}
			for _, image := range []string{"a:1", "b:1"} {
				if strings.Contains(body, `"containerImage":"`+image+`"`) {
					_, _ = io.WriteString(w, `{"requestId":"abc123","targetImage":"registry.example.org/mirror/library/`+image+`","buildId":"beef_1","mirror":true,"cached":true,"succeeded":true}`)
					return
				}
			}
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"message":"containerImage: there is no such image"}`)
		default:
			http.NotFound(w, r)
		}
	})
	const names = "registry.example.org/mirror/library/a:1\nregistry.example.org/mirror/library/b:1\n"
	for _, c := range []struct {
		name      string
		in        string
		args      []string
		out, errs string
		code      int
	}{
		{name: "arguments", args: []string{"a:1", "b:1", "--to", "registry.example.org/mirror"}, out: names},
		{name: "standard input", in: "a:1\n\n# a comment\n b:1 \n", args: []string{"-", "--to", "registry.example.org/mirror", "--await"}, out: names},
		{name: "one fails", args: []string{"a:1", "absent", "b:1", "--to", "registry.example.org/mirror"}, out: names,
			errs: "slipway: mirroring absent: containerImage: there is no such image\n", code: 1},
		{name: "no target", args: []string{"a:1"}, errs: "slipway: --to is missing", code: 2},
		{name: "empty input", args: []string{"-", "--to", "r.example.org/m"}, errs: "slipway: standard input has no image", code: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := slipwayWith(t.Context(), c.in, nil, append([]string{"mirror", "--server", url}, c.args...)...)
			if got.out != c.out || !strings.HasPrefix(got.errs, c.errs) || got.code != c.code {
				t.Errorf("got %+v\nwant %q and %q", got, c.out, c.errs)
			}
		})
	}
}
