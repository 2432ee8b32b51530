package main

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBuildAsDockerDoes builds a directory with its Dockerfile, arguments, a stage and a
// tag.
func TestBuildAsDockerDoes(t *testing.T) {
	t.Parallel()
	var sent map[string]any
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, builtAnswer)
	})
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("ARG BASE=alpine:3.20\nFROM ${BASE} AS build\nFROM busybox\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "x"), []byte("x"), 0o600))
	got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": url}, "build", dir, "--build-arg", "BASE=debian:12", "--target", "build", "-t", "r.example/team/tools")
	if got.code != 0 || got.out != builtName {
		t.Fatalf("%+v", got)
	}
	text, _ := sent["containerFile"].(string)
	file, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !strings.Contains(string(file), `ARG BASE="debian:12"`) || strings.Contains(string(file), "busybox") {
		t.Errorf("sent %s, %v", file, err)
	}
	if sent["buildContext"] == nil || sent["buildRepository"] != "r.example/team/tools" || sent["freeze"] != true {
		t.Errorf("sent %v", sent)
	}
	for args, want := range map[string]string{
		"build " + dir + " --context " + dir:                 "DIR and --context name the same; give one",
		"build " + dir + " -t r.example/x:1":                 "omit :1",
		"build " + dir + " -t r.example/x --freeze r.test/y": "-t and --freeze name two repositories",
		"build " + dir + " --target none":                    "no stage",
		"build " + dir + " --build-arg X":                    "NAME=value",
	} {
		if got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": url}, strings.Fields(args)...); got.code != 2 || !strings.Contains(got.errs, want) {
			t.Errorf("%s: %+v, want %q", args, got, want)
		}
	}
}
