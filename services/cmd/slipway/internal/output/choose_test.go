package output

import (
	"encoding/json"
	"testing"
)

func FuzzPick(f *testing.F) {
	f.Add([]byte(`{"builds":[{"buildId":"beef_1","size":12345678901234567890},{"buildId":"feed_1","reason":"\u001b[31msolve"}],"totalSize":2}`))
	f.Add([]byte(`{"user":{"id":1}}`))
	f.Add([]byte(`{"a":[1],"b":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		out, err := pick(raw, []string{"buildId", "a\""})
		if err == nil && !json.Valid(out) {
			t.Errorf("%s becomes %s", raw, out)
		}
	})
}
