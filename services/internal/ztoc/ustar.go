package ztoc

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
)

// parseUSTAR parses the header of a file, link or folder in the common form, whose content
// begins at an offset. It returns false for all other headers, which archive/tar parses: that
// takes ten times as long, which matters for packages of small files.
func parseUSTAR(block []byte, offset int64) (f file, ok bool) {
	flag := block[156]
	if flag != tar.TypeReg && flag != tar.TypeLink && flag != tar.TypeSymlink && flag != tar.TypeDir {
		return f, false
	}
	if string(block[257:265]) != "ustar\x0000" || string(block[508:]) == "tar\x00" {
		return f, false
	}
	sum, sumOK := octal(block[148:156])
	mode, modeOK := octal(block[100:108])
	uid, uidOK := octal(block[108:116])
	gid, gidOK := octal(block[116:124])
	size, sizeOK := octal(block[124:136])
	modified, modifiedOK := octal(block[136:148])
	major, majorOK := octal(block[329:337])
	minor, minorOK := octal(block[337:345])
	if !sumOK || !modeOK || !uidOK || !gidOK || !sizeOK || !modifiedOK || !majorOK || !minorOK || sum != checksum(block) {
		return f, false
	}
	f = file{
		name: string(text(block[:100])), flag: flag, link: string(text(block[157:257])), offset: offset, mode: mode, seconds: modified,
		uid: uint32(uid), gid: uint32(gid),
	}
	if prefix := text(block[345:500]); len(prefix) > 0 {
		f.name = string(prefix) + "/" + f.name
	}
	if flag == tar.TypeReg {
		f.size = size
	}
	if major != 0 || minor != 0 || block[265] != 0 || block[297] != 0 {
		f.details = &details{user: string(text(block[265:297])), group: string(text(block[297:329])), deviceMajor: major, deviceMinor: minor}
	}
	return f, true
}

// octal parses a number of octal digits that end with a NUL.
func octal(field []byte) (n int64, ok bool) {
	for i, c := range field {
		switch {
		case c >= '0' && c <= '7':
			n = n<<3 | int64(c-'0')
		case c == 0:
			// The checksum ends with a NUL and a space.
			return n, i > 0 && (i == len(field)-1 || i == len(field)-2 && field[i+1] == ' ')
		default:
			return 0, false
		}
	}
	return 0, false
}

// text returns the text that ends with a NUL or with its field.
func text(field []byte) []byte {
	if end := bytes.IndexByte(field, 0); end >= 0 {
		return field[:end]
	}
	return field
}

// checksum returns the sum of the bytes of a header, with spaces for the checksum itself.
func checksum(block []byte) int64 {
	const every = 0x00ff00ff00ff00ff
	var even uint64 // four sums of 16 bits each
	for i := 0; i < blockSize; i += 8 {
		v := binary.LittleEndian.Uint64(block[i:])
		if i == 152 {
			v = v&^0xffffffff | 0x20202020
		}
		if i == 144 {
			v = v&0xffffffff | 0x20202020<<32
		}
		even += v&every + v>>8&every
	}
	return int64(even&0xffff + even>>16&0xffff + even>>32&0xffff + even>>48)
}
