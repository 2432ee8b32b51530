package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"slipway.dev/services/internal/testkit"
)

// TestWebPageListsFiles opens layers with the keyboard, searches their files (for a large layer
// with the service's help), and shows why another layer cannot be listed.
func TestWebPageListsFiles(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	up := testkit.NewRegistry(t, testkit.Basic)
	s := bare(webChannel(t).URL)
	s["registry_auth_file"] = dockerConfig(t, map[string]string{up.Host: testkit.User + ":" + testkit.Password})
	p := oneProcess(t, common(t, []string{up.Host}, s))
	var many []*tar.Header
	for i := range 1200 {
		many = append(many, &tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("data/%04d.txt", i), Mode: 0o644, Size: int64(i)})
	}
	few := layerOf(t, &tar.Header{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755}, &tar.Header{Typeflag: tar.TypeReg, Name: "bin/tool", Mode: 0o755, Size: 70_000},
		&tar.Header{Typeflag: tar.TypeReg, Name: "bin/" + probe, Mode: 0o644, Size: 9}, &tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/sh", Linkname: "tool"},
		&tar.Header{Typeflag: tar.TypeReg, Name: "etc/.wh.passwd"})
	image, err := mutate.AppendLayers(empty.Image, few, layerOf(t, many...), static.NewLayer([]byte(strings.Repeat("no archive ", 100)), types.DockerLayer))
	if err != nil {
		t.Fatal(err)
	}
	b := openTab(t, browser, p.url+"/view/inspect?image="+url.QueryEscape(up.Push(t, "team/tool:1", image)))
	const table = `document.querySelector(".contents tbody")`
	b.await(`document.querySelectorAll(".layers .link").length === 3`)
	open := func(i int) {
		b.eval(fmt.Sprintf(`document.querySelectorAll(".layers > li > .head > .link")[%d].focus()`, i))
		b.press(kb.Enter)
	}
	open(0)
	b.await(table + `?.rows.length === 5 && ` + table + `.innerText.includes("sh → tool")`)
	b.await(`document.querySelector(".contents .gone").innerText === "etc/passwd"`)
	b.await(`document.querySelector(".inside [role=status]").innerText === "5 paths, 70.0 kB unpacked"`)
	b.good("files", p.url)
	b.press(kb.Tab)
	b.press("SCRIPT")
	b.await(table + `.rows.length === 1 && ` + table + `.innerText.includes("onerror")`)
	b.press("no such")
	b.await(`!` + table + ` && document.querySelector(".inside [role=status]").innerText === "None of 5 paths contains this text."`)
	b.eval(`document.querySelector(".inside .find").select()`)
	b.press(kb.Backspace + kb.Tab + kb.Tab + " ")
	b.await(table + `?.rows[0].innerText.startsWith("bin/tool")`)
	open(0)
	b.await(`!` + table)

	open(1)
	b.await(`document.querySelector(".inside [role=status]")?.innerText === "1,200 paths, 719 kB unpacked; the first 1,000 are shown"`)
	b.eval(button("Show more") + ".click()")
	b.await(table + `.rows.length === 1200 && !` + button("Show more"))
	b.eval(`document.querySelector(".inside .find").focus()`)
	b.press("119")
	b.await(`document.querySelector(".inside [role=status]").innerText === "12 of 1,200 paths, 719 kB unpacked" && ` + table + `.rows.length === 12`)
	b.good("files found", p.url)
	open(1)

	open(2)
	b.await(`document.querySelector(".inside .why")?.innerText.includes("is damaged")`)
	b.good("files of no archive", p.url)
	b.eval(button("Try again") + ".click()")
	b.await(`document.querySelector(".inside .why")?.innerText.includes("is damaged")`)
}

// layerOf returns a layer with entries; files contain zeros.
func layerOf(t *testing.T, entries ...*tar.Header) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range entries {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return static.NewLayer(b.Bytes(), types.DockerLayer)
}
