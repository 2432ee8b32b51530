package index_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/conda/index"
)

// BenchmarkBuild makes an index of a channel as large as conda-forge's largest folder:
// the records of the file that CONDA_REPODATA names (".json.zst"), again and again
// under other names, 880,000 in all.
func BenchmarkBuild(b *testing.B) {
	text := inflate(b, os.Getenv("CONDA_REPODATA"), 880_000)
	path := filepath.Join(b.TempDir(), "x.idx")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := index.Build(path, bytes.NewReader(text), index.Meta{}, done); err != nil {
			b.Fatal(err)
		}
	}
	runtime.KeepAlive(text)
}

// BenchmarkOpen opens one with as many names.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.idx")
	if _, err := index.Build(path, bytes.NewReader(inflate(b, os.Getenv("CONDA_REPODATA"), 880_000)), index.Meta{}, done); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := index.Open(path, place()); err != nil {
			b.Fatal(err)
		}
	}
}

// inflate writes a repodata file of so many records.
func inflate(b *testing.B, path string, records int) []byte {
	b.Helper()
	if path == "" {
		b.Skip("CONDA_REPODATA names no file")
	}
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := zstd.NewReader(f)
	if err != nil {
		b.Fatal(err)
	}
	defer z.Close()
	raw, err := io.ReadAll(z)
	if err != nil {
		b.Fatal(err)
	}
	var in struct {
		Packages map[string]json.RawMessage `json:"packages"`
		Conda    map[string]json.RawMessage `json:"packages.conda"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	out.WriteString(`{"info":{},"packages.conda":{`)
	for n, round := 0, 0; n < records; round++ {
		for _, part := range []map[string]json.RawMessage{in.Packages, in.Conda} {
			for _, fileName := range slices.Sorted(maps.Keys(part)) {
				record := part[fileName]
				if n++; n > 1 {
					out.WriteByte(',')
				}
				fmt.Fprintf(&out, "%q:%s", fmt.Sprintf("r%d-%s", round, fileName), bytes.Replace(record, []byte(`"name":"`), fmt.Appendf(nil, `"name":"r%d-`, round), 1))
			}
		}
	}
	out.WriteString("}}")
	return out.Bytes()
}
