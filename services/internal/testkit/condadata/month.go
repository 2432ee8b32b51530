package condadata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
)

// Days is the number of days of a Month.
const Days = 30

// A Month is a month in the life of a channel's subdirectory, derived from real records. Each
// day some records are patched, removed and added, as on conda-forge: in the month, 5% are
// patched, 1% are removed, and 5% are added, which are newer builds and versions of existing
// packages.
type Month struct {
	files   []string
	records map[string]map[string]json.RawMessage
}

// NewMonth returns a month of a channel's subdirectory, e.g. "conda-forge" and "linux-64".
func NewMonth(t T, channel, subdir string) *Month {
	t.Helper()
	var doc struct {
		Packages map[string]map[string]json.RawMessage `json:"packages"`
		Conda    map[string]map[string]json.RawMessage `json:"packages.conda"`
	}
	if err := json.Unmarshal(Repodata(t, channel, subdir), &doc); err != nil {
		t.Fatalf("reading %s/%s: %v", channel, subdir, err)
	}
	m := &Month{records: doc.Packages}
	maps.Copy(m.records, doc.Conda)
	m.files = slices.Sorted(maps.Keys(m.records))
	return m
}

// Cumulative shares of the files that are patched, removed and added in the month, in
// thousandths of all files. Each kind is spread evenly over the days.
const (
	thousandths = 1000
	patched     = 50
	removed     = patched + 10
	added       = removed + 50
)

// changeOf returns a number below thousandths that decides what happens to a file, and the day.
func changeOf(file string) (of, day int) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(file)) // it returns no error
	n := h.Sum64()
	n ^= n >> 29
	return int(n % thousandths), 1 + int(n/thousandths%Days)
}

// Repodata returns the repodata.json of a day, from 0, the original records, to Days.
func (m *Month) Repodata(t T, day int) []byte {
	t.Helper()
	all := map[string]map[string]any{"packages": {}, "packages.conda": {}}
	put := func(file string, record map[string]json.RawMessage) {
		key := "packages"
		if strings.HasSuffix(file, ".conda") {
			key = "packages.conda"
		}
		all[key][file] = record
	}
	for _, file := range m.files {
		record := m.records[file]
		of, on := changeOf(file)
		switch {
		case of >= added || on > day:
			put(file, record)
		case of < patched:
			put(file, patch(record))
		case of >= removed:
			put(file, record)
			put(newer(file, record))
		}
	}
	out, err := encode(all)
	if err != nil {
		t.Fatalf("writing repodata: %v", err)
	}
	return out
}

// encode returns a value as JSON. Unlike json.Marshal it does not escape ">" and "<", because
// channels do not escape them.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(out.Bytes()), err
}

// patch returns a record whose dependencies were corrected: the first one is no longer
// restricted, and one was added.
func patch(record map[string]json.RawMessage) map[string]json.RawMessage {
	record = maps.Clone(record)
	var depends []string
	if json.Unmarshal(record["depends"], &depends) == nil && len(depends) > 0 {
		depends[0], _, _ = strings.Cut(depends[0], " ")
	}
	record["depends"] = texts(append(depends, "tzdata"))
	return record
}

// newer returns a later version of a package.
func newer(file string, record map[string]json.RawMessage) (string, map[string]json.RawMessage) {
	record = maps.Clone(record)
	version := string(bytes.Trim(record["version"], `"`)) + ".post1"
	record["version"], _ = json.Marshal(version) // a string can be encoded
	delete(record, "timestamp")
	stem := strings.TrimSuffix(strings.TrimSuffix(file, ".conda"), ".tar.bz2")
	return fmt.Sprintf("%s.post1%s", stem, strings.TrimPrefix(file, stem)), record
}

func texts(list []string) json.RawMessage {
	out, _ := encode(list) // strings can be encoded
	return out
}
