package dockerfile

import (
	"strings"
	"testing"
)

const stages = `# syntax=docker/dockerfile:1
ARG BASE=alpine:3.20 OTHER
FROM ${BASE} AS build
ARG FLAGS="a b"
RUN <<EOF
echo x
FROM not a stage
EOF
RUN echo \
  # a comment
  FROM neither
from scratch as Final
COPY --from=build /x /x
FROM busybox
`

func TestStages(t *testing.T) {
	t.Parallel()
	for target, last := range map[string]string{"build": "  FROM neither", "0": "  FROM neither", "final": "COPY --from=build /x /x", "2": "FROM busybox\n"} {
		if got, err := UntilStage(stages, target); err != nil || !strings.HasSuffix(got, last) || !strings.HasPrefix(stages, got) {
			t.Errorf("%s: %v\n%s", target, err, got)
		}
	}
	if _, err := UntilStage(stages, "none"); err == nil || !strings.Contains(err.Error(), "it has build, Final, 2") {
		t.Error(err)
	}
}

func TestBuildArguments(t *testing.T) {
	t.Parallel()
	got, err := WithArguments(stages, map[string]string{"BASE": "debian:12", "FLAGS": `x "$y" \`, "OTHER": ""})
	want := strings.NewReplacer("ARG BASE=alpine:3.20 OTHER", `ARG BASE="debian:12" OTHER=""`, `ARG FLAGS="a b"`, `ARG FLAGS="x \"\$y\" \\"`).Replace(stages)
	if err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if _, err := WithArguments(stages, map[string]string{"BASES": "x", "A": "y"}); err == nil || !strings.Contains(err.Error(), "--build-arg A, BASES: no ARG") {
		t.Error(err)
	}
}

func FuzzReadDockerfile(f *testing.F) {
	f.Add(stages, "build")
	f.Add("FROM a\nRUN <<A <<B\nA\nB\n\\", "0")
	f.Fuzz(func(t *testing.T, text, name string) {
		lines := strings.Split(text, "\n")
		at := 0
		for _, in := range readDockerfile(lines) {
			if in.from < at || in.to <= in.from || in.to > len(lines) {
				t.Fatalf("%+v after line %d of %d", in, at, len(lines))
			}
			at = in.to
		}
		if got, err := UntilStage(text, name); err == nil && !strings.HasPrefix(text, got) {
			t.Errorf("%q is no beginning of %q", got, text)
		}
		if got, err := WithArguments(text, nil); err != nil || got != text {
			t.Errorf("without values %q became %q, %v", text, got, err)
		}
	})
}
