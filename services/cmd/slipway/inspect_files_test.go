package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

const (
	listed = `{"digest":"sha256:l1","size":100,"entries":5,"unpacked":29700000,"files":[{"path":"usr/bin/env","type":"file","size":29700000,"mode":"4755"},` +
		`{"path":"bin","type":"symlink","mode":"0777","linkTarget":"usr/bin"},{"path":"etc/pass\u001b[2Jwd","type":"removed"}],"nextPageToken":"Zm9v"}`
	listedText = `TYPE     MODE  SIZE     PATH
file     4755  29.7 MB  usr/bin/env
symlink  0777           bin -> usr/bin
removed                 etc/passwd
`
)

// TestInspectFiles shows a layer by its digest.
func TestInspectFiles(t *testing.T) {
	t.Parallel()
	layer := "sha256:" + strings.Repeat("0f", 32)
	post, body := "POST /v1alpha1/inspect/files?layer=sha256%3A"+strings.Repeat("0f", 32), `{"containerImage":"ubuntu:24.04"}`
	for _, s := range []sight{
		{
			name: "a page", args: []string{"inspect", "ubuntu:24.04", "--files", layer},
			env: map[string]string{"SLIPWAY_TOKEN": "tok"},
			ex:  exchange{call: post, auth: "Bearer tok", body: body, answer: listed}, out: listedText, errs: []string{"There are more: --page Zm9v"},
		}, {
			name: "a part", args: []string{"inspect", "ubuntu:24.04", "--files", layer, "--platform", "linux/arm64", "--filter", "bin", "--sort", "size", "--max", "3", "--page", "YQ"},
			ex:  exchange{call: strings.Replace(post, "layer=", "filter=bin&layer=", 1) + "&max=3&pageToken=YQ&platform=linux%2Farm64&sort=size", body: body, answer: `{"entries":5}`},
			out: "", errs: []string{"No path in the layer has this text."},
		}, {
			name: "names", args: []string{"inspect", "ubuntu:24.04", "--files", layer, "-o", "name"},
			ex: exchange{call: post, body: body, answer: `{"files":[{"path":"a b","type":"file","size":1}]}`}, out: "a b\n",
		}, {
			name: "JSON", args: []string{"inspect", "ubuntu:24.04", "--files", layer, "-o", "json"},
			ex: exchange{call: post, body: body, answer: `{"files":[{"path":"a"}]}`}, out: "{\n  \"files\": [\n    {\n      \"path\": \"a\"\n    }\n  ]\n}\n",
		}, {
			name: "nothing", args: []string{"inspect", "ubuntu:24.04", "--files", layer},
			ex: exchange{call: post, body: body, answer: `{"entries":0}`}, errs: []string{"The layer changes no files."},
		}, {
			name: "refused", args: []string{"inspect", "ubuntu:24.04", "--files", layer},
			ex: exchange{call: post, body: body, status: http.StatusBadRequest, answer: `{"message":"The layer is damaged"}`}, errs: []string{"listing the files of " + layer, "is damaged"}, code: 1,
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.check(t)
		})
	}
}

// TestInspectFilesOf finds a layer by its number or by a prefix of its digest.
func TestInspectFilesOf(t *testing.T) {
	t.Parallel()
	const image = `{"container":{"manifest":{"layers":[{"digest":"sha256:aa11"},{"digest":"sha256:ab22"},{"digest":"sha256:aa11"}]}}}`
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		answer := image
		if layer := r.URL.Query().Get("layer"); layer != "" {
			answer = `{"files":[{"path":"of ` + layer + `","type":"file","size":1,"mode":"0644"}]}`
		}
		_, _ = io.WriteString(w, answer)
	})
	for name, want := range map[string]string{
		"2": "of sha256:ab22", "aa": "of sha256:aa11", "sha256:ab": "of sha256:ab22",
		"a": "the digests of 2 layers begin with a", "4": "there is no layer 4: the image has 3", "0": "there is no layer 0", "c": "there is no layer c",
	} {
		got := slipway(t.Context(), nil, "--server", server, "inspect", "ubuntu:24.04", "--files", name)
		if !strings.Contains(got.out+got.errs, want) || (got.code == 0) != strings.HasPrefix(want, "of ") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := slipway(t.Context(), nil, "--server", server, "inspect", "ubuntu:24.04", "--sort", "size"); got.code == 0 || !strings.Contains(got.errs, "are for --files LAYER") {
		t.Errorf("without --files: %+v", got)
	}
}
