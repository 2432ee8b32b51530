package index_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/conda/index"
)

// FuzzBuild checks that any input results in an error or a readable file.
func FuzzBuild(f *testing.F) {
	f.Add(small)
	f.Add(`{"packages":{"a-1-0.conda":{"name":"a","version":"1","build":"0","depends":["\ud800"]}}}`)
	f.Add(`{"info":{"base_url":"//x"},"packages":{"\\\"":{"name":"a\\"}}}`)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(dir, "x.idx")
		if _, err := index.Build(path, strings.NewReader(text), index.Meta{}, done); err != nil {
			return
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := index.ReadAll(raw, place()); err != nil {
			t.Errorf("the created file cannot be read: %v", err)
		}
	})
}

// FuzzOpen checks that no file makes a reader panic.
func FuzzOpen(f *testing.F) {
	path := filepath.Join(f.TempDir(), "x.idx")
	if _, err := index.Build(path, strings.NewReader(small), index.Meta{}, done); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(_ *testing.T, raw []byte) {
		_ = index.ReadAll(index.Seal(raw), place()) // errors are fine
	})
}
