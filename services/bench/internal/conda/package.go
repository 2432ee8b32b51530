package conda

import (
	"archive/tar"
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/bench/internal/must"
)

// placeholder is the prefix in the bench's packages, as long as in real packages.
var placeholder = "/home/bench/feedstock_root/build_artifacts/" + strings.Repeat("placehold_", 21)

// A packed is a file of a package.
type packed struct {
	path string
	size int64
	// open returns its content, always the same.
	open func() (io.ReadCloser, error)
	// prefix is how the file contains the placeholder: "text", "binary", or "" for not at
	// all.
	prefix string
}

// A listed is a file in info/paths.json.
type listed struct {
	Path        string `json:"_path"`
	Type        string `json:"path_type"`
	Mode        string `json:"file_mode,omitempty"`
	Placeholder string `json:"prefix_placeholder,omitempty"`
	SHA256      string `json:"sha256"`
	Size        int64  `json:"size_in_bytes"`
}

// A packageRecord is a package in the channel's repodata.
type packageRecord struct {
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Build       string   `json:"build"`
	BuildNumber int      `json:"build_number"`
	Depends     []string `json:"depends"`
	SHA256      string   `json:"sha256"`
	Size        int64    `json:"size"`
	Subdir      string   `json:"subdir"`
	Timestamp   int64    `json:"timestamp"`
	// installed is the total size of its files, in bytes.
	installed int64
}

// writePackage writes the version 1.0 of a package to a folder with a compression level for its
// content, and returns its file name and record.
func writePackage(dir, name string, level zstd.EncoderLevel, files []packed) (string, packageRecord) {
	return writeVersion(dir, name, "1.0", level, files)
}

// writeVersion is writePackage for any version.
func writeVersion(dir, name, version string, level zstd.EncoderLevel, files []packed) (string, packageRecord) {
	rec := packageRecord{Name: name, Version: version, Build: "h0_0", Depends: []string{}, Subdir: "linux-64", Timestamp: 1_700_000_000_000}
	base := fmt.Sprintf("%s-%s-%s", rec.Name, rec.Version, rec.Build)
	var list []listed
	for _, f := range files {
		list = append(list, f.listed())
		rec.installed += f.size
	}
	out := must.Get(os.Create(filepath.Join(dir, base+".conda")))
	sum, size := sha256.New(), &counted{}
	z := zip.NewWriter(io.MultiWriter(out, sum, size))
	must.Get(must.Get(z.Create("metadata.json")).Write([]byte(`{"conda_pkg_format_version": 2}`)))
	member(z, "info-"+base, level, []packed{
		jsonFile("info/index.json", rec), jsonFile("info/paths.json", map[string]any{"paths": list, "paths_version": 1}),
	})
	member(z, "pkg-"+base, level, files)
	must.Do(errors.Join(z.Close(), out.Close()))
	rec.SHA256, rec.Size = hex.EncodeToString(sum.Sum(nil)), size.n
	return base + ".conda", rec
}

// member writes one of the two archives of an artifact.
func member(z *zip.Writer, name string, level zstd.EncoderLevel, files []packed) {
	m := must.Get(z.CreateHeader(&zip.FileHeader{Name: name + ".tar.zst", Method: zip.Store}))
	// Conda packages are compressed with this window size.
	packer := must.Get(zstd.NewWriter(m, zstd.WithEncoderLevel(level), zstd.WithWindowSize(8<<20), zstd.WithEncoderConcurrency(2)))
	out := tar.NewWriter(packer)
	for _, f := range files {
		mode := int64(0o644)
		if strings.HasPrefix(f.path, "bin/") {
			mode = 0o755
		}
		must.Do(out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.path, Size: f.size, Mode: mode, ModTime: time.Unix(1_700_000_000, 0)}))
		content := must.Get(f.open())
		must.Get(io.Copy(out, content))
		must.Do(content.Close())
	}
	must.Do(errors.Join(out.Close(), packer.Close()))
}

func (f packed) listed() listed {
	content, sum := must.Get(f.open()), sha256.New()
	must.Get(io.Copy(sum, content))
	must.Do(content.Close())
	l := listed{Path: f.path, Type: "hardlink", SHA256: hex.EncodeToString(sum.Sum(nil)), Size: f.size}
	if f.prefix != "" {
		l.Mode, l.Placeholder = f.prefix, placeholder
	}
	return l
}

func jsonFile(path string, v any) packed {
	return textFile(path, string(must.Get(json.Marshal(v))), "")
}

func textFile(path, content, prefix string) packed {
	return packed{path: path, size: int64(len(content)), prefix: prefix, open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}}
}

// counted counts the bytes written.
type counted struct{ n int64 }

func (c *counted) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}
