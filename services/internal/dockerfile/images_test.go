package dockerfile_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/dockerfile"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

func imagesOf(text string, p ocispec.Platform) ([]oci.Reference, error) {
	f, err := dockerfile.Read(text)
	if err != nil {
		return nil, err
	}
	return f.Images(p)
}

func TestImages(t *testing.T) {
	t.Parallel()
	const hub = "docker.io/library/"
	for _, tc := range []struct {
		name, in string
		want     []string
	}{
		{"one", "FROM a\nRUN true\n", []string{hub + "a:latest"}},
		{"lower case, no end of line", "from a:1", []string{hub + "a:1"}},
		{"other ends of lines", "FROM a\r\nRUN x \\\r\n y\r\nFROM b\r\n", []string{hub + "a:latest", hub + "b:latest"}},
		{"byte order mark", "\ufeffFROM a", []string{hub + "a:latest"}},
		{"scratch", "FROM scratch\nCOPY a /a", nil},
		{"digest", "FROM q.io/x/y:1@sha256:" + strings.Repeat("a", 64), []string{"q.io/x/y@sha256:" + strings.Repeat("a", 64)}},
		{"platform", "FROM --platform=$BUILDPLATFORM a AS b\nFROM b", []string{hub + "a:latest"}},
		{"each once", "FROM a\nFROM a:latest\nFROM docker.io/a", []string{hub + "a:latest"}},
		{"stages", "FROM a AS One\nFROM one\nCOPY --from=ONE / /\nCOPY --from=1 / /\n", []string{hub + "a:latest"}},
		{"a stage that is named later", "FROM a\nCOPY --from=b / /\nFROM c AS b", []string{hub + "a:latest", hub + "c:latest"}},
		{"FROM only refers to earlier stages", "FROM b\nFROM a AS b", []string{hub + "b:latest", hub + "a:latest"}},
		{"a stage named like its image", "FROM a AS a\nFROM a", []string{hub + "a:latest"}},
		{"copy from an image", "FROM a\nCOPY --chown=1 --from=b.io/c:1 / /", []string{hub + "a:latest", "b.io/c:1"}},
		{"quoted flag", "FROM a\nCOPY \"--from=x\" /\nCOPY --from=\"b\" / /\nCOPY --fr\\om=c / /", []string{hub + "a:latest", hub + "b:latest", hub + "c:latest"}},
		{"after the flags", "FROM a\nCOPY -- --from=b /", []string{hub + "a:latest"}},
		{"mounts", "FROM a AS s\nRUN --mount=type=cache,from=b,target=/b --mount=FROM=c,target=/c --mount=from=s,target=/s true", []string{
			hub + "a:latest", hub + "b:latest", hub + "c:latest",
		}},
		{"a number is no stage for a mount", "FROM a\nRUN --mount=from=0,target=/x true", []string{hub + "a:latest", hub + "0:latest"}},
		{"on build", "FROM a\nONBUILD COPY --from=b / /", []string{hub + "a:latest", hub + "b:latest"}},
		{"arguments", "ARG R=q.io/x V=1\nARG I=${R}/y:$V\nFROM $I\nFROM ${NONE:-z}\nFROM ${V:+w}\nFROM v${NONE}", []string{
			"q.io/x/y:1", hub + "z:latest", hub + "w:latest", hub + "v:latest",
		}},
		{"quoted arguments", "ARG A=\"q.io/x y\" B='$A'\nARG C=\"${B}z\"\nFROM a\"b\"'c'", []string{hub + "abc:latest"}},
		{"without a default", "ARG A\nFROM ${A:-b}", []string{hub + "b:latest"}},
		{"defaults that are not words", "ARG A\nFROM ${A-b}\nARG A=c\nFROM d", []string{hub + "b:latest", hub + "d:latest"}},
		{"arguments of a stage do not count", "ARG A=x\nFROM a\nARG A=y\nFROM $A", []string{hub + "a:latest", hub + "x:latest"}},
		{"target platform", "FROM a-${TARGETARCH}-$TARGETOS", []string{hub + "a-arm64-linux:latest"}},
		{"continued", "FROM \\\n# a comment\n\n  a \\  \n AS b\nRUN x \\\\\nFROM c", []string{hub + "a:latest", hub + "c:latest"}},
		{"a comment ends nothing", "FROM a\nRUN x \\\n  # y \\\n  z \\\nFROM b\nFROM c", []string{hub + "a:latest", hub + "c:latest"}},
		{"escape directive", "# syntax=x/y\n#escape = `\nFROM a\nRUN x `\nFROM b\nRUN y \\\nFROM c", []string{hub + "a:latest", hub + "c:latest"}},
		{"a directive after an empty line", "\n# escape=`\nFROM a\nRUN y \\\nFROM c", []string{hub + "a:latest"}},
		{"a directive after another comment", "# hello\n# escape=`\nFROM a\nRUN y \\\nFROM c", []string{hub + "a:latest"}},
		{"here-document", "FROM a\nRUN <<EOF\nFROM b\nEOF\nFROM c", []string{hub + "a:latest", hub + "c:latest"}},
		{"two here-documents", "FROM a\nCOPY <<A <<-\"B\" /x\nFROM b\n\tA\nA\nFROM c\n\t\tB\nFROM d", []string{hub + "a:latest", hub + "d:latest"}},
		{"here-documents among other words", "FROM a\nRUN cat << 'E' | sh && 3<<F x\nE \nE\nF\nFROM b", []string{hub + "a:latest", hub + "b:latest"}},
		{"no here-documents", "FROM a\nRUN cat <<<x y<<z \"<<q\" '<<r' $((1<<2)) ${X}\nENV A=<<E\nFROM b", []string{hub + "a:latest", hub + "b:latest"}},
		{"a here-string", "FROM a\nRUN it's ${X:-y} <<<z\nFROM b", []string{hub + "a:latest", hub + "b:latest"}},
		{"escapes", `FROM a\b`, []string{hub + "ab:latest"}},
		{"nested forms", "ARG B=b\nFROM ${A:-${B}}", []string{hub + "b:latest"}},
		{"patterns", "ARG V=b:1.2.3\nFROM ${V%.*}\nFROM x${V#b}\nFROM ${V//./-}", []string{hub + "b:1.2", hub + "x:1.2.3", hub + "b:1-2-3"}},
		{"escaped argument", "ARG A=x\\$B\nFROM y-${A%?B}", []string{hub + "y-x:latest"}},
		{"an argument that was not known", "ARG A=$BUILDARCH\nARG A=b\nFROM $A", []string{hub + "b:latest"}},
		{"quotes in a mount", "FROM a\nRUN --mount=type=bind,\\\"from=b\\\" y", []string{hub + "a:latest", hub + "b:latest"}},
		{"the last from of a mount", "FROM a\nRUN --mount=type=bind,from=b,from=c,target=/x y", []string{hub + "a:latest", hub + "c:latest"}},
		{"here-document with a strange name", "FROM a\nRUN <<E;F\nFROM b\nE;F\nFROM c", []string{hub + "a:latest", hub + "c:latest"}},
		{"here-document in a list", "FROM a\nRUN [ <<E ]\nFROM b\nE", []string{hub + "a:latest"}},
		{"here-document after a non-breaking space", "FROM a\nRUN x\u00a0<<E\nFROM b\nE", []string{hub + "a:latest"}},
		{"on build with another escape", "# escape=`\nFROM a\nONBUILD RUN --mount=type=bind,\\\"from=b\\\" y", []string{hub + "a:latest", hub + "b:latest"}},
		{"an image with the name as", "FROM as AS as\nFROM as", []string{hub + "as:latest"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			images, err := imagesOf(tc.in, ocispec.Platform{OS: "linux", Architecture: "arm64"})
			if err != nil {
				t.Fatal(err)
			}
			holdToEngine(t, tc.in, images)
			var got []string
			for _, i := range images {
				got = append(got, i.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDockerfilesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"empty", "", "no instructions"},
		{"comments", "# a\n\n# b", "no instructions"},
		{"arguments alone", "ARG A", "no FROM"},
		{"the character NUL", "FROM a\x00", "UTF-8"},
		{"not UTF-8", "FROM \xff", "UTF-8"},
		{"unknown instruction", "FROM a\nRUM x", "line 2: unknown instruction: RUM (did you mean RUN?)"},
		{"before FROM", "RUN x\nFROM a", "line 1: RUN must come after FROM"},
		{"words after the image", "FROM a b", "line 1: FROM requires"},
		{"no image", "FROM", "line 1: FROM requires"},
		{"empty image", "FROM $X", "line 1: $X expands to nothing"},
		{"malformed image", "FROM A B/c", "line 1: FROM requires"},
		{"upper case", "FROM Abc/D", "not a valid image name"},
		{"stage's name", "FROM a AS 1b", "invalid name for build stage"},
		{"stage's number", "FROM a\nCOPY --from=3 / /", "no such stage"},
		{"negative number", "FROM a\nCOPY --from=-1 / /", "no such stage"},
		{"unclosed quote", "FROM 'a", "matching single-quote"},
		{"unclosed variable", "FROM ${A", "line 1: "},
		{"nothing left", "ARG A=x\nFROM ${A%x}", "expands to nothing"},
		{"nested form", "FROM ${A:-${B}}", "expands to nothing"},
		{"escaped argument", "ARG A=x\\ B=y\nFROM $A", "must not contain spaces"},
		{"no argument", "ARG A=x\\ B=y\nFROM $B", "expands to nothing"},
		{"the worker's platform", "FROM a-$BUILDARCH", "is not known"},
		{"the worker's proxy", "ARG http_proxy=b\nFROM $http_proxy", "is not known"},
		{"an argument of the worker's platform", "ARG A=x-$BUILDARCH\nFROM $A", "is not known"},
		{"an error message for a missing argument", "ARG A=${B:?is missing}\nFROM a", "line 1: "},
		{"variable in from", "FROM a\nCOPY --from=$X / /", "must be a stage or the full name of an image"},
		{"variable in a mount", "FROM a\nRUN --mount=from=$X,target=/x y", "doesn't support variable expansion"},
		{"quote in a flag", "FROM a\nCOPY --from=\"b / /", "COPY requires at least two arguments"},
		{"letters in a flag", "FROM a\nCOPY --fröm=b / /", "unknown flag"},
		{"here-document without an end", "FROM a\nRUN <<E\nx", "line 2: unterminated heredoc"},
		{"here-document after an open quote", "FROM a\nRUN it's <<E\nFROM b\nE", "line 4: unknown instruction: E"},
		{"here-document in a variable", "FROM a\nRUN ${X:-<<E}\nFROM b\nE}", "line 4: unknown instruction: E}"},
		{"escape directive with another character", "# escape=x\nFROM a", "invalid escape token"},
		{"directive twice", "# check=x\n# check=y\nFROM a", "only one check"},
		{"many images", manyImages(), "the maximum is"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			images, err := imagesOf(tc.in, oci.DefaultPlatform)
			if !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, %v; want %q", images, err, tc.want)
			}
		})
	}
}

// TestVariablesThatNameEachOther checks that exponential expansions are rejected with
// little memory, before FROM and within a stage.
//
//nolint:paralleltest // it measures what is allocated meanwhile
func TestVariablesThatNameEachOther(t *testing.T) {
	for _, name := range []string{"ARG", "FROM a\nARG", "FROM a\nENV"} {
		text := name + " A0=0123456789\n"
		_, word, _ := strings.Cut("\n"+name, "\n")
		word = word[strings.LastIndex(word, "\n")+1:]
		for i := range 12 {
			text += fmt.Sprintf("%s A%d=%s\n", word, i+1, strings.Repeat(fmt.Sprintf("$A%d", i), 10))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := imagesOf(text+"FROM a$A12\n", oci.DefaultPlatform)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v", name, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
			t.Errorf("%s: %d bytes took %d bytes to read", name, len(text), used)
		}
	}
}

func manyImages() string {
	var b strings.Builder
	for i := range 60 {
		b.WriteString("FROM i" + strings.Repeat("x", i) + "\n")
	}
	return b.String()
}

// FuzzDockerfile looks for panics, for images that the engine reads and this package does
// not, and for images that change when the file is written in an equivalent way.
func FuzzDockerfile(f *testing.F) {
	for _, s := range []string{
		"FROM a AS b\nRUN <<E\nFROM z\nE\nCOPY --from=c / /\n", "# escape=`\nARG A=\"x\"\nFROM ${A:-b}\nRUN a `\n b\n",
		"FROM a\nRUN --mount=type=bind,from=m x\nONBUILD COPY --from=q / /\n", "FROM a\nRUN << 'E' x <<-F\nE\n\tF\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		images, err := imagesOf(text, ocispec.Platform{OS: "linux", Architecture: "arm64"})
		if err != nil {
			if !errors.Is(err, fault.Invalid) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		holdToEngine(t, text, images)
		again, err := imagesOf(text+"\n\n# the end\n", ocispec.Platform{OS: "linux", Architecture: "arm64"})
		if diff := cmp.Diff(images, again); err == nil && diff != "" {
			t.Errorf("%q: with a comment behind (-before +after):\n%s", text, diff)
		}
	})
}
