package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestCondaImageInShells runs programs of an image in each way in which pipelines and users
// start a shell, as root and as a user that no image knows. Every shell finds the programs and
// the variables of the packages.
func TestCondaImageInShells(t *testing.T) {
	needClients(t)
	up := testkit.NewRegistry(t, testkit.Open)
	const activation = "export JAVA_HOME=${CONDA_PREFIX}/lib/jvm\nexport PATH=$JAVA_HOME/bin:$PATH\n"
	channel := madeChannel(t, greet(t, "amd64"), madePackage{name: "openjdk", version: "1.0", subdir: "linux-64", files: []packedFile{
		{path: "etc/conda/activate.d/openjdk.sh", content: activation, mode: 0o644},
		{path: "lib/jvm/bin/java", content: "#!/bin/sh\necho java in $JAVA_HOME\n", mode: 0o755},
	}})
	base := up.Push(t, "base/debian:bookworm", debian(t))
	p := oneProcess(t, common(t, []string{up.Host}, unraced(bare(channel.URL))))
	answer := p.order(environment(base, "greet", "openjdk"))
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("it ended as %v:\n%s", s, p.logOf(answer))
	}
	work := t.TempDir()
	for dir := work; dir != os.TempDir(); dir = filepath.Dir(dir) { // any user may enter it
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const script = "greet; java"
	if err := os.WriteFile(filepath.Join(work, ".command.run"), []byte("#!/bin/bash\n"+script+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := startDocker(t)
	for name, args := range map[string][]string{
		"login shell":        {"bash", "-lc", script},
		"shell":              {"bash", "-c", script},
		"interactive shell":  {"bash", "-ic", script},
		"script of pipeline": {"bash", "-ue", ".command.run"},
		"sh":                 {"sh", "-c", script},
		"login sh":           {"sh", "-lc", script},
	} {
		for _, user := range []string{"0", "12345"} {
			t.Run(strings.ReplaceAll(name, " ", "_")+"/"+user, func(t *testing.T) {
				run := []string{"docker", "-H", d.socket(), "run", "--rm", "--network=host", "--user", user, "--volume", work + ":/work:ro", "--workdir", "/work", text(answer, "targetImage")}
				got := output(t, d.home, append(run, args...)...)
				if want := "/opt/conda/share/greeting: hello of a package\njava in /opt/conda/lib/jvm\n"; got != want {
					t.Errorf("it printed %q, want %q", got, want)
				}
			})
		}
	}
}
