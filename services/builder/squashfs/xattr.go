package squashfs

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strings"

	"slipway.dev/services/builder/arena"
)

// attributes are the extended attributes of all files. Files with equal attributes share a
// set.
type attributes struct {
	// pairs holds the sets in the stored format, one after another.
	pairs *arena.Bytes
	table *arena.Table[attributeSet]
	sets  *sums
}

func newAttributes(memory *arena.Arena) attributes {
	return attributes{arena.NewBytes(memory), arena.NewTable[attributeSet](memory), newSums(memory)}
}

// attributeSet is the position of a set in uncompressed bytes. It holds no pointers.
type attributeSet struct {
	at          uint64
	count, size uint32
}

// prefix is the prefix of the PAX records of extended attributes.
const prefix = "SCHILY.xattr."

// spaces returns the name spaces that squashfs has numbers for.
func spaces() []string { return []string{"user.", "trusted.", "security."} }

// attributesOf returns the index of the set for PAX records; none if there are no
// attributes.
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
	a, key := &w.attributes, w.marker.of(set)
	if at, ok := a.sets.find(key); ok {
		return uint32(at), nil
	}
	at, to, err := a.table.Add()
	if err != nil {
		return none, w.full(err)
	}
	*to = attributeSet{uint64(a.pairs.Len()), count, uint32(len(set))}
	if _, err := a.pairs.Write(set); err != nil {
		return none, w.full(err)
	}
	return at, w.full(a.sets.add(key, uint64(at)))
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
	return nil, refuse("squashfs cannot store the extended attribute %s", quoted(name))
}

// writeAttributes writes the attributes and returns the position of the list of sets;
// absent if there are none.
func (w *Writer) writeAttributes() (uint64, error) {
	a := &w.attributes
	if a.table.Len() == 0 {
		return absent, nil
	}
	begin := w.end
	pairs := newMetadata(w.pack, &w.image)
	_, _ = a.pairs.WriteTo(pairs) // end returns its error
	if err := pairs.end(); err != nil {
		return 0, err
	}
	starts, err := w.rows(a.table.Len(), func(to []byte, i int) []byte {
		set := a.table.At(uint32(i))
		to = binary.LittleEndian.AppendUint64(to, uint64(newRef(pairs.starts[set.at/metadataSize], int(set.at%metadataSize))))
		to = binary.LittleEndian.AppendUint32(to, set.count)
		return binary.LittleEndian.AppendUint32(to, set.size)
	})
	if err != nil {
		return 0, err
	}
	at := w.end
	head := binary.LittleEndian.AppendUint64(nil, begin)
	head = binary.LittleEndian.AppendUint64(head, uint64(a.table.Len()))
	return at, w.append(appendAll(head, starts))
}
