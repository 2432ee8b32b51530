package main

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const (
	builtAnswer = `{"requestId":"abc123","containerToken":"abc123","targetImage":"localhost:9090/wt/abc123/store/build:beef",` +
		`"expiration":"2026-01-02T00:00:00Z","buildId":"beef_1","cached":false,"freeze":false,"mirror":false}`
	builtName = "localhost:9090/wt/abc123/store/build:beef\n"
)

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// write creates a file in a new directory.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestRecipes(t *testing.T) {
	t.Parallel()
	docker, env := write(t, "Dockerfile", "FROM alpine\n"), write(t, "env.yml", "dependencies: [bwa]\n")
	lock := write(t, "lock.txt", "@EXPLICIT\nhttps://x/y.conda\n")
	file := `"containerFile":"` + b64("FROM alpine\n") + `"`
	for _, c := range []struct{ name, args, body string }{
		{"a Dockerfile", "build -f " + docker, `{` + file + `}`},
		{"everything", "build -f " + docker + " --env A=1 --entrypoint sh --cmd ls --workdir /w --workspace 12 --platform linux/amd64,linux/arm64" +
			" --build-repo r.example/b --cache-repo r.example/c --name-strategy none --dry-run",
			`{` + file + `,"containerConfig":{"env":["A=1"],"entrypoint":["sh"],"cmd":["ls"],"workingDir":"/w"},"platformWorkspaceId":"12",` +
				`"containerPlatform":"linux/amd64,linux/arm64","buildRepository":"r.example/b","cacheRepository":"r.example/c","nameStrategy":"none","dryRun":true}`},
		{"frozen", "build -f " + docker + " --freeze r.example/b", `{` + file + `,"buildRepository":"r.example/b","freeze":true}`},
		{"frozen, with the same --build-repo", "build -f " + docker + " --freeze r.example/b --build-repo r.example/b", `{` + file + `,"buildRepository":"r.example/b","freeze":true}`},
		{"packages", "conda samtools=1.20 conda-forge::jq -c bioconda -c x", `{"packages":{"type":"CONDA","entries":["samtools=1.20","conda-forge::jq"],"channels":["bioconda","x"]}}`},
		{"an environment", "conda --file " + env, `{"packages":{"type":"CONDA","environment":"` + b64("dependencies: [bwa]\n") + `"}}`},
		{"a lock", "conda -f " + lock, `{"packages":{"type":"CONDA","environment":"` + b64("@EXPLICIT\nhttps://x/y.conda\n") + `"}}`},
		{"Conda options", "conda jq --base-image debian:12 --mamba-image m:1 --run=USER\u00a0x --base-packages a",
			`{"packages":{"type":"CONDA","entries":["jq"],"condaOpts":{"baseImage":"debian:12","mambaImage":"m:1","commands":["USER` + "\u00a0" + `x"],"basePackages":"a"}}}`},
		{"compiled", "conda jq --compile", `{"packages":{"type":"CONDA","entries":["jq"],"condaOpts":{"compile":true}}}`},
		{"solved again", "conda jq --refresh", `{"packages":{"type":"CONDA","entries":["jq"]},"refresh":true}`},
		{"compressed", "build -f " + docker + " --build-compression zstd", `{` + file + `,"buildCompression":{"mode":"zstd"}}`},
		{"compressed at a level", "conda jq --build-compression gzip:0", `{"packages":{"type":"CONDA","entries":["jq"]},"buildCompression":{"mode":"gzip","level":0}}`},
		{"compressed again", "build -f " + docker + " --build-compression zstd:19,force", `{` + file + `,"buildCompression":{"mode":"zstd","level":19,"force":true}}`},
		{"no base packages", "conda jq --base-packages=", `{"packages":{"type":"CONDA","entries":["jq"],"condaOpts":{"basePackages":""}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args, out := strings.Split(c.args, " "), builtName
			if strings.Contains(c.args, "--dry-run") {
				out = strings.Replace(builtName, "abc123", "<token>", 1)
			}
			sight{args: args, ex: exchange{call: "POST /v1alpha2/container", body: c.body, answer: builtAnswer}, out: out}.check(t)
		})
	}
}

func TestRecipeErrors(t *testing.T) {
	t.Parallel()
	docker := write(t, "Dockerfile", "FROM alpine\n")
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"build x y", "2 arguments instead of 1", 2},
		{"build -f " + docker + "x", "reading " + docker + "x: open", 1},
		{"build -f " + write(t, "empty", ""), "it is empty", 1},
		{"build -f " + docker + " --context /nowhere", "preparing the context /nowhere: open /nowhere: no such file", 1},
		{"build -f " + docker + " --context " + filepath.Dir(write(t, ".dockerignore", "a\n[")), ".dockerignore: line 2: ", 1},
		{"build -f " + docker + " --freeze a/b --build-repo a/c", "give only --freeze", 2},
		{"build -f " + docker + " --dry-run --await", "--dry-run builds nothing", 2},
		{"build -f " + docker + " --build-compression zstd:hard", "must have a number after the colon", 2},
		{"build -f " + docker + " --build-compression zstd,", "must be MODE, MODE:LEVEL, or one of these with ,force", 2},
		{"conda", "nothing to install; name packages, or give --file", 2},
		{"conda jq --file x", "give either packages or --file", 2},
	} {
		got := slipway(t.Context(), map[string]string{"SLIPWAY_SERVER": "http://127.0.0.1:1"}, strings.Fields(c.args)...)
		if got.code != c.code || !strings.Contains(got.errs, c.want) || got.out != "" {
			t.Errorf("slipway %s: got %+v, want %q", c.args, got, c.want)
		}
	}
}

func TestContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"Dockerfile", "main.go", "src/a.go", "src/a.log", "src/deep/b.log", "out/x", "out/keep/y", "out/keep/z.log", "docs/README.md"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	docker := filepath.Join(dir, "Dockerfile")
	must(t, os.WriteFile(docker, []byte("FROM scratch\nCOPY . /\n"), 0o600))
	ignore := func(name, text string) { must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	pack := func() []string {
		sent := make(chan sentLayer, 1)
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			var body struct{ BuildContext sentLayer }
			if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
				t.Error(err)
			}
			sent <- body.BuildContext
			_, _ = io.WriteString(w, builtAnswer)
		})
		if got := slipway(t.Context(), nil, "build", "-f", docker, "--context", dir, "--server", url); got.out != builtName {
			t.Fatalf("got %+v", got)
		}
		var names []string
		for _, e := range entries(t, unpack(t, <-sent)) {
			names = append(names, strings.Fields(e)[1])
		}
		return names
	}
	ignore(".dockerignore", "# nothing big\n\n**/*.log\n/out\n!out/keep\n Dockerfile \n.dockerignore\ndocs/*.md\n")
	want := []string{"docs/", "main.go", "out/", "out/keep/", "out/keep/y", "out/keep/z.log", "src/", "src/a.go", "src/deep/"}
	if got := pack(); !reflect.DeepEqual(got, want) {
		t.Errorf("sent %q\nwant %q", got, want)
	}
	ignore("Dockerfile.dockerignore", "*\n!src/*.go\n")
	if got, want := pack(), []string{"src/", "src/a.go"}; !reflect.DeepEqual(got, want) {
		t.Errorf("with the Dockerfile's own list: sent %q, want %q", got, want)
	}
	ignore("Dockerfile.dockerignore", "out\nsrc\n")
	if got, want := pack(), []string{".dockerignore", "Dockerfile", "Dockerfile.dockerignore", "docs/", "docs/README.md", "main.go"}; !reflect.DeepEqual(got, want) {
		t.Errorf("without exceptions: sent %q, want %q", got, want)
	}
}

func TestContextLimit(t *testing.T) {
	t.Parallel()
	long := filepath.Join(t.TempDir(), "context.tar.gz")
	must(t, os.WriteFile(long, stored(t, mostContent+1), 0o600))
	got := slipway(t.Context(), nil, "build", "-f", write(t, "Dockerfile", "FROM scratch"), "--context", long)
	if want := "preparing the context " + long + ": it is 13999996 characters long as base64"; got.code != 1 || !strings.Contains(got.errs, want) {
		t.Errorf("got %+v, want %q", got, want)
	}
}
