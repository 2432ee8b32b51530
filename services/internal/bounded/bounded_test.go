package bounded_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"slipway.dev/services/internal/bounded"
	"slipway.dev/services/internal/testkit/heap"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	s := bounded.Limits{Depth: 3, Values: 8}
	for _, tc := range []struct {
		name, in, want string
	}{
		{"empty input", ``, ""},
		{"a scalar", `7`, ""},
		{"at the depth limit", `[[[1]]]`, ""},
		{"too deep", `[[[[1]]]]`, "levels"},
		{"siblings do not add depth", `[[],[],[]]`, ""},
		{"at the value limit", `[1,2,3,4,5,6,7]`, ""},
		{"too many", `[1,2,3,4,5,6,7,8]`, "values"},
		{"too many empty objects", `[{},{},{},{}]`, "values"},
		{"members", `{"a":1,"b":2,"c":{"d":3}}`, ""},
		{"brackets and commas in strings", `["[[[[[[,,,,,,,,,,,"]`, ""},
		{"quotes in strings", `["\"[[[[,,,,,,,,,\\\"[[["]`, ""},
		{"a string that ends in a backslash", `["\\",[[[1]]]]`, "levels"},
		{"an unterminated string", `"[[[[`, ""},
	} {
		err := s.Check([]byte(tc.in))
		if got := err != nil && strings.Contains(err.Error(), tc.want); (err == nil) != (tc.want == "") || err != nil && !got {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}

// TestDecodeIsBounded decodes the inputs that expand most: lists of empty values.
func TestDecodeIsBounded(t *testing.T) {
	s := bounded.Limits{Depth: 32, Values: 1 << 15}
	for _, one := range []string{"{}", "[]", "0", "null", `""`, `{"a":{}}`, `{"z":[]}`} {
		raw := []byte(`{"list":[` + strings.Repeat(one+",", 4<<20/(len(one)+1)) + one + `]}`)
		heap.Within(t, 4, 64<<10, raw, func() {
			var v struct {
				List []struct {
					A *struct{ B [100]string }
					Z []string
				}
			}
			if s.Decode(raw, &v) == nil {
				t.Errorf("a list of millions of %q was decoded", one)
			}
		})
	}
}

// FuzzLimits verifies that Check never counts less than encoding/json does.
func FuzzLimits(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"\"],["},null]}`))
	f.Add([]byte(`"\\\\\""`))
	f.Add([]byte(`[[[[[[`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		values, deepest := count(raw)
		if values > 1 && (bounded.Limits{Depth: deepest, Values: values - 1}).Check(raw) == nil {
			t.Errorf("%q has %d values, and Check accepted a limit below that", raw, values)
		}
		if deepest > 0 && (bounded.Limits{Depth: deepest - 1, Values: 1 << 30}).Check(raw) == nil {
			t.Errorf("%q is nested %d levels deep, and Check accepted a limit below that", raw, deepest)
		}
		s := bounded.Limits{Depth: 16, Values: 1000}
		heap.Within(t, 64, 256<<10, raw, func() { var v any; _ = s.Decode(raw, &v) })
	})
}

// count returns the number of values and the depth that encoding/json sees, or zeros for
// invalid JSON.
func count(raw []byte) (values, deepest int) {
	if !json.Valid(raw) {
		return 0, 0
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	depth := 0
	inObject := []bool{}
	isKey := false
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return values, deepest
		}
		if err != nil {
			return 0, 0
		}
		d, isDelim := tok.(json.Delim)
		if isDelim && (d == '}' || d == ']') {
			depth--
			inObject = inObject[:depth]
			isKey = depth > 0 && inObject[depth-1]
			continue
		}
		if isKey {
			isKey = false
			continue
		}
		values++
		if isDelim {
			depth++
			deepest = max(deepest, depth)
			inObject = append(inObject, d == '{')
			isKey = d == '{'
			continue
		}
		isKey = depth > 0 && inObject[depth-1]
	}
}

func BenchmarkCheck(b *testing.B) {
	raw := []byte(`{"layers":[` + strings.Repeat(`{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:0123456789abcdef","size":12345},`, 50) + `{}]}`)
	s := bounded.Limits{Depth: 32, Values: 1 << 15}
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Check(raw); err != nil {
			b.Fatal(err)
		}
	}
}
