package unsquash

import "encoding/binary"

// Prefixes of attributes, by their type.
const (
	attrUser, attrTrusted, attrSecurity = 0, 1, 2
	// attrElsewhere is set for a value that is stored at a reference.
	attrElsewhere = 0x100
	attrType      = 0xff
)

const (
	// maxAttrs is the maximum number of attributes of a file, and maxValue the maximum length
	// of a value in bytes, as in the kernel.
	maxAttrs, maxValue = 256, 64 << 10
	// paxPrefix is the prefix of attributes in a tar, as GNU tar writes them.
	paxPrefix = "SCHILY.xattr."
)

// attributes returns the attributes of an inode that an image may set, as PAX records: user
// attributes and file capabilities. It returns nil if the inode has none. Other attributes
// would affect the machine that unpacks the layer.
func (w *walker) attributes(n inode) (map[string]string, error) {
	if n.attrs == none || w.super.AttrTable == noTable {
		return nil, nil //nolint:nilnil // there are none
	}
	p, err := w.bytes(w.super.AttrTable, 16)
	if err != nil {
		return nil, err
	}
	values, count := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint32(p[8:])
	if n.attrs >= count {
		return nil, refuse("attributes are missing")
	}
	head, err := w.indexed(w.super.AttrTable+16, int(n.attrs), 16)
	if err != nil {
		return nil, err
	}
	var set struct {
		Reference   uint64
		Count, Size uint32
	}
	if err := head.read(&set); err != nil {
		return nil, err
	}
	if set.Count > maxAttrs {
		return nil, refuse("a file has more than %d attributes", maxAttrs)
	}
	out := map[string]string{}
	c := w.at(values, set.Reference)
	for range set.Count {
		if err := w.attribute(c, values, out); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, nil //nolint:nilnil // see above
	}
	return out, nil
}

// attribute reads an attribute, and adds it to out if it is one that an image may set.
func (w *walker) attribute(c *cursor, values uint64, out map[string]string) error {
	var key struct{ Type, Length uint16 }
	if err := c.read(&key); err != nil {
		return err
	}
	if key.Length == 0 || key.Length > 255 {
		return refuse("the name of an attribute has an invalid length")
	}
	name := make([]byte, key.Length)
	var length uint32
	if err := c.fill(name); err != nil {
		return err
	}
	if err := c.read(&length); err != nil {
		return err
	}
	from := c
	if key.Type&attrElsewhere != 0 {
		var reference uint64
		if err := c.read(&reference); err != nil {
			return err
		}
		from = w.at(values, reference)
		if err := from.read(&length); err != nil {
			return err
		}
	}
	if w.limits.Bytes -= int64(length); length > maxValue || w.limits.Bytes < 0 {
		return refuse("the attributes are too large")
	}
	value := make([]byte, length)
	if err := from.fill(value); err != nil {
		return err
	}
	switch kind := key.Type & attrType; {
	case kind == attrUser:
		out[paxPrefix+"user."+string(name)] = string(value)
	case kind == attrSecurity && string(name) == "capability":
		out[paxPrefix+"security.capability"] = string(value)
	}
	return nil
}
