package spec_test

import (
	"encoding/json"
	"strings"
	"testing"

	"slipway.dev/services/conda/spec"
)

// TestRecordWithoutDepends checks that a record without dependencies has an empty list:
// `conda list` and rattler fail on null.
func TestRecordWithoutDepends(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(spec.Record{Name: "tzdata"})
	if err != nil || !strings.Contains(string(raw), `"depends":[]`) || strings.Contains(string(raw), "null") {
		t.Errorf("%s, %v", raw, err)
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(spec.Record{Name: "a", Depends: []string{"b >=1,<2"}}); err != nil || !strings.Contains(b.String(), `"depends":["b >=1,<2"]`) {
		t.Errorf("%s, %v", b.String(), err)
	}
	var back spec.Record
	if err := json.Unmarshal([]byte(`{"name":"a","depends":null}`), &back); err != nil || back.Name != "a" {
		t.Errorf("%+v, %v", back, err)
	}
}
