package gateway

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// TestBodiesThatGrowWhenRead checks that bodies which take far more memory when decoded are
// rejected with memory of about their own length.
//
//nolint:paralleltest // it measures what is allocated meanwhile
func TestBodiesThatGrowWhenRead(t *testing.T) {
	for name, body := range map[string]string{
		"empty layers":   `{"containerConfig":{"layers":[{}` + strings.Repeat(",{}", 10_600_000) + `]}}`,
		"empty texts":    `{"containerConfig":{"env":[""` + strings.Repeat(`,""`, 10_000_000) + `]}}`,
		"unknown fields": `{"x":[0` + strings.Repeat(",0", 15_000_000) + `]}`,
		"a deep list":    `{"x":` + strings.Repeat("[", 15_000_000),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := newMarshaler(jsonLimits{values: MaxValues, depth: MaxDepth}).NewDecoder(strings.NewReader(body)).Decode(&containerv1.ContainerRequest{})
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%s: got %v", name, err)
		}
		// Half of the memory is for the growing buffers in which the body is read.
		if used := after.TotalAlloc - before.TotalAlloc; used > 8*MaxBody {
			t.Errorf("%s: %d bytes took %d bytes to refuse", name, len(body), used)
		}
	}
}

// FuzzBody compares the counts with those of a JSON decoder, so that no string hides values
// or adds any.
func FuzzBody(f *testing.F) {
	f.Add(`{"a":[1,"x,[",{}],"b":"\\\"["}`)
	f.Add(`[[],{},"\u005b"]`)
	f.Fuzz(func(t *testing.T, body string) {
		var v any
		if json.Unmarshal([]byte(body), &v) != nil || strings.Count(body, `":`)+strings.Count(body, `" `) > 1 {
			return // a duplicate name hides values
		}
		n, depth := count(v)
		if err := (jsonLimits{values: 4*n + 4, depth: depth + 1}).check([]byte(body)); err != nil {
			t.Errorf("%q with %d values, %d deep: %v", body, n, depth, err)
		}
		if depth > 0 && (jsonLimits{values: 4*n + 4, depth: depth - 1}).check([]byte(body)) == nil {
			t.Errorf("%q is %d deep and was let through", body, depth)
		}
	})
}

// count returns the number of values, without those that a duplicate name hides, and the
// depth.
func count(v any) (n, depth int) {
	n = 1
	add := func(e any) {
		m, d := count(e)
		n, depth = n+m, max(depth, d)
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			add(e)
		}
		return n, depth + 1
	case map[string]any:
		for _, e := range v {
			add(e)
		}
		return n, depth + 1
	}
	return n, 0
}
