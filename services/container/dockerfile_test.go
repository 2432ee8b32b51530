package container

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
)

func TestImagesOfADockerfile(t *testing.T) {
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
		{"FROM knows earlier stages alone", "FROM b\nFROM a AS b", []string{hub + "b:latest", hub + "a:latest"}},
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
		{"too late for a directive", "\n# escape=`\nFROM a\nRUN y \\\nFROM c", []string{hub + "a:latest"}},
		{"too late behind another comment", "# hello\n# escape=`\nFROM a\nRUN y \\\nFROM c", []string{hub + "a:latest"}},
		{"here-document", "FROM a\nRUN <<EOF\nFROM b\nEOF\nFROM c", []string{hub + "a:latest", hub + "c:latest"}},
		{"two here-documents", "FROM a\nCOPY <<A <<-\"B\" /x\nFROM b\n\tA\nA\nFROM c\n\t\tB\nFROM d", []string{hub + "a:latest", hub + "d:latest"}},
		{"here-documents with more around", "FROM a\nRUN cat << 'E' | sh && 3<<F x\nE \nE\nF\nFROM b", []string{hub + "a:latest", hub + "b:latest"}},
		{"no here-documents", "FROM a\nRUN cat <<<x y<<z \"<<q\" '<<r' $((1<<2)) ${X}\nENV A=<<E\nFROM b", []string{hub + "a:latest", hub + "b:latest"}},
		{"a here-string", "FROM a\nRUN it's ${X:-y} <<<z\nFROM b", []string{hub + "a:latest", hub + "b:latest"}},
		{"an image called as", "FROM as AS as\nFROM as", []string{hub + "as:latest"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			images, err := imagesOf(tc.in, oci.Platform{OS: "linux", Architecture: "arm64"})
			if err != nil {
				t.Fatal(err)
			}
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
		{"empty", "", "no FROM"},
		{"comments", "# a\n\n# b", "no FROM"},
		{"no text", "FROM a\x00", "UTF-8"},
		{"not UTF-8", "FROM \xff", "UTF-8"},
		{"unknown instruction", "FROM a\nRUM x", `line 2: "RUM" is no Dockerfile instruction`},
		{"before FROM", "RUN x\nFROM a", "must not stand before FROM"},
		{"words behind", "FROM a b", "FROM must be written"},
		{"no image", "FROM", "FROM must be written"},
		{"empty image", "FROM $X", "empty"},
		{"malformed image", "FROM A B/c", "FROM must be written"},
		{"upper case", "FROM Abc/D", "not a valid image name"},
		{"stage's name", "FROM a AS 1b", "no name for a stage"},
		{"stage's number", "FROM a\nCOPY --from=3 / /", "no such stage"},
		{"negative number", "FROM a\nCOPY --from=-1 / /", "no such stage"},
		{"escape", `FROM a\b`, "without escapes"},
		{"unclosed quote", "FROM 'a", "without escapes"},
		{"unclosed variable", "FROM ${A", "without escapes"},
		{"special form", "ARG A=x\nFROM ${A%x}", "without escapes"},
		{"nested form", "FROM ${A:-${B}}", "without escapes"},
		{"escaped argument", "ARG A=x\\ B=y\nFROM $A", "not known here"},
		{"every name in an escaped argument", "ARG A=x\\ B=y\nFROM $B", "not known here"},
		{"the worker's platform", "FROM a-$BUILDARCH", "not known here"},
		{"the worker's proxy", "ARG http_proxy=b\nFROM $http_proxy", "not known here"},
		{"variable in from", "FROM a\nCOPY --from=$X / /", "must be a stage or an image"},
		{"variable in a mount", "FROM a\nRUN --mount=from=$X,target=/x y", "must be a stage or an image"},
		{"quotes in a mount", "FROM a\nRUN --mount=type=bind,\\\"from=b\\\" y", "without quotes"},
		{"quote in a flag", "FROM a\nCOPY --from=\"b / /", "not closed"},
		{"letters in a flag", "FROM a\nCOPY --fröm=b / /", "ASCII"},
		{"here-document without an end", "FROM a\nRUN <<E\nx", "has no end"},
		{"here-document with a strange name", "FROM a\nRUN <<E;F\nx\nE;F", "cannot be told"},
		{"here-document behind an open quote", "FROM a\nRUN it's <<E\nFROM b\nE", "cannot be told"},
		{"here-document in a variable", "FROM a\nRUN ${X:-<<E}\nFROM b\nE}", "cannot be told"},
		{"here-document in a list", "FROM a\nRUN [ <<E ]\nFROM b\nE", "cannot be told"},
		{"here-document behind a strange blank", "FROM a\nRUN x\u00a0<<E\nFROM b\nE", "cannot be told"},
		{"escape directive with another character", "# escape=x\nFROM a", "must name"},
		{"directive twice", "# check=x\n# check=y\nFROM a", "only one check"},
		{"many images", manyImages(), "are the most"},
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

// TestVariablesThatNameEachOther takes little memory to refuse what stands for much,
// before FROM as within a stage.
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
		r := &recipe{field: "containerFile", containerFile: text + "FROM a$A12\n"}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := r.readImages(oci.DefaultPlatform)
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

// FuzzDockerfile looks for panics, and for images that come out otherwise when
// the file is put another way that means the same.
func FuzzDockerfile(f *testing.F) {
	for _, s := range []string{
		"FROM a AS b\nRUN <<E\nFROM z\nE\nCOPY --from=c / /\n", "# escape=`\nARG A=\"x\"\nFROM ${A:-b}\nRUN a `\n b\n",
		"FROM a\nRUN --mount=type=bind,from=m x\nONBUILD COPY --from=q / /\n", "FROM a\nRUN << 'E' x <<-F\nE\n\tF\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		images, err := imagesOf(text, oci.DefaultPlatform)
		if err != nil {
			if !errors.Is(err, fault.Invalid) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		again, err := imagesOf(text+"\n\n# the end\n", oci.DefaultPlatform)
		if diff := cmp.Diff(images, again); err == nil && diff != "" {
			t.Errorf("%q: with a comment behind (-before +after):\n%s", text, diff)
		}
	})
}
