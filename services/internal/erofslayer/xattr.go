package erofslayer

import (
	"archive/tar"
	"maps"
	"slices"
	"strings"
)

const (
	paxXattr = "SCHILY.xattr."
	// overlayXattr is the prefix of the attributes that overlayfs interprets.
	overlayXattr = "trusted.overlay."
	opaqueXattr  = overlayXattr + "opaque"

	xattrHeader = 12
	// maxXattrs is the maximum length of the attributes of a file in bytes. The format allows 256 KiB, and
	// engines 64 KiB for one.
	maxXattrs = 128 << 10
)

// An xattrPrefix is a prefix of names that is stored as a number.
type xattrPrefix struct {
	name  string
	index byte
}

func xattrPrefixes() []xattrPrefix {
	return []xattrPrefix{{"system.posix_acl_access", 2}, {"system.posix_acl_default", 3}, {"user.", 1}, {"trusted.", 4}, {"security.", 6}}
}

// encodeXattrs returns the extended attributes of an entry in the form behind an inode, without its
// header.
func encodeXattrs(h *tar.Header) ([]byte, error) {
	var out []byte
	for _, key := range slices.Sorted(maps.Keys(h.PAXRecords)) {
		name, is := strings.CutPrefix(key, paxXattr)
		if !is {
			continue
		}
		if strings.HasPrefix(name, overlayXattr) {
			return nil, refuse("%.200q has the attribute %.100q, which overlayfs would interpret", h.Name, name)
		}
		var err error
		if out, err = appendXattr(out, name, h.PAXRecords[key]); err != nil {
			return nil, refuse("%.200q: %v", h.Name, err)
		}
	}
	return out, nil
}

func appendXattr(out []byte, name, value string) ([]byte, error) {
	for _, p := range xattrPrefixes() {
		rest, is := strings.CutPrefix(name, p.name)
		if !is || strings.HasSuffix(p.name, ".") == (rest == "") {
			continue
		}
		if len(rest) > maxName || len(value) > 1<<16-1 || len(out) > maxXattrs {
			return nil, refuse("the attribute %.100q is too long", name)
		}
		out = append(out, byte(len(rest)), p.index)
		out = le.AppendUint16(out, uint16(len(value)))
		out = append(append(out, rest...), value...)
		return append(out, make([]byte, -len(out)&3)...), nil
	}
	return nil, refuse("the attribute %.100q cannot be stored", name)
}

// decodeXattrs is the reverse of encodeXattrs.
func decodeXattrs(b []byte) (map[string]string, error) {
	out := map[string]string{}
	for len(b) >= 4 {
		name, value := int(b[0]), int(le.Uint16(b[2:]))
		if 4+name+value > len(b) {
			return nil, errMalformed
		}
		prefix := slices.IndexFunc(xattrPrefixes(), func(p xattrPrefix) bool { return p.index == b[1] })
		if prefix < 0 {
			return nil, refuse("it has extended attributes that cannot be read")
		}
		out[xattrPrefixes()[prefix].name+string(b[4:4+name])] = string(b[4+name : 4+name+value])
		b = b[min((4+name+value+3)&^3, len(b)):]
	}
	if len(b) > 0 {
		return nil, errMalformed
	}
	return out, nil
}

// attributes returns the encoded attributes with that of opaque directories.
func (n *node) attributes() []byte {
	if !n.isOpaque {
		return n.xattrs
	}
	out, err := appendXattr(n.xattrs[:len(n.xattrs):len(n.xattrs)], opaqueXattr, "y")
	if err != nil {
		panic(err) // maxXattrs leaves space for it
	}
	return out
}

// xattrSize returns the length of the attributes behind an inode.
func (n *node) xattrSize() int {
	if length := len(n.attributes()); length > 0 {
		return xattrHeader + length
	}
	return 0
}
