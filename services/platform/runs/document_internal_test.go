package runs

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"testing"
	"time"
)

// FuzzReport has a run and a task say anything of themselves: what is answered is one
// JSON object that says the same, and our columns besides.
func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"runName":"happy","start":1769860800000,"launchId":null,"n":9007199254740993,"params":{"a":[1,null,"é"]},"status":"FAILED","id":7}`))
	f.Add([]byte(`{"taskId":"1","exit":2147483647,"status":"COMPLETED","submit":"2026-01-31T12:00:01.5+01:00","x":1e400}`))
	f.Add([]byte("{\"\xff\":\"\\ud800<&>\\u2028\",\"runName\":\"\\u0000\",\"commandLine\":[]}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		said, err := parseObject(raw)
		if err != nil {
			return
		}
		w := workflow{id: "r1", status: statusRunning}
		w.describe(maps.Clone(said))
		got := objectOf(t, w.shown(time.Time{}).GetJson())
		if got["id"] != "r1" || got["status"] != statusRunning || got["deleted"] != false {
			t.Errorf("the run is %v", got)
		}
		ours := w.columns(time.Time{})
		for name, v := range said {
			switch name {
			case "commandLine", "workDir", "start", "complete":
				continue // in our form
			}
			if _, column := ours[name]; !column && !reflect.DeepEqual(got[name], v) {
				t.Errorf("%q is %v, and was %v", name, got[name], v)
			}
		}
		again := w
		doc, err := w.said()
		if again.describe(doc); err != nil || again != w {
			t.Errorf("read and written again, it is\n%+v\nand was\n%+v, %v", again, w, err)
		}
		if task, is := parseTask(map[string]any(said)); is {
			if got := objectOf(t, task.shown().GetJson()); got["taskId"] != json.Number(itoa(task.id)) || got["status"] != task.status {
				t.Errorf("the task is %v", got)
			}
		}
	})
}

// objectOf reads one JSON object that has each name once.
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
		t.Errorf("%d names of %d members, %v: %s", names, len(o), err, raw)
	}
	return o
}
