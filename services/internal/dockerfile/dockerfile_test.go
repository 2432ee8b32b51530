package dockerfile_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"slipway.dev/services/internal/dockerfile"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// doubling returns a chain of variables, each of which contains the previous one ten times.
func doubling(name, from string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s A0=%s\n", name, from)
	for i := range 12 {
		fmt.Fprintf(&out, "%s A%d=%s\n", name, i+1, strings.Repeat(fmt.Sprintf("$A%d", i), 10))
	}
	return out.String()
}

func TestAttacksOfADockerfile(t *testing.T) {
	t.Parallel()
	many := strings.Repeat
	for name, text := range map[string]string{
		"arguments before FROM":                     doubling("ARG", "0123456789") + "FROM a$A12\n",
		"arguments of a stage":                      "FROM a\n" + doubling("ARG", "0123456789"),
		"environment":                               "FROM a\n" + doubling("ENV", "0123456789"),
		"one variable that grows":                   "FROM a\nENV A=0123456789\n" + many("ENV A=$A$A\n", 40),
		"through a stage":                           "FROM a AS s0\nENV A=0123456789\nENV A=$A$A$A$A$A$A\nFROM s0 AS s1\nENV A=$A$A$A$A$A$A$A$A$A\nFROM s1\n" + many("ENV A=$A$A$A$A$A\n", 9),
		"through a stage whose name is an argument": "ARG S=s0\nFROM a AS s0\nENV A=0123456789" + many("0123456789", 900) + "\nFROM $S\nENV B=" + many("$A", 60) + "\n",
		"a name that is an argument":                "FROM a\nARG N=B\nENV $N=" + many("0123456789", 3000) + "\nENV C=$B$B$B\n",
		"a quoted name":                             "FROM a\nENV \"B\"=" + many("0123456789", 3000) + "\nENV C=$B$B$B\n",
		"a variable of the base image":              "FROM a\nENV B=" + many("$PATH", 100) + "\n",
		"defaults":                                  "FROM a\nENV A=" + many("0123456789", 1000) + "\nENV B=" + many("${X:-$A}", 10) + "\n",
		"replacement":                               "FROM a\nENV A=" + many("0123456789", 100) + "\nENV B=${A//?/" + many("0123456789", 10) + "}\n",
		"replacement by what is replaced":           "FROM a\nENV A=" + many("0123456789", 1000) + "\nENV B=${A/*/" + many(`\$0`, 20) + "}\n",
		"a here-document":                           "FROM a\nENV A=" + many("0123456789", 1000) + "\nCOPY <<EOF /x\n" + many("$A", 10) + "\nEOF\n",
		"labels":                                    "FROM a\nENV A=" + many("0123456789", 1000) + "\nLABEL a=" + many("$A", 10) + "\n",
		"copy":                                      "FROM a\nENV A=" + many("0123456789", 1000) + "\nCOPY " + many("$A", 10) + " /x\n",
		"a mount":                                   "FROM a\nENV A=" + many("0123456789", 1000) + "\nRUN --mount=type=cache,target=" + many("$A", 10) + " true\n",
		"the working directory":                     "FROM a\n" + many("WORKDIR "+many("a", 4000)+"\n", 150),
		"the environment of every step":             "FROM a\nENV A=" + many("0123456789", 5000) + "\n" + many("RUN true\n", 500),
		"on build":                                  "FROM a AS s0\nENV A=0123456789\n" + many("ONBUILD ENV A=$A$A\n", 40) + "FROM s0\n",
		"on build, stage after stage": "FROM a AS s0\nENV A=0123456789\nONBUILD ENV A=$A$A$A$A$A$A$A$A$A$A\nFROM s0 AS s1\nONBUILD ENV A=$A$A$A$A$A$A$A$A$A$A\n" +
			"FROM s1 AS s2\nONBUILD ENV A=$A$A$A$A$A$A$A$A$A$A\nFROM s2 AS s3\nONBUILD ENV A=$A$A$A$A$A$A$A$A$A$A\nFROM s3\n",
		"on build, again and again":    "FROM a AS s\n" + many("ONBUILD RUN true\n", 900) + many("FROM s\n", 90),
		"ports":                        "FROM a\n" + many("EXPOSE 1-65535\n", 200),
		"stages":                       many("FROM a\n", limits.DockerfileStages+1),
		"instructions":                 "FROM a\n" + many("RUN x\n", limits.DockerfileInstructions+1),
		"variables":                    "FROM a\n" + many("ENV a=1 b=2 c=3 d=4\n", limits.DockerfileVariables/4+1),
		"words":                        "FROM a\n" + many("COPY "+many("a ", 20000)+" /\n", 10),
		"members of lists":             "FROM a\n" + many("RUN ["+many(`"",`, 10000)+`""]`+"\n", 15),
		"braces":                       "FROM a\nENV A=" + many("${A:-", 20) + many("}", 20) + "\n",
		"patterns":                     "ARG A=" + many("a", 3000) + "\nARG B=" + many("?", 3000) + "\nFROM a${A%$B}\n",
		"replacements in replacements": "FROM a\nENV A=" + many("${A/a/", 2000) + many("}", 2000) + "\n",
		"bytes":                        "FROM a\n#" + many("a", limits.Dockerfile),
		"an unknown instruction":       "FROM a\nGROW 1\n",
		"invalid UTF-8":                "FROM a\nRUN \xff\n",
	} {
		if _, err := dockerfile.Read(text); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestOrdinaryDockerfiles(t *testing.T) {
	t.Parallel()
	many := strings.Repeat
	for name, text := range map[string]string{
		"arguments":    "ARG V=3.20\nARG I=alpine:${V}\nFROM $I AS a\nARG V\nENV PATH=/a:$PATH LD_LIBRARY_PATH=/a:${LD_LIBRARY_PATH:-}\nFROM a\nCOPY --from=a /x /y\n",
		"paths":        "FROM a\n" + many("ENV PATH=/opt/tool/bin:$PATH\n", 100) + many("RUN make install\n", 300),
		"platforms":    "FROM --platform=$BUILDPLATFORM a\nARG TARGETPLATFORM TARGETARCH\nENV P=${TARGETPLATFORM//\\//-} Q=${TARGETARCH%64}\nRUN curl $URL/$P\n",
		"a script":     "FROM a\nRUN set -e; " + many(`for x in "$@"; do echo $x ${y}; done; \`+"\n", 200) + " true\n",
		"a document":   "FROM a\nCOPY <<'EOF' /x\n" + many("proxy_set_header $host $request;\n", 1000) + "EOF\nRUN <<EOF\n" + many("echo $x\n", 500) + "EOF\n",
		"escaped":      "FROM a\nCOPY <<EOF /x\n" + many("proxy_set_header \\$host \\$request;\n", 1000) + "EOF\n",
		"other escape": "# escape=`\nFROM a\nENV A=b `\n  C=d\nWORKDIR C:\\x\n",
		"many stages":  many("FROM a\nENV A=b\nRUN $A\nWORKDIR x\nLABEL l=$A\nEXPOSE 80 8000-8010\n", 50),
	} {
		if _, err := dockerfile.Read(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzCheck checks that the cost of parsing is proportional to the input, whatever it
// expands to.
func FuzzCheck(f *testing.F) {
	f.Add("FROM a\nENV A=b C=${A:-$D}\nCOPY <<EOF /x\n$A\nEOF\n")
	f.Add("ARG A\nFROM a$A AS b\nONBUILD ENV A=$A$A\nFROM b\nWORKDIR $A\nEXPOSE 1-2\n")
	f.Add("# escape=`\nFROM a\nENV A=${A/a/b} \"B\"='c'\nRUN --mount=target=$A true\n")
	f.Fuzz(func(t *testing.T, text string) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = dockerfile.Read(text)
		runtime.ReadMemStats(&after)
		if used, most := after.TotalAlloc-before.TotalAlloc, uint64(4000*len(text)+1<<20); used > most {
			t.Errorf("%d bytes took %d bytes to read, more than %d", len(text), used, most)
		}
	})
}
