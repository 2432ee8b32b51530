// Package channel creates Conda channels of made-up packages, and serves them.
package channel

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"slipway.dev/services/bench/internal/must"
)

// Placeholder is the prefix in the bench's packages, as long as in real packages.
var Placeholder = "/home/bench/feedstock_root/build_artifacts/" + strings.Repeat("placehold_", 21)

// A File is a file of a package.
type File struct {
	Path string
	Size int64
	// Open returns its content, always the same.
	Open func() (io.ReadCloser, error)
	// Prefix is how the file contains the placeholder: "text", "binary", or "" for not at
	// all.
	Prefix string
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

// A Record is a package in the channel's repodata.
type Record struct {
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Build       string   `json:"build"`
	BuildNumber int      `json:"build_number"`
	Depends     []string `json:"depends"`
	SHA256      string   `json:"sha256"`
	Size        int64    `json:"size"`
	Subdir      string   `json:"subdir"`
	Timestamp   int64    `json:"timestamp"`
	// Installed is the total size of its files, in bytes.
	Installed int64 `json:"-"`
}

// Write writes the version 1.0 of a package to a folder with a compression level for its
// content, and returns its file name and record.
func Write(dir, name string, level zstd.EncoderLevel, files []File) (string, Record) {
	return WriteVersion(dir, name, "1.0", level, files)
}

// WriteVersion is Write for any version.
func WriteVersion(dir, name, version string, level zstd.EncoderLevel, files []File) (string, Record) {
	return WriteRecord(dir, Record{Name: name, Version: version, Build: "h0_0", Depends: []string{}, Timestamp: 1_700_000_000_000}, level, files)
}

// WriteRecord is Write for any record, of which it sets the digest, the sizes and the folder.
func WriteRecord(dir string, rec Record, level zstd.EncoderLevel, files []File) (string, Record) {
	rec.Subdir = "linux-64"
	base := fmt.Sprintf("%s-%s-%s", rec.Name, rec.Version, rec.Build)
	var list []listed
	for _, f := range files {
		list = append(list, f.listed())
		rec.Installed += f.Size
	}
	out := must.Get(os.Create(filepath.Join(dir, base+".conda")))
	sum, size := sha256.New(), &counted{}
	z := zip.NewWriter(io.MultiWriter(out, sum, size))
	stored(z, "metadata.json", []byte(`{"conda_pkg_format_version": 2}`))
	member(z, "info-"+base, level, []File{
		jsonFile("info/index.json", rec), jsonFile("info/paths.json", map[string]any{"paths": list, "paths_version": 1}),
	})
	member(z, "pkg-"+base, level, files)
	must.Do(errors.Join(z.Close(), out.Close()))
	rec.SHA256, rec.Size = hex.EncodeToString(sum.Sum(nil)), size.n
	return base + ".conda", rec
}

// member writes one of the two archives of an artifact.
func member(z *zip.Writer, name string, level zstd.EncoderLevel, files []File) {
	var m bytes.Buffer
	// Conda packages are compressed with this window size.
	packer := must.Get(zstd.NewWriter(&m, zstd.WithEncoderLevel(level), zstd.WithWindowSize(8<<20), zstd.WithEncoderConcurrency(2)))
	out := tar.NewWriter(packer)
	for _, f := range files {
		mode := int64(0o644)
		if strings.HasPrefix(f.Path, "bin/") {
			mode = 0o755
		}
		must.Do(out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Size: f.Size, Mode: mode, ModTime: time.Unix(1_700_000_000, 0)}))
		content := must.Get(f.Open())
		must.Get(io.Copy(out, content))
		must.Do(content.Close())
	}
	must.Do(errors.Join(out.Close(), packer.Close()))
	stored(z, name+".tar.zst", m.Bytes())
}

// stored writes a member. As in real packages, its size precedes its content, so that clients can unpack what they receive.
func stored(z *zip.Writer, name string, content []byte) {
	size := uint64(len(content))
	m := must.Get(z.CreateRaw(&zip.FileHeader{Name: name, Method: zip.Store, CRC32: crc32.ChecksumIEEE(content), CompressedSize64: size, UncompressedSize64: size}))
	must.Get(m.Write(content))
}

func (f File) listed() listed {
	content, sum := must.Get(f.Open()), sha256.New()
	must.Get(io.Copy(sum, content))
	must.Do(content.Close())
	l := listed{Path: f.Path, Type: "hardlink", SHA256: hex.EncodeToString(sum.Sum(nil)), Size: f.Size}
	if f.Prefix != "" {
		l.Mode, l.Placeholder = f.Prefix, Placeholder
	}
	return l
}

func jsonFile(path string, v any) File {
	return Text(path, string(must.Get(json.Marshal(v))), "")
}

// Text returns a file with a content.
func Text(path, content, prefix string) File {
	return File{Path: path, Size: int64(len(content)), Prefix: prefix, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}}
}

// counted counts the bytes written.
type counted struct{ n int64 }

func (c *counted) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}
