package output

import (
	"encoding/json"
	"testing"
)

func FuzzPick(f *testing.F) {
	f.Add([]byte(`{"builds":[{"buildId":"beef_1","size":12345678901234567890},{"buildId":"feed_1","reason":"\u001b[31msolve"}],"totalSize":2}`))
	f.Add([]byte(`{"user":{"id":1}}`))
	f.Add([]byte(`{"a":[1],"builds":null}`))
	f.Add([]byte(` [{"a\"":1}]`))
	f.Add([]byte(` { } `))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, shapes := range [][]shape{nil, {{entries: "builds", isList: true}}, {{entries: "user"}, {}}} {
			if out, err := pick(raw, []string{"buildId", "a\""}, shapes); err == nil && !json.Valid(out) {
				t.Errorf("%s becomes %s", raw, out)
			}
			if out := withList(raw, shapes); json.Valid(raw) && !json.Valid(out) {
				t.Errorf("%s with its list is %s", raw, out)
			}
		}
	})
}
