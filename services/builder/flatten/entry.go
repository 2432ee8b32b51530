package flatten

import (
	"archive/tar"
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"time"

	"slipway.dev/services/internal/layertar"
)

const (
	maxName = 255
	maxPath = 4095
)

// clean returns a path below the root without leading and trailing slashes; "" is the root.
func clean(raw string) (string, error) {
	if len(raw) > maxPath || strings.ContainsRune(raw, 0) {
		return "", refuse("has a name that no file can have, %s", quoted(raw))
	}
	if isClean(raw) {
		return raw, nil
	}
	var parts []string
	for part := range strings.SplitSeq(raw, "/") {
		switch {
		case part == "" || part == ".":
		case part == "..":
			return "", refuse("leads out of the image: %s", quoted(raw))
		case len(part) > maxName:
			return "", refuse("has a name that no file can have, %s", quoted(raw))
		default:
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/"), nil
}

// isClean detects the common case without allocating.
func isClean(raw string) bool {
	length := 0
	for i := range len(raw) {
		switch {
		case raw[i] != '/':
			length++
			continue
		case length == 0 || length > maxName:
			return false
		}
		if part := raw[i-length : i]; part == "." || part == ".." {
			return false
		}
		length = 0
	}
	last := raw[len(raw)-length:]
	return length > 0 && length <= maxName && last != "." && last != ".."
}

// split returns the directory and the base name; both are "" for the root.
func split(path string) (dir, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// locate returns the place of an entry, and rejects entries that no image can have. The
// caller handles whiteouts.
func locate(h *tar.Header) (path, dir, base string, err error) {
	if path, err = clean(h.Name); err != nil {
		return "", "", "", err
	}
	dir, base = split(path)
	if layertar.IsWhiteout(base) {
		return path, dir, base, nil
	}
	if err := check(h); err != nil {
		return "", "", "", err
	}
	if path == "" && h.Typeflag != tar.TypeDir {
		return "", "", "", refuse("has a root that is no directory")
	}
	return path, dir, base, nil
}

func isDevice(kind byte) bool { return kind == tar.TypeChar || kind == tar.TypeBlock }

// check rejects entries that no file system can hold.
func check(h *tar.Header) error {
	switch h.Typeflag {
	case tar.TypeDir, tar.TypeLink, tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) > maxPath {
			return refuse("has a symbolic link %s without a valid target", quoted(h.Name))
		}
	default:
		if !layertar.IsFile(h) {
			return refuse("has an entry %s of the unknown type %q", quoted(h.Name), h.Typeflag)
		}
	}
	if h.Uid < 0 || h.Gid < 0 || int64(h.Uid) >= math.MaxUint32 || int64(h.Gid) >= math.MaxUint32 {
		return refuse("has an entry %s of an impossible owner", quoted(h.Name))
	}
	return nil
}

// header returns the header to write: the attributes of a file system, without traces of
// how the layer was created.
func header(h *tar.Header, name string) *tar.Header {
	out := &tar.Header{
		Typeflag: h.Typeflag, Name: name, Linkname: h.Linkname, Size: h.Size,
		Mode: h.Mode & 0o7777, Uid: h.Uid, Gid: h.Gid, ModTime: seconds(h.ModTime), PAXRecords: xattrs(h.PAXRecords),
	}
	switch {
	case layertar.IsFile(h):
		out.Typeflag = tar.TypeReg
	case h.Typeflag == tar.TypeDir:
		out.Name += "/"
		out.Size = 0
	case h.Typeflag == tar.TypeSymlink, h.Typeflag == tar.TypeFifo:
		out.Size = 0
	}
	if name == "" {
		out.Name = "./"
	}
	return out
}

// Entry returns an entry of a layer as an image has it: with a clean path, and without traces of how
// the layer was created. A whiteout is an empty file. It returns an error made by layertar.Invalidf for
// an entry that no image can have.
func Entry(h *tar.Header) (*tar.Header, error) {
	path, _, base, err := locate(h)
	if err != nil {
		return nil, err
	}
	if layertar.IsWhiteout(base) {
		return &tar.Header{Typeflag: tar.TypeReg, Name: path}, nil
	}
	out := header(h, path)
	if h.Typeflag == tar.TypeLink {
		out.Size = 0
		if out.Linkname, err = clean(h.Linkname); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// seconds truncates a time to the precision of squashfs.
func seconds(t time.Time) time.Time {
	return time.Unix(min(max(t.Unix(), 0), math.MaxUint32), 0)
}

// xattrs returns the extended attributes that squashfs can store; nil for none.
func xattrs(records map[string]string) map[string]string {
	const schily, libarchive = "SCHILY.xattr.", "LIBARCHIVE.xattr."
	var out map[string]string
	for key, value := range records {
		name, isPlain := strings.CutPrefix(key, schily)
		if coded, ok := strings.CutPrefix(key, libarchive); ok && records[schily+coded] == "" {
			raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(value, "="))
			name, value, isPlain = coded, string(raw), err == nil
		}
		if !isPlain || !keepsXattr(name, value) {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[schily+name] = value
	}
	return out
}

// keepsXattr reports whether squashfs can store an attribute and an image should have it.
func keepsXattr(name, value string) bool {
	space, _, _ := strings.Cut(name, ".")
	return (space == "user" || space == "security" || space == "trusted") && !strings.HasPrefix(name, "trusted.overlay.") &&
		!strings.ContainsAny(name, "=\x00") && len(name) <= maxName && len(value) <= math.MaxUint16
}

// quoted quotes an external name for a message.
func quoted(s string) string {
	if len(s) > 120 {
		s = s[:120] + "…"
	}
	return strconv.Quote(s)
}
