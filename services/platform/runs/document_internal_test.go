package runs

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"testing"
	"time"
)

// FuzzReport checks that an arbitrary report of a run or a task is returned as one JSON object
// with the same members and those of the database columns.
func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"runName":"happy","start":1769860800000,"launchId":null,"n":9007199254740993,"params":{"a":[1,null,"é"]},"status":"FAILED","id":7}`))
	f.Add([]byte(`{"taskId":"1","exit":2147483647,"status":"COMPLETED","submit":"2026-01-31T12:00:01.5+01:00","x":1e400}`))
	f.Add([]byte("{\"\xff\":\"\\ud800<&>\\u2028\",\"runName\":\"\\u0000\",\"commandLine\":[]}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		report, err := parseObject(raw)
		if err != nil {
			return
		}
		w := workflow{id: "r1", status: statusRunning}
		w.setDocument(maps.Clone(report))
		got := objectOf(t, w.toProto(time.Time{}).GetJson())
		if got["id"] != "r1" || got["status"] != statusRunning || got["deleted"] != false {
			t.Errorf("the run is %v", got)
		}
		columns := w.columns(time.Time{})
		for name, v := range report {
			switch name {
			case "commandLine", "workDir", "start", "complete":
				continue // normalized
			}
			if _, column := columns[name]; !column && !reflect.DeepEqual(got[name], v) {
				t.Errorf("member %q is %v, want %v", name, got[name], v)
			}
		}
		again := w
		doc, err := w.reported()
		if again.setDocument(doc); err != nil || again != w {
			t.Errorf("after a round trip, the run is\n%+v\nwant\n%+v, %v", again, w, err)
		}
		if task, is := parseTask(map[string]any(report)); is {
			if got := objectOf(t, task.toProto().GetJson()); got["taskId"] != json.Number(itoa(task.id)) || got["status"] != task.status {
				t.Errorf("the task is %v", got)
			}
		}
	})
}

// objectOf decodes a JSON object and checks that it has each name once.
func objectOf(t *testing.T, raw []byte) object {
	t.Helper()
	o, err := parseObject(raw)
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	names := 0
	dec := json.NewDecoder(bytes.NewReader(raw))
	_, err = dec.Token()
	for ; err == nil && dec.More(); names++ {
		if _, err = dec.Token(); err == nil {
			err = dec.Decode(&json.RawMessage{})
		}
	}
	if err != nil || names != len(o) {
		t.Errorf("got %d names for %d members, %v: %s", names, len(o), err, raw)
	}
	return o
}
