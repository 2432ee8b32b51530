package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// pipe returns the path of a pipe that the text can be read from once, in several parts.
func pipe(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(path, 0o600))
	done := make(chan error, 1)
	go func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			done <- err
			return
		}
		_, err = f.WriteString(text[:9])
		_, rest := f.WriteString(text[9:])
		done <- errors.Join(err, rest, f.Close())
	}()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return path
}

// TestBundlePipe checks that inputs are read once: all of a pipe is used, and a lock file can be one.
func TestBundlePipe(t *testing.T) {
	t.Parallel()
	up, url := testkit.NewRegistry(t, testkit.Open), serve(t, direct)
	image := testkit.Image(t, "amd64", true)
	one, two := up.Push(t, "lab/one:1", image), up.Push(t, "lab/two:2", image)
	in := fmt.Sprintf(`{"containerImage":"%s"}{"containerImage":"%s"}`, one, two)
	lock := fmt.Sprintf("{\n  \"version\": 1, \"containers\": [{\"name\":\"a\",\"image\":\"%s\",\"digest\":\"%s\"}], \"locks\": {}}", one, digestOf(t, image))
	for name, tc := range map[string]struct {
		in, input, want string
	}{
		"a pipe":                   {"", pipe(t, in), "2 of 2 images"},
		"a lock in a pipe":         {"", pipe(t, lock), "1 of 1 images"},
		"a lock in standard input": {lock, "-", "1 of 1 images"},
	} {
		got := slipwayWith(t.Context(), tc.in, nil, "bundle", tc.input, "--server", url, "--lock", "", "--to", filepath.Join(t.TempDir(), "bundle"))
		if got.code != 0 || !strings.Contains(got.errs, tc.want) {
			t.Errorf("%s: %+v, want %q", name, got, tc.want)
		}
	}
}
