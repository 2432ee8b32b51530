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
			name: "SHA-256", args: []string{"lock", "samtools=1.20", "htslib=1.17", "-c", "bioconda", "--sha256"},
			ex: exchange{call: lockPost, body: twoPackages + `,"format":"explicit-sha256"}`, answer: "@EXPLICIT\n"}, out: "@EXPLICIT\n",
		}, {
			name: "SHA-256 of another format", args: []string{"lock", "bwa", "--format", "pixi", "--sha256"}, code: 2, errs: []string{"--sha256 is for --format explicit"},
		}, {
			name: "a file, for two machines", args: []string{
				"lock", "-f", file, "--platform", "linux/amd64,linux/arm64", "--format", "pixi", "--virtual-package", "__cuda=", "--virtual-package", "__archspec=1=x86_64_v3",
				"--exclude-newer", "2026-01-31T00:00:00Z", "--flexible", "--as-of", "2026-03-01", "--min-age", "7d", "--min-age-except", "a,b", "--refresh",
			},
			ex: exchange{
				call: lockPost, body: `{"packages":{"type":"CONDA","environment":"ZGVwZW5kZW5jaWVzOiBbYndhXQo="},"platforms":["linux/amd64","linux/arm64"],` +
					`"virtualPackages":{"__cuda":"","__archspec":"1=x86_64_v3"},"excludeNewer":"2026-01-31T00:00:00Z","flexible":true,"format":"pixi","asOf":"2026-03-01","minAge":"7d","minAgeExcept":["a","b"],"refresh":true}`, answer: "version: 6\n",
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

func TestLockDiff(t *testing.T) {
	t.Parallel()
	before, after := write(t, "old.lock", "@EXPLICIT\na\n"), write(t, "new.lock", "@EXPLICIT\nb\n")
	const (
		diffPost = "POST /v1alpha1/conda/diff"
		body     = `{"from":{"lock":"QEVYUExJQ0lUCmEK"},"to":{"lock":"QEVYUExJQ0lUCmIK"}}`
		answer   = `{"differences":[{"platform":"linux-64","changes":[{"name":"bwa","change":"changed","differs":["version"],"old":{"version":"1","build":"h_0","channel":"bioconda"},` +
			`"new":{"version":"2","build":"h_0","channel":"bioconda"},"kind":"conda"},{"name":"six","change":"added","new":{"version":"1.16"},"kind":"pypi"}],` +
			`"added":1,"removed":0,"changed":1,"unchanged":3}],"notes":["Only the old lock has the platform osx-64"]}`
	)
	for _, s := range []sight{
		{
			name: "a table", args: []string{"lock", "diff", before, after}, ex: exchange{call: diffPost, body: body, answer: answer}, errs: []string{"Only the old lock has the platform osx-64"},
			out: "   PACKAGE   OLD    NEW    CHANNEL\n~  bwa       1 h_0  2 h_0  bioconda\n+  six              1.16   PyPI\n   linux-64  1 added, 0 removed, 1 changed, 3 the same\n",
		},
		{name: "the same", args: []string{"lock", "diff", before, after}, ex: exchange{call: diffPost, body: body, answer: `{"differences":[{"platform":"linux-64","unchanged":3}]}`}, errs: []string{"the same packages"}},
		{name: "JSON", args: []string{"lock", "diff", before, after, "-o", "json"}, ex: exchange{call: diffPost, body: body, answer: `{"differences":[]}`}, out: "{\n  \"differences\": []\n}\n"},
		{
			name: "addresses", args: []string{"lock", "diff", "https://h/a", "https://h/b", "--environment", "test"},
			ex: exchange{call: diffPost, body: `{"from":{"url":"https://h/a","environmentName":"test"},"to":{"url":"https://h/b","environmentName":"test"}}`, answer: `{}`}, errs: []string{"the same packages"},
		},
		{name: "refused", args: []string{"lock", "diff", before, after}, ex: exchange{call: diffPost, body: body, status: 400, answer: `{"message":"from.lock: bad"}`}, code: 1, errs: []string{"comparing the locks: from.lock: bad"}},
		{name: "one", args: []string{"lock", "diff", before}, code: 2, errs: []string{"1 argument instead of 2"}},
		{name: "standard input twice", args: []string{"lock", "diff", "-", "-"}, code: 2, errs: []string{"only one lock"}},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.check(t)
		})
	}
}

func TestLockUpdate(t *testing.T) {
	t.Parallel()
	old := write(t, "old.lock", "@EXPLICIT\na#sha256:1\n")
	const updated = "@EXPLICIT\nb#sha256:1\n"
	calls := 0
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		body, _ := io.ReadAll(r.Body)
		want, answer := `{"packages":{"type":"CONDA","entries":["openssl"]},"from":{"lock":"QEVYUExJQ0lUCmEjc2hhMjU2OjEK"},"format":"explicit-sha256"}`, updated
		if r.URL.Path == "/v1alpha1/conda/diff" {
			want = `{"from":{"lock":"QEVYUExJQ0lUCmEjc2hhMjU2OjEK"},"to":{"lock":"QEVYUExJQ0lUCmIjc2hhMjU2OjEK"}}`
			answer = `{"differences":[{"platform":"linux-64","changes":[{"name":"openssl","change":"changed","old":{"version":"1"},"new":{"version":"2"}}],"changed":1}]}`
		}
		if !sameJSON(string(body), want) {
			t.Errorf("sent %s, want %s", body, want)
		}
		_, _ = io.WriteString(w, answer)
	})
	got := slipway(t.Context(), nil, "--server", url, "lock", "update", "openssl", "--from", old)
	if got.code != 0 || got.out != updated || calls != 2 || !strings.Contains(got.errs, "~  openssl   1") {
		t.Errorf("got %+v after %d calls", got, calls)
	}
	for _, s := range []sight{
		{
			name: "JSON of a file", args: []string{"lock", "update", "-f", old, "--from", "https://h/l", "--environment", "test", "-o", "json"}, out: "{\n  \"locks\": []\n}\n",
			ex: exchange{call: lockPost, body: `{"packages":{"type":"CONDA","environment":"QEVYUExJQ0lUCmEjc2hhMjU2OjEK","environmentName":"test"},"from":{"url":"https://h/l","environmentName":"test"}}`, answer: `{"locks":[]}`},
		},
		{name: "no lock", args: []string{"lock", "update", "a"}, code: 2, errs: []string{"--from is missing"}},
		{name: "nothing", args: []string{"lock", "update", "--from", old}, code: 2, errs: []string{"name packages, or give --file"}},
		{name: "two formats", args: []string{"lock", "update", "a", "--from", old, "--format", "pixi", "-o", "json"}, code: 2, errs: []string{"leave out --format"}},
		{name: "an unknown format", args: []string{"lock", "update", "a", "--from", "https://h/l"}, code: 2, errs: []string{"name the format"}},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.check(t)
		})
	}
}

func TestWhy(t *testing.T) {
	t.Parallel()
	ex := exchange{
		call: "POST /v1alpha1/conda/why", body: `{"lock":{"packages":{"type":"CONDA","entries":["samtools"]}},"package":"openssl"}`,
		answer: `{"platforms":[{"platform":"linux/amd64","package":{"name":"openssl","version":"3.5","build":"h_0"},"chains":[{"steps":[{"spec":"samtools"},` +
			`{"package":"samtools","version":"1.20","spec":"openssl >=3\u001b[2J"}]}],"dependents":1,"constraints":[{"package":"curl","version":"8","spec":"openssl >=1"}]},{"platform":"linux/arm64"}]}`,
	}
	args := []string{"explain", "samtools", "--why", "openssl"}
	for _, s := range []sight{
		{
			name: "a chain", args: args, ex: ex,
			out: "openssl 3.5 h_0 for linux/amd64\n  you asked for samtools\n    samtools 1.20 needs openssl >=3\n  curl 8 only allows openssl >=1\n\nopenssl is not in the environment for linux/arm64\n",
		},
		{name: "not in it", args: args, ex: exchange{call: ex.call, body: ex.body, answer: `{"platforms":[{"platform":"linux/amd64"}]}`}, code: 1, errs: []string{"openssl is not in the environment"}},
		{name: "refused", args: args, ex: exchange{call: ex.call, body: ex.body, status: 400, answer: `{"message":"There is no such environment"}`}, code: 1, errs: []string{"explaining: There is no such environment"}},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.check(t)
		})
	}
}

func TestLicenses(t *testing.T) {
	t.Parallel()
	lock := write(t, "a.lock", "@EXPLICIT\na\n")
	const answer = `{"platforms":[{"platform":"linux/amd64","licenses":[{"license":"Home made","spdx":false,"packages":[{"name":"b"}]},{"license":"MIT","spdx":true,"packages":[{"name":"a"},{"name":"c"}]}],"unknown":["d"]}]}`
	sight{
		name: "a file", args: []string{"licenses", lock}, out: "LICENCE    SPDX  linux/amd64\nHome made  no    b\nMIT        yes   a, c\nunknown          d\n",
		ex: exchange{call: "POST /v1alpha1/conda/licenses", body: `{"packages":{"type":"CONDA","environment":"QEVYUExJQ0lUCmEK"}}`, answer: answer},
	}.check(t)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1alpha1/builds/3f2a00000000beef_1/lock" && r.URL.Query().Get("format") == "pixi" {
			_, _ = io.WriteString(w, "version: 6\n")
			return
		}
		body, _ := io.ReadAll(r.Body)
		if want := `{"packages":{"type":"CONDA","environment":"dmVyc2lvbjogNgo="}}`; !sameJSON(string(body), want) {
			t.Errorf("sent %s, want %s", body, want)
		}
		_, _ = io.WriteString(w, answer)
	})
	if got := slipway(t.Context(), nil, "--server", url, "licenses", "3f2a00000000beef_1"); got.code != 0 || !strings.Contains(got.out, "MIT") {
		t.Errorf("the licences of a build: %+v", got)
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
				answer: `{"packages":[{"name":"samtools","version":"1.20","channel":"bioconda","platforms":["linux-64","linux-aarch64"],"license":"MIT","dependents":12}],"total":7}`,
			},
			out: "PACKAGE   NEWEST  CHANNEL   FOR                      LICENCE\nsamtools  1.20    bioconda  linux-64, linux-aarch64  MIT\n\nand 6 more\n",
		}, {
			name: "nothing", args: []string{"search", "x"}, ex: exchange{call: "GET /v1alpha1/conda/packages?max=20&q=x", answer: `{}`}, errs: []string{"no package has such a name"},
		}, {
			name: "a command", args: []string{"search", "--command", "bcftools"},
			ex: exchange{
				call: "GET /v1alpha1/conda/packages?command=bcftools&max=20",
				answer: `{"packages":[{"name":"bcftools","version":"1.21","channel":"bioconda","platforms":["linux-64"],"license":"MIT","versions":["1.21","1.20"],"summary":"Variant\u001b[2J calls"},` +
					`{"name":"other","version":"1","channel":"bioconda","platforms":["linux-64"],"versions":["1"]}],"total":2}`,
			},
			out: "PACKAGE   NEWEST  IN          CHANNEL   FOR       LICENCE  SUMMARY\nbcftools  1.21    1.21, 1.20  bioconda  linux-64  MIT      Variant calls\nother     1       1           bioconda  linux-64           \n",
		}, {
			name: "a file", args: []string{"search", "--file", "include/htslib/sam.h", "-c", "bioconda"},
			ex: exchange{
				call:   "GET /v1alpha1/conda/packages?channel=bioconda&file=include%2Fhtslib%2Fsam.h&max=20",
				answer: `{"packages":[{"name":"htslib","version":"1.21","channel":"bioconda","platforms":["linux-64"],"versions":["1.21"],"paths":["include/htslib/sam.h"]}],"total":1}`,
			},
			out: "PACKAGE  NEWEST  IN    CHANNEL   FOR       LICENCE  PATH\nhtslib   1.21    1.21  bioconda  linux-64           include/htslib/sam.h\n",
		}, {
			name: "an unknown command", args: []string{"search", "--command", "x"}, ex: exchange{call: "GET /v1alpha1/conda/packages?command=x&max=20", answer: `{}`},
			errs: []string{"no package that this server has used in an image has the command x; search by name"},
		}, {
			name: "a licence", args: []string{"search", "json", "--license", "MIT"},
			ex: exchange{
				call:   "GET /v1alpha1/conda/packages?license=MIT&max=20&q=json",
				answer: `{"packages":[{"name":"orjson","version":"3","channel":"conda-forge","platforms":["linux-64"],"license":"Apache-2.0 OR MIT"}],"total":1}`,
			},
			out: "PACKAGE  NEWEST  CHANNEL      FOR       LICENCE\norjson   3       conda-forge  linux-64  Apache-2.0 OR MIT\n",
		}, {
			name: "an absent licence", args: []string{"search", "json", "--license", "X"}, ex: exchange{call: "GET /v1alpha1/conda/packages?license=X&max=20&q=json", answer: `{}`},
			errs: []string{"no such package has the licence X; search again without --license"},
		}, {
			name: "a licence of versions", args: []string{"search", "a::b", "--license", "X"}, code: 2, errs: []string{"use --channel with --license"},
		}, {
			name: "a name and a command", args: []string{"search", "a", "--command", "b"}, code: 2, errs: []string{"give either the NAME"},
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

// TestDryRunShowsPackages checks that only the name is on standard output, for scripts.
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
