package condadata

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// builds is the number of builds that Large creates for each record. A popular package then has
// over a thousand records, as on conda-forge. The test data contains a tenth of the records of
// conda-forge.
const builds = 10

// Large writes a repodata.json with the given number of records, derived from those of a
// channel's subdirectory; see Enlarge.
func Large(t T, out io.Writer, channel, subdir string, records int) {
	t.Helper()
	Enlarge(t, out, Repodata(t, channel, subdir), records)
}

// Enlarge writes a repodata.json with the given number of records, derived from those of a
// smaller one: first all of them, then the same packages with other builds, then
// copies under other names. Requests have the same results as without the copies: copies
// have no timestamp, and otherwise equal records are ordered by timestamp, newest first.
func Enlarge(t T, out io.Writer, repodata []byte, records int) {
	t.Helper()
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(repodata, &doc); err != nil {
		t.Fatalf("reading repodata: %v", err)
	}
	info := doc["info"]
	if info == nil {
		info = json.RawMessage("{}")
	}
	w := bufio.NewWriterSize(out, 1<<20)
	fmt.Fprintf(w, `{"info":%s`, info)
	var parts []part
	all := 0
	for _, key := range []string{"packages", "packages.conda"} {
		parts = append(parts, newPart(t, key, doc[key]))
		all += len(parts[len(parts)-1].files)
	}
	rounds := (records + all - 1) / all
	for _, p := range parts {
		records -= p.write(w, rounds, records)
	}
	_ = w.WriteByte('}') // Flush returns the error
	if err := w.Flush(); err != nil {
		t.Fatalf("writing repodata: %v", err)
	}
}

// A part is "packages" or "packages.conda": the sorted file names and their records.
type part struct {
	key     string
	files   []string
	records map[string]json.RawMessage
}

func newPart(t T, key string, raw []byte) part {
	t.Helper()
	p := part{key: key}
	if err := json.Unmarshal(raw, &p.records); err != nil {
		t.Fatalf("reading %s: %v", key, err)
	}
	p.files = slices.Sorted(maps.Keys(p.records))
	return p
}

// write writes the files of all rounds, at most most of them, and returns their number.
func (p part) write(w *bufio.Writer, rounds, most int) (n int) {
	fmt.Fprintf(w, `,%q:{`, p.key)
	separator := ""
	for round := range rounds {
		for _, file := range p.files[:min(len(p.files), most-n)] {
			name, record := again(round, file, p.records[file])
			fmt.Fprintf(w, "%s%q:%s", separator, name, record)
			separator = ","
			n++
		}
	}
	_ = w.WriteByte('}') // Flush returns the error
	return n
}

// again returns a record as it is in a round: unchanged, as another build, or as another
// package.
func again(round int, file string, record []byte) (string, []byte) {
	switch {
	case round == 0:
		return file, record
	case round < builds:
		at := strings.LastIndexByte(file, '-') + 1
		mark := fmt.Sprintf("r%d_", round)
		record = bytes.Replace(record, []byte(`"build":"`), []byte(`"build":"`+mark), 1)
		return file[:at] + mark + file[at:], bytes.Replace(record, []byte(`"timestamp":`), []byte(`"was":`), 1)
	}
	mark := fmt.Sprintf("r%d-", round)
	return mark + file, bytes.Replace(record, []byte(`"name":"`), []byte(`"name":"`+mark), 1)
}
