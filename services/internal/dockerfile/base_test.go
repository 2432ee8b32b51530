package dockerfile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/dockerfile"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// image returns a configuration as in a registry.
func image(t *testing.T, env, onBuild []string, dir string) []byte {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"os": "linux", "architecture": "amd64",
		"config": map[string]any{"Env": env, "OnBuild": onBuild, "WorkingDir": dir},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// doublingTriggers returns ONBUILD instructions whose variables expand to 10²³ bytes.
func doublingTriggers() []string {
	out := []string{"ENV A0=" + strings.Repeat("x", 1000)}
	for i := range 20 {
		out = append(out, fmt.Sprintf("ENV A%d=%s", i+1, strings.Repeat(fmt.Sprintf("$A%d", i), 10)))
	}
	return out
}

// TestWithBase checks that the growth because of a base image is limited before anything is
// expanded.
func TestWithBase(t *testing.T) {
	t.Parallel()
	usual := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"}
	long := []string{"A=" + strings.Repeat("x", 40_000)}
	for _, c := range []struct {
		name, file string
		config     []byte
		why        string // "" is within the limits
	}{
		{name: "a usual image", file: "FROM a\nRUN echo $PATH\n", config: image(t, usual, nil, "/app")},
		{name: "usual triggers", file: "FROM a AS b\nFROM b\nRUN true\n", config: image(t, usual, []string{"COPY . /app", "RUN npm install", "ENV A=$PATH"}, "/app")},
		{name: "no configuration", file: "FROM a\n", config: []byte(`{}`)},
		{name: "triggers that grow", file: "FROM a\n", config: image(t, usual, doublingTriggers(), ""), why: "its variables expand to more than"},
		{name: "triggers that grow, of a stage whose name is an argument", file: "ARG B=b\nFROM a AS b\nFROM $B\n", config: image(t, usual, doublingTriggers(), ""), why: "its variables expand to more than"},
		{name: "triggers that grow from a variable of the image", file: "FROM a\n", config: image(t, long, []string{"ENV B=$A$A$A"}, ""), why: "its variables expand to more than"},
		{name: "a variable of the image", file: "FROM a\nENV B=$A$A$A\n", config: image(t, long, nil, ""), why: "its variables expand to more than"},
		{name: "variables that each step carries", file: "FROM a\n" + strings.Repeat("RUN true\n", 300), config: image(t, long, nil, ""), why: "the Dockerfile expands to more than"},
		{name: "triggers of many stages", file: strings.Repeat("FROM a\n", 90), config: image(t, usual, slices.Repeat([]string{"RUN true"}, 100), ""), why: "more than 2000 instructions"},
		{name: "many triggers", file: "FROM a\n", config: image(t, nil, slices.Repeat([]string{"RUN true"}, limits.DockerfileInstructions+1), ""), why: "ONBUILD instructions"},
		{name: "long triggers", file: "FROM a\n", config: image(t, nil, []string{"RUN " + strings.Repeat("x", limits.Dockerfile)}, ""), why: "ONBUILD instructions"},
		{name: "many variables", file: "FROM a\n", config: image(t, slices.Repeat([]string{"A=b"}, limits.DockerfileVariables+1), nil, ""), why: "variables"},
		{name: "an invalid trigger", file: "FROM a\n", config: image(t, nil, []string{"NONSENSE x"}, ""), why: "unknown instruction"},
		{name: "nonsense", file: "FROM a\n", config: []byte("["), why: "malformed"},
	} {
		f, err := dockerfile.Read(c.file)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		more, err := f.WithBase(c.config)
		e, ok := fault.As(err)
		switch {
		case c.why == "" && (err != nil || more < 0 || more > 10_000):
			t.Errorf("%s: %d bytes more, %v", c.name, more, err)
		case c.why != "" && (!ok || !errors.Is(err, fault.Invalid) || !strings.Contains(e.Public, c.why)):
			t.Errorf("%s: %v, want %q", c.name, err, c.why)
		}
	}
}
