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

// builds is how many builds Large makes of each: a popular package then has over a
// thousand records, as it has at conda-forge, of which the test data is a tenth.
const builds = 10

// Large writes a repodata.json of so many records, made of those of a channel's
// subdirectory: all of them, then the same as other builds of the same packages, then
// again and again under other names. Requests have the answers that they have without
// the copies, since a copy does not say when it was made: other things being equal, the
// newer one is preferred.
func Large(t T, out io.Writer, channel, subdir string, records int) {
	t.Helper()
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(Repodata(t, channel, subdir), &doc); err != nil {
		t.Fatalf("reading %s/%s: %v", channel, subdir, err)
	}
	w := bufio.NewWriterSize(out, 1<<20)
	fmt.Fprintf(w, `{"info":%s`, doc["info"])
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
	_ = w.WriteByte('}') // Flush says what went wrong
	if err := w.Flush(); err != nil {
		t.Fatalf("writing repodata: %v", err)
	}
}

// part is "packages" or "packages.conda": the files, sorted, and their records.
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

// write writes the files of all rounds, at most so many, and tells how many.
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
	_ = w.WriteByte('}') // Flush says what went wrong
	return n
}

// again is a record as it stands in a round: itself, another build, another package.
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
