package batch

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

const (
	environmentFile = "channels: [bioconda]\ndependencies: [bwa]\n"
	inspected       = `{"processes":[{"name":"NFCORE:FASTQC","container":"docker://quay.io/biocontainers/fastqc:0.12.1"},{"name":"B","container":"ubuntu:24.04"}]}`
	condaEnvs       = "Building DAG of jobs...\nenvironment\tcontainer\tlocation\nenvs/a.yml\t\t.snakemake/conda/0a\nenvs/b.yml\tdocker://debian:12\t.snakemake/conda/0b\n"
)

// summary describes entries in a short form.
func summary(list []entry) string {
	var out []string
	for _, e := range list {
		text := e.name
		if e.path != "" {
			text += " <" + e.path + ">"
		}
		if e.err != nil {
			text += " !"
		}
		if e.request != nil {
			text += " " + e.request.GetContainerImage() + e.request.GetPackages().GetEnvironment() + e.request.GetPackages().GetCondaOpts().GetBaseImage()
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

func TestParse(t *testing.T) {
	t.Parallel()
	encoded := base64.StdEncoding.EncodeToString
	for name, tc := range map[string]struct{ in, want string }{
		"lines of JSON":                 {"{\"containerImage\":\"a\"}\n\n{\"containerImage\":\"b\"}\n", "in:1 a\nin:2 b"},
		"indented JSON":                 {"{\n  \"containerImage\": \"a\"\n}", "in:1 a"},
		"Nextflow":                      {inspected, "NFCORE:FASTQC quay.io/biocontainers/fastqc:0.12.1\nB ubuntu:24.04"},
		"Snakemake":                     {condaEnvs, "envs/a.yml <envs/a.yml>\nenvs/b.yml <envs/b.yml> debian:12"},
		"paths":                         {"# tools\nenvs/a.yml\r\n\n  envs/b c.yml\n", "envs/a.yml <envs/a.yml>\nenvs/b c.yml <envs/b c.yml>"},
		"an environment":                {environmentFile, "in " + encoded([]byte(environmentFile))},
		"a process without a container": {`{"processes":[{"name":"A","container":null},{"name":"B","container":"b"}]}`, "A ! \nB b"},
		"an address and a long path":    {"environment\tcontainer\tlocation\nhttps://h/a.yml\t\tx\n./envs//b.yml\t\ty\n", "https://h/a.yml ! \nenvs/b.yml <envs/b.yml>"},
		"a byte order":                  {"\ufeff" + environmentFile, "in " + encoded([]byte("\ufeff"+environmentFile))},
	} {
		got, err := parse("in", []byte(tc.in))
		if err != nil || summary(got) != tc.want {
			t.Errorf("%s: got\n%s, %v\nwant\n%s", name, summary(got), err, tc.want)
		}
	}
	for _, text := range []string{"@EXPLICIT\nhttps://h/a.conda", "[workspace]\nname = 'a'", "version: 6\nenvironments:\n", "# by hand\nname: a\ndependencies:\n- bwa", "[tool.pixi.dependencies]\nbwa = '*'"} {
		if got, err := parse("in", []byte(text)); err != nil || len(got) != 1 || got[0].request.GetPackages().GetEnvironment() == "" {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":  "it is empty",
		"#": "it lists no containers",
		`{"containerImage":"a"}{"containerImages":"b"}`:                               "number 2 is not a container request",
		`{"containerImage":"a"`:                                                       "number 1 is not a container request",
		`{"processes":[]}`:                                                            "it lists no containers",
		` [ {"containerImage":"a"}]`:                                                  "it is a list in JSON",
		"environment\tcontainer\tlocation\n":                                          "it lists no containers",
		"environment\tcontainer\tlocation\na.yml\n":                                   "an environment, a container and a location",
		strings.Repeat("a\n", maxEntries+1):                                           "more than 10000 containers",
		strings.Repeat(`{"containerImage":"a"}`, maxEntries+1):                        "more than 10000 containers",
		"environment\tcontainer\tlocation" + strings.Repeat("\na\t\tb", maxEntries+1): "more than 10000 containers",
	} {
		if got, err := parse("in", []byte(text)); err == nil || !strings.Contains(err.Error(), "reading in: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, %v", text, summary(got[:min(len(got), 3)]), err)
		}
	}
}

// FuzzParse checks that every entry of an input has a name, and either a request or a file.
func FuzzParse(f *testing.F) {
	for _, text := range []string{environmentFile, inspected, condaEnvs, "a.yml\nb.yml", `{"containerImage":"a"}` + "\n" + `{"packages":{"entries":["a"]}}`, "@EXPLICIT\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := parse("in", raw)
		if (len(list) > 0) == (err != nil) || len(list) > maxEntries {
			t.Fatalf("%d entries, %v", len(list), err)
		}
		names := map[string]bool{}
		for _, e := range unique(list) {
			if e.path == "" && e.request == nil || names[e.name] {
				t.Errorf("%q is nothing, or repeated", e.name)
			}
			names[e.name] = true
			withDefaults(requestOrEmpty(e.request), environmentRequest(raw))
		}
	})
}

func TestReadFolder(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for path, text := range map[string]string{
		"modules/nf-core/bwa/mem/environment.yml": environmentFile, "modules/nf-core/bwa/mem/main.nf": "process",
		"modules/nf-core/fastqc/environment.yml": "dependencies: [fastqc]\n", ".git/environment.yml": "dependencies: [git]\n",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := read(&cobra.Command{}, []string{root, root})
	var names []string
	for _, e := range got {
		names = append(names, strings.TrimPrefix(e.name, filepath.ToSlash(root)))
	}
	if err != nil || !slices.Equal(names, []string{"/modules/nf-core/bwa/mem/environment.yml", "/modules/nf-core/fastqc/environment.yml"}) {
		t.Errorf("got %v, %v", names, err)
	}
	if _, err := read(&cobra.Command{}, []string{t.TempDir()}); err == nil || !strings.Contains(err.Error(), "no folder in it has an environment.yml") {
		t.Errorf("an empty folder: %v", err)
	}
}

// TestReadFiles checks that files which cannot be read, or are no environments, fail on their own and
// are not sent.
func TestReadFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, key, empty := write("good.yml", environmentFile), write("id_ed25519", "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n"), write("empty.yml", "")
	list := write("list.txt", strings.Join([]string{good, key, empty, filepath.Join(dir, "absent.yml")}, "\n"))
	got, err := read(&cobra.Command{}, []string{list})
	if err != nil || len(got) != 4 || got[0].err != nil {
		t.Fatalf("got %v, %v", got, err)
	}
	for _, e := range got[1:] {
		if e.err == nil || e.request.GetPackages().GetEnvironment() != "" {
			t.Errorf("%s is sent: %v", e.name, e.request)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Mkdir(filepath.Join(dir, "modules"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("modules/environment.yml", environmentFile)
	if err := os.Symlink("modules", link); err != nil {
		t.Fatal(err)
	}
	if got, err := read(&cobra.Command{}, []string{link}); err != nil || len(got) != 1 || got[0].name != filepath.ToSlash(link)+"/environment.yml" || got[0].err != nil {
		t.Errorf("a link to a folder: %v, %v", got, err)
	}
}

func TestUniqueNames(t *testing.T) {
	t.Parallel()
	image := func(ref string) *containerv1.ContainerRequest {
		return &containerv1.ContainerRequest{ContainerImage: ref}
	}
	got := unique([]entry{{name: "a", request: image("x")}, {name: "a", request: image("x")}, {name: "a", request: image("y")}, {name: "b", request: image("x")}})
	if want := "a x\na (2) y\nb x"; summary(got) != want {
		t.Errorf("got %s", summary(got))
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	defaults := &containerv1.ContainerRequest{
		ContainerPlatform: "linux/arm64", Freeze: true, BuildRepository: "r/x", AsOf: "2026-01-01",
		Packages: &containerv1.Packages{Channels: []string{"lab"}, CondaOpts: &containerv1.CondaOptions{BaseImage: "debian", Compile: true}},
	}
	got := withDefaults(&containerv1.ContainerRequest{ContainerImage: "a", ContainerPlatform: "linux/amd64"}, defaults)
	if want := (&containerv1.ContainerRequest{ContainerImage: "a", ContainerPlatform: "linux/amd64", Freeze: true, BuildRepository: "r/x"}); !proto.Equal(got, want) {
		t.Errorf("an image is %v", got)
	}
	own := &containerv1.ContainerRequest{Packages: &containerv1.Packages{Entries: []string{"a"}, CondaOpts: &containerv1.CondaOptions{BaseImage: "ubuntu"}}}
	got = withDefaults(own, defaults)
	want := proto.CloneOf(defaults)
	want.Packages.Entries, want.Packages.CondaOpts.BaseImage = []string{"a"}, "ubuntu"
	if !proto.Equal(got, want) {
		t.Errorf("packages are %v", got)
	}
	if own.GetFreeze() || own.GetPackages().GetChannels() != nil {
		t.Error("the request was changed")
	}
}

func TestCallLength(t *testing.T) {
	t.Parallel()
	many := make([]*container, 2500)
	for i := range many {
		many[i] = &container{sent: &containerv1.ContainerRequest{ContainerImage: fmt.Sprint(i)}}
	}
	large := &container{sent: &containerv1.ContainerRequest{ContainerFile: strings.Repeat("x", 20_000_000)}}
	for _, tc := range []struct {
		list []*container
		want int
	}{{many, 1000}, {many[:3], 3}, {[]*container{large, large}, 1}, {[]*container{large}, 1}} {
		if got := callLength(tc.list); got != tc.want {
			t.Errorf("%d of %d", got, len(tc.list))
		}
	}
}
