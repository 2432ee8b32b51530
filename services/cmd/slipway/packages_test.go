package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

const (
	lockedAnswer = `{"locks":[{"platform":"linux/amd64","size":1705000,"packages":[` +
		`{"name":"htslib","version":"1.20","build":"h5efdd21_2","channel":"bioconda","size":1200000,"url":"https://h/htslib-1.20-h5efdd21_2.conda"},` +
		`{"name":"samtools","version":"1.20","build":"h50ea8bc_0","channel":"bioconda","size":505000,"url":"https://h/samtools-1.20-h50ea8bc_0.conda"}]}]}`
	lockedText = `PACKAGE     VERSION  BUILD       CHANNEL      DOWNLOAD
htslib      1.20     h5efdd21_2  bioconda       1.2 MB
samtools    1.20     h50ea8bc_0  bioconda     505.0 kB
2 packages                       linux/amd64    1.7 MB
`
	impossible = `{"message":"samtools 1.20 does not go with htslib 1.17\nsamtools 1.20 needs htslib >=1.20",` +
		`"conflict":{"specs":["samtools 1.20.*","htslib 1.17.*"],"summary":"samtools 1.20 does not go with htslib 1.17","reasons":[` +
		`{"kind":"asked","spec":"samtools 1.20.*","text":"you asked for samtools 1.20","because":[{"kind":"needs","text":"samtools 1.20 needs htslib >=1.20\u001b[2J"}]}],` +
		`"missing":[{"name":"samtols","nearest":["samtools"],"elsewhere":["defaults"]}]},` +
		`"suggestions":[{"change":"leave the version of htslib open","packages":["samtools=1.20","htslib >=1"]}]}`
	impossibleText = `samtools 1.20 does not go with htslib 1.17
  you asked for samtools 1.20
    samtools 1.20 needs htslib >=1.20
  no channel has samtols; did you mean samtools?; it is in defaults
What would work:
  leave the version of htslib open
    slipway lock samtools=1.20 'htslib >=1' -c bioconda
`
	twoPackages = `{"packages":{"type":"CONDA","entries":["samtools=1.20","htslib=1.17"],"channels":["bioconda"]}`
	lockPost    = "POST /v1alpha1/conda/lock"
)

func TestLock(t *testing.T) {
	t.Parallel()
	file := write(t, "environment.yml", "dependencies: [bwa]\n")
	for _, s := range []sight{
		{
			name: "explicit", args: []string{"lock", "samtools=1.20", "htslib=1.17", "-c", "bioconda"}, env: map[string]string{"SLIPWAY_TOKEN": "tok"},
			ex:  exchange{call: lockPost, auth: "Bearer tok", body: twoPackages + `,"format":"explicit"}`, answer: "@EXPLICIT\nhttps://h/a-1-0.conda\x1b[2J\n"},
			out: "@EXPLICIT\nhttps://h/a-1-0.conda\n",
		}, {
			name: "a file, for two machines", args: []string{
				"lock", "-f", file, "--platform", "linux/amd64,linux/arm64", "--format", "pixi", "--virtual-package", "__cuda=", "--virtual-package", "__archspec=1=x86_64_v3",
				"--exclude-newer", "2026-01-31T00:00:00Z", "--flexible",
			},
			ex: exchange{
				call: lockPost, body: `{"packages":{"type":"CONDA","environment":"ZGVwZW5kZW5jaWVzOiBbYndhXQo="},"platforms":["linux/amd64","linux/arm64"],` +
					`"virtualPackages":{"__cuda":"","__archspec":"1=x86_64_v3"},"excludeNewer":"2026-01-31T00:00:00Z","flexible":true,"format":"pixi"}`, answer: "version: 6\n",
			},
			out: "version: 6\n",
		}, {
			name: "JSON", args: []string{"lock", "bwa", "-o", "json"},
			ex: exchange{call: lockPost, body: `{"packages":{"type":"CONDA","entries":["bwa"]}}`, answer: `{"locks":[]}`}, out: "{\n  \"locks\": []\n}\n",
		}, {
			name: "impossible", args: []string{"lock", "samtools=1.20", "htslib=1.17", "-c", "bioconda"},
			ex: exchange{call: lockPost, body: twoPackages + `,"format":"explicit"}`, status: 422, answer: impossible}, code: 1,
			errs: []string{"slipway: locking: samtools 1.20 does not go with htslib 1.17\nsamtools 1.20 needs htslib >=1.20\nTry:\n  slipway lock samtools=1.20 'htslib >=1' -c bioconda\n"},
		}, {
			name: "a server without the role", args: []string{"lock", "bwa"},
			ex: exchange{call: lockPost, body: `{"packages":{"type":"CONDA","entries":["bwa"]},"format":"explicit"}`, status: 404, answer: `{"message":"no such path"}`}, code: 1, errs: []string{"locking: no such path"},
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.check(t)
		})
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	args := []string{"explain", "samtools=1.20", "htslib=1.17", "-c", "bioconda"}
	for _, s := range []sight{
		{name: "possible", args: args, ex: exchange{call: lockPost, body: twoPackages + `}`, answer: lockedAnswer}, out: lockedText},
		{
			name: "with a layer that is there", args: args,
			ex:  exchange{call: lockPost, body: twoPackages + `}`, answer: strings.Replace(lockedAnswer, `"size":1705000`, `"size":1705000,"knownLayers":1,"missingBytes":505000`, 1)},
			out: lockedText + "1 to fetch                                    505.0 kB\n",
		},
		{
			name: "impossible", args: args, ex: exchange{call: lockPost, body: twoPackages + `}`, status: 422, answer: impossible},
			out: impossibleText, code: 1, errs: []string{"there is no such environment"},
		}, {
			name: "refused", args: args, ex: exchange{call: lockPost, body: twoPackages + `}`, status: 400, answer: `{"message":"packages.entries[0]: bad"}`},
			code: 1, errs: []string{"explaining: packages.entries[0]: bad"},
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.check(t)
		})
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	for _, s := range []sight{
		{
			name: "names", args: []string{"search", "samtools", "-c", "bioconda", "--platform", "linux/arm64"},
			ex: exchange{
				call:   "GET /v1alpha1/conda/packages?channel=bioconda&max=20&platform=linux%2Farm64&q=samtools",
				answer: `{"packages":[{"name":"samtools","version":"1.20","channel":"bioconda","platforms":["linux-64","linux-aarch64"]}],"total":7}`,
			},
			out: "PACKAGE   NEWEST  CHANNEL   FOR\nsamtools  1.20    bioconda  linux-64, linux-aarch64\n\nand 6 more\n",
		}, {
			name: "nothing", args: []string{"search", "x"}, ex: exchange{call: "GET /v1alpha1/conda/packages?max=20&q=x", answer: `{}`}, errs: []string{"no package is called like that"},
		}, {
			name: "versions", args: []string{"search", "bioconda::samtools", "--max", "2"},
			ex: exchange{
				call: "GET /v1alpha1/conda/packages/bioconda/samtools",
				answer: `{"name":"samtools","versions":[{"version":"1.20","license":"MIT","builds":[{"build":"h1_1","subdir":"linux-64","size":1000,"date":"2026-01-02T03:04:05Z"},` +
					`{"build":"h1_0","subdir":"linux-64","size":2000}]},{"version":"1.19","builds":[{"build":"h0_0","subdir":"linux-64"}]}]}`,
			},
			out: "VERSION  BUILD  FOR       DOWNLOAD  MADE        LICENCE\n1.20     h1_1   linux-64    1.0 kB  2026-01-02  MIT\n         h1_0   linux-64    2.0 kB              \n…\n",
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.check(t)
		})
	}
}

// TestDryRunShowsPackages: the name alone is on standard output, for scripts.
func TestDryRunShowsPackages(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, answer, errs string
		status, code       int
	}{
		{"possible", lockedAnswer, lockedText, 200, 0},
		{"impossible", impossible, "slipway: solving: samtools 1.20 does not go with htslib 1.17\n", 422, 1},
		{"a server without the role", `{"message":"no such path"}`, "", 404, 0},
		{"not for the solver", `{"message":"pip: is not solved"}`, "slipway: the packages are not shown: pip: is not solved\n", 400, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1alpha2/container" {
					_, _ = io.WriteString(w, `{"targetImage":"h/builds:x"}`)
					return
				}
				body, _ := io.ReadAll(r.Body)
				if want := twoPackages + `,"platforms":["linux/arm64"],"forContainer":true}`; !sameJSON(string(body), want) {
					t.Errorf("sent %s, want %s", body, want)
				}
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.answer)
			})
			got := slipway(t.Context(), nil, "--server", url, "conda", "samtools=1.20", "htslib=1.17", "-c", "bioconda", "--platform", "linux/arm64", "--dry-run")
			if got.out != "h/builds:x\n" || !strings.HasPrefix(got.errs, tc.errs) || (tc.errs == "") != (got.errs == "") || got.code != tc.code {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestCompletionOfPackages(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query(); got.Get("q") != "sam" || (got.Get("channel") != "" && got.Get("channel") != "bioconda") {
			t.Errorf("asked for %v", got)
		}
		_, _ = io.WriteString(w, `{"packages":[{"name":"samtools","version":"1.20","channel":"bioconda"},{"name":"sambamba"},{"name":"libsam"}]}`)
	})
	for _, tc := range []struct{ command, word, want string }{
		{"conda", "sam", "samtools\t1.20 of bioconda\nsambamba"},
		{"lock", "bioconda::sam", "bioconda::samtools\t"},
		{"search", "sam", "samtools\t"},
		{"explain", "samtools=1", ":4"},
	} {
		got := slipway(t.Context(), nil, "__complete", "--server", url, tc.command, tc.word)
		if !strings.HasPrefix(got.out, tc.want) || strings.Contains(got.out, "libsam") {
			t.Errorf("%s %s: %q", tc.command, tc.word, got.out)
		}
	}
}

func TestUsageOfPackages(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"lock"}, {"explain"}, {"lock", "a", "-f", "x"}, {"search"}, {"lock", "a", "-o", "json", "--format", "pixi"}, {"lock", "a", "--virtual-package", "x"}} {
		if got := slipway(t.Context(), nil, args...); got.code != 2 {
			t.Errorf("%q: %+v", args, got)
		}
	}
}
