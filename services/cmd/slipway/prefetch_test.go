package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSociPrefetch checks that the commands for images send the paths of a list.
func TestSociPrefetch(t *testing.T) {
	t.Parallel()
	var sent map[string]any
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		sent = nil
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, builtAnswer)
	})
	dir := t.TempDir()
	list, empty := filepath.Join(dir, "first.txt"), filepath.Join(dir, "empty.txt")
	must(t, os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM busybox\n"), 0o600))
	must(t, os.WriteFile(list, []byte("/opt/conda/bin/python\r\n\n/a b\n/last"), 0o600))
	must(t, os.WriteFile(empty, nil, 0o600))
	want := []any{"/opt/conda/bin/python", "/a b", "/last"}
	for _, args := range []string{"conda samtools", "build " + dir, "image ubuntu --freeze r.example/x"} {
		got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": url}, append(strings.Fields(args), "--soci", "--soci-prefetch", list)...)
		if got.code != 0 || sent["soci"] != true || !cmp.Equal(sent["sociPrefetch"], any(want)) {
			t.Errorf("%s: %+v, sent %v", args, got, sent)
		}
	}
	for args, want := range map[string]string{
		"conda samtools --soci-prefetch " + list:                "--soci-prefetch is only for --soci",
		"conda samtools --soci --soci-prefetch " + empty:        "it is empty",
		"conda samtools --soci --soci-prefetch " + list + ".no": "no such file",
	} {
		if got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": url}, strings.Fields(args)...); got.code == 0 || !strings.Contains(got.errs, want) {
			t.Errorf("%s: %+v, want %q", args, got, want)
		}
	}
}
