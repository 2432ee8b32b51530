package index_test

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/conda/index"
)

// pack writes MessagePack as channels' tools do.
func pack(v any) []byte {
	switch v := v.(type) {
	case nil:
		return []byte{0xc0}
	case bool:
		if v {
			return []byte{0xc3}
		}
		return []byte{0xc2}
	case int:
		return binary.BigEndian.AppendUint64([]byte{0xd3}, uint64(v))
	case string:
		return append(binary.BigEndian.AppendUint16([]byte{0xda}, uint16(len(v))), v...)
	case []byte:
		return append([]byte{0xc4, byte(len(v))}, v...)
	case []any:
		out := binary.BigEndian.AppendUint32([]byte{0xdd}, uint32(len(v)))
		for _, e := range v {
			out = append(out, pack(e)...)
		}
		return out
	case map[string]any:
		out := binary.BigEndian.AppendUint16([]byte{0xde}, uint16(len(v)))
		for key, e := range v {
			out = append(append(out, pack(key)...), pack(e)...)
		}
		return out
	}
	panic("there is no such kind")
}

func TestShards(t *testing.T) {
	t.Parallel()
	sum := make([]byte, 32)
	sum[0] = 0xab
	list, err := index.ReadShards(pack(map[string]any{
		"version": 1, "info": map[string]any{"base_url": "../files", "shards_base_url": "./shards/"},
		"shards": map[string]any{"a": sum, "b": sum, "no name": sum},
	}))
	if err != nil {
		t.Fatal(err)
	}
	h := index.Hash(sum)
	want := index.Shards{Hashes: map[string]index.Hash{"a": h, "b": h}, BaseURL: "../files", ShardsURL: "./shards/"}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
	if u, err := list.Folder("https://example.org/c/linux-64/"); err != nil || u.String() != "https://example.org/c/linux-64/shards/" {
		t.Errorf("the shards are at %v, %v", u, err)
	}

	one := writeShards(t, h, map[string][]byte{"a": shard("a", sum), "b": shard("c", sum)})
	got, err := one.Records("a")
	if err != nil || len(got) != 1 || got[0].SHA256 != h.String() || got[0].Timestamp != 1700000000123 || got[0].License != "\"x\"\n" || got[0].BuildNumber != 3 {
		t.Errorf("got %+v, %v", got, err)
	}
	if m := one.Meta(); m.Records != 1 || m.Skipped != 1 {
		t.Errorf("meta is %+v: a shard may not hold other names", m)
	}
	keepShards(t, one, h)
}

// keepShards creates a second file from the first and checks that only unchanged shards are
// copied.
func keepShards(t *testing.T, one *index.Index, h index.Hash) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "y.idx")
	w, err := index.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		hash index.Hash
		want bool
	}{"a": {h, true}, "b": {index.Hash{1}, false}, "absent": {h, false}, "zero": {}} {
		if kept, err := w.Keep(one, name, c.hash); err != nil || kept != c.want {
			t.Errorf("keeping %s: %v, %v", name, kept, err)
		}
	}
	if _, err := w.Commit(index.Meta{}); err != nil {
		t.Fatal(err)
	}
	two, err := index.Open(path, place())
	if err != nil {
		t.Fatal(err)
	}
	before, _ := one.Records("a")
	after, err := two.Records("a")
	if diff := cmp.Diff(before, after); diff != "" || err != nil || two.Meta().Records != 1 {
		t.Errorf("kept records (-want +got), %v:\n%s", err, diff)
	}
}

func shard(name string, sum []byte) []byte {
	return pack(map[string]any{"packages": map[string]any{}, "removed": []any{}, "packages.conda": map[string]any{
		name + "-1-0.conda": map[string]any{
			"name": name, "version": "1", "build": "0", "build_number": 3, "sha256": sum, "depends": []any{"b >=1"}, "timestamp": 1700000000123,
			"license": "\"x\"\n", "noarch": nil, "extra": true,
		},
	}})
}

func writeShards(t *testing.T, h index.Hash, shards map[string][]byte) *index.Index {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.idx")
	w, err := index.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range shards {
		if err := w.AddShard(name, h, raw); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Commit(index.Meta{}); err != nil {
		t.Fatal(err)
	}
	x, err := index.Open(path, place())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestRejectsInvalidShard(t *testing.T) {
	t.Parallel()
	deep := make([]byte, 100_000)
	for i := range deep {
		deep[i] = 0x91 // a list of one element
	}
	for name, raw := range map[string][]byte{
		"an empty shard":                     nil,
		"half of a shard":                    shard("a", make([]byte, 32))[:40],
		"a list that states a huge length":   {0xdd, 0xff, 0xff, 0xff, 0xff},
		"a string that states a huge length": {0xdb, 0xff, 0xff, 0xff, 0xff, 'a'},
		"deep nesting":                       deep,
		"a list":                             {0x90},
		"a key that is a number":             {0x81, 0x01, 0x01},
		"data after the end":                 append(shard("a", make([]byte, 32)), 0xc0),
		"an invalid type":                    {0xc1},
	} {
		w, err := index.Create(filepath.Join(t.TempDir(), "x.idx"))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.AddShard("a", index.Hash{1}, raw); err == nil {
			t.Errorf("%s: no error", name)
		}
		if err := w.Discard(); err != nil {
			t.Error(err)
		}
		if _, err := index.ReadShards(raw); err == nil {
			t.Errorf("%s as a list of shards: no error", name)
		}
	}
}

// FuzzShards checks that any input results in an error or a readable file.
func FuzzShards(f *testing.F) {
	f.Add(shard("a", make([]byte, 32)))
	f.Add(pack(map[string]any{"shards": map[string]any{"a": make([]byte, 32)}, "info": nil}))
	f.Add([]byte{0xca, 0x7f, 0x80, 0, 0})
	f.Add([]byte{0xc7, 1, 2, 3})
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, _ = index.ReadShards(raw)
		w, err := index.Create(filepath.Join(t.TempDir(), "x.idx"))
		if err != nil {
			t.Fatal(err)
		}
		_ = w.AddShard("a", index.Hash{1}, raw)
		if err := w.Discard(); err != nil {
			t.Fatal(err)
		}
	})
}
