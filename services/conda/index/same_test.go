package index_test

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"slipway.dev/services/conda/index"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/testkit/condadata"
)

// packable converts decoded JSON to the types that shards have: integers, and digests as
// bytes.
func packable(t *testing.T, key string, v any) any {
	t.Helper()
	switch v := v.(type) {
	case json.Number:
		n, err := v.Int64()
		if err != nil {
			t.Fatal(err)
		}
		return int(n)
	case string:
		if key != "sha256" && key != "md5" {
			return v
		}
		raw, err := hex.DecodeString(v)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	case []any:
		for i := range v {
			v[i] = packable(t, "", v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = packable(t, key, v[key])
		}
	}
	return v
}

// asShards returns the records of a list as the shards that a channel would publish.
func asShards(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	var list map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&list); err != nil {
		t.Fatal(err)
	}
	shards := map[string]map[string]any{}
	for _, part := range []string{"packages", "packages.conda"} {
		files, _ := list[part].(map[string]any)
		for file, r := range files {
			record := packable(t, "", r).(map[string]any)
			name := record["name"].(string)
			if shards[name] == nil {
				shards[name] = map[string]any{"packages": map[string]any{}, "packages.conda": map[string]any{}}
			}
			shards[name][part].(map[string]any)[file] = record
		}
	}
	out := map[string][]byte{}
	for name, s := range shards {
		out[name] = pack(s)
	}
	return out
}

// TestShardsMatchList checks that shards and repodata of a channel give the same
// records.
func TestShardsMatchList(t *testing.T) {
	t.Parallel()
	text := condadata.Repodata(t, "conda-forge", "noarch")
	path := filepath.Join(t.TempDir(), "x.idx")
	if _, err := index.Build(path, bytes.NewReader(text), index.Meta{}, done); err != nil {
		t.Fatal(err)
	}
	whole, err := index.Open(path, place())
	if err != nil {
		t.Fatal(err)
	}
	shards := asShards(t, text)
	parts := writeShards(t, index.Hash{1}, shards)
	if whole.Len() < 500 || whole.Len() != parts.Len() || whole.Meta().Records != parts.Meta().Records {
		t.Errorf("%d names with %d records in the list, %d with %d in the shards", whole.Len(), whole.Meta().Records, parts.Len(), parts.Meta().Records)
	}
	byFile := func(x *index.Index, name string) []spec.Record {
		records, err := x.Records(name)
		if err != nil {
			t.Fatal(err)
		}
		return slices.SortedFunc(slices.Values(records), func(a, b spec.Record) int { return cmp.Compare(a.FileName, b.FileName) })
	}
	for name := range shards {
		if diff := gocmp.Diff(byFile(whole, name), byFile(parts, name)); diff != "" {
			t.Fatalf("%s (-list +shards):\n%s", name, diff)
		}
	}
}
