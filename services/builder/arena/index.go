package arena

import "unsafe"

// Index finds numbers by hashes. Numbers must be less than 2^32-1.
type Index struct {
	arena *Arena
	mem   []byte
	// slots hold numbers plus one; their count is a power of two.
	slots []uint32
	n     int
	hash  func(id uint32) uint64
}

// firstSlots is the initial size of an index.
const firstSlots = 1024

// NewIndex returns an empty index. hash returns the hash of a number that was added, and
// is called when the index grows.
func NewIndex(a *Arena, hash func(id uint32) uint64) *Index { return &Index{arena: a, hash: hash} }

// Find returns the number that was added with the hash and that same accepts. same is also
// called with numbers that were added with other hashes.
func (x *Index) Find(hash uint64, same func(id uint32) bool) (id uint32, ok bool) {
	if x.n == 0 {
		return 0, false
	}
	for at := x.begin(hash); ; at = x.next(at) {
		switch v := x.slots[at]; {
		case v == 0:
			return 0, false
		case same(v - 1):
			return v - 1, true
		}
	}
}

// Add adds a number that is not in the index yet.
func (x *Index) Add(hash uint64, id uint32) error {
	if 4*(x.n+1) > 3*len(x.slots) {
		if err := x.grow(); err != nil {
			return err
		}
	}
	x.n++
	x.put(hash, id)
	return nil
}

// Replace replaces the number old by id, which has the same hash.
func (x *Index) Replace(hash uint64, old, id uint32) {
	for at := x.begin(hash); x.slots[at] != 0; at = x.next(at) {
		if x.slots[at] == old+1 {
			x.slots[at] = id + 1
			return
		}
	}
}

func (x *Index) put(hash uint64, id uint32) {
	at := x.begin(hash)
	for x.slots[at] != 0 {
		at = x.next(at)
	}
	x.slots[at] = id + 1
}

func (x *Index) begin(hash uint64) int { return int(hash & uint64(len(x.slots)-1)) }

func (x *Index) next(at int) int { return (at + 1) & (len(x.slots) - 1) }

func (x *Index) grow() error {
	size := max(firstSlots, 2*len(x.slots))
	bytes := size * int(unsafe.Sizeof(uint32(0)))
	if err := x.arena.Charge(bytes); err != nil {
		return err
	}
	m, err := x.arena.allocate(bytes)
	if err != nil {
		return err
	}
	mem, old := x.mem, x.slots
	x.mem, x.slots = m, unsafe.Slice((*uint32)(unsafe.Pointer(&m[0])), size) //nolint:gosec // pages, for numbers
	for _, v := range old {
		if v != 0 {
			x.put(x.hash(v-1), v-1)
		}
	}
	if mem != nil {
		x.arena.free(mem)
	}
	return nil
}
