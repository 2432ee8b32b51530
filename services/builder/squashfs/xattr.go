package squashfs

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strings"
)

// attributes are the extended attributes of all files. Files with the same share a
// set.
type attributes struct {
	// pairs are the sets as they are stored, one after another.
	pairs []byte
	table []attributeSet
	sets  map[string]uint32
}

// attributeSet is where a set is, in bytes of what is not compressed.
type attributeSet struct {
	at          uint64
	count, size uint32
}

// prefix is what PAX records of extended attributes begin with.
const prefix = "SCHILY.xattr."

// spaces are the kinds of names that squashfs has numbers for.
func spaces() []string { return []string{"user.", "trusted.", "security."} }

// attributesOf is the index of the set that PAX records name; none where there are none.
func (w *Writer) attributesOf(records map[string]string) (uint32, error) {
	var set []byte
	var count uint32
	for _, key := range slices.Sorted(maps.Keys(records)) {
		name, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		var err error
		if set, err = appendPair(set, name, records[key]); err != nil {
			return none, err
		}
		count++
	}
	if count == 0 {
		return none, nil
	}
	a := &w.attributes
	if at, ok := a.sets[string(set)]; ok {
		return at, nil
	}
	if err := w.charge(2*len(set) + 64); err != nil {
		return none, err
	}
	at := uint32(len(a.table))
	a.table = append(a.table, attributeSet{uint64(len(a.pairs)), count, uint32(len(set))})
	a.pairs = append(a.pairs, set...)
	a.sets[string(set)] = at
	return at, nil
}

func appendPair(to []byte, name, value string) ([]byte, error) {
	for i, space := range spaces() {
		rest, ok := strings.CutPrefix(name, space)
		if !ok || rest == "" {
			continue
		}
		if len(name) > maxName || len(value) > math.MaxUint16 {
			return nil, refuse("the extended attribute %s is too long", quoted(name))
		}
		to = binary.LittleEndian.AppendUint16(to, uint16(i))
		to = binary.LittleEndian.AppendUint16(to, uint16(len(rest)))
		to = append(to, rest...)
		to = binary.LittleEndian.AppendUint32(to, uint32(len(value)))
		return append(to, value...), nil
	}
	return nil, refuse("squashfs keeps no extended attribute %s", quoted(name))
}

// writeAttributes writes the attributes, and answers where the list of their sets is;
// absent where there are none.
func (w *Writer) writeAttributes() (uint64, error) {
	a := &w.attributes
	if len(a.table) == 0 {
		return absent, nil
	}
	begin := w.end
	pairs := newMetadata(w.pack, &w.image)
	pairs.add(a.pairs)
	if err := pairs.end(); err != nil {
		return 0, err
	}
	starts, err := w.rows(len(a.table), func(to []byte, i int) []byte {
		set := a.table[i]
		to = binary.LittleEndian.AppendUint64(to, uint64(newRef(pairs.starts[set.at/metadataSize], int(set.at%metadataSize))))
		to = binary.LittleEndian.AppendUint32(to, set.count)
		return binary.LittleEndian.AppendUint32(to, set.size)
	})
	if err != nil {
		return 0, err
	}
	at := w.end
	head := binary.LittleEndian.AppendUint64(nil, begin)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(a.table)))
	return at, w.append(appendAll(head, starts))
}
