package e2e

import (
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestCondaImageIsActivated checks that an image has the variables that its packages'
// activation scripts set. The log and a label must name the scripts that cannot be evaluated
// statically.
func TestCondaImageIsActivated(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	script := func(name, text string) madePackage {
		return madePackage{name: name, version: "1.0", subdir: "linux-64", files: []packedFile{
			{path: "etc/conda/activate.d/" + name + ".sh", content: text, mode: 0o644}, {path: "share/" + name + "/data", content: "x", mode: 0o644},
		}}
	}
	channel := madeChannel(t,
		script("proj", "if [ -n \"${PROJ_DATA+x}\" ]; then\n  export _OLD_PROJ_DATA=$PROJ_DATA\nfi\nif [ -d \"$CONDA_PREFIX/share/proj\" ]; then export PROJ_DATA=\"${CONDA_PREFIX}/share/proj\"; fi\n"),
		script("openjdk", "export JAVA_HOME=${JAVA_HOME:-$CONDA_PREFIX/lib/jvm}\nPATH=$JAVA_HOME/bin:$PATH\n"),
		script("spare", "true\n"),
		script("program", "export LOST=\"$(python -c 'print(1)')\"\n"))
	base := up.Push(t, "base/one:1", testkit.Image(t, "amd64", true))
	p := oneProcess(t, common(t, []string{up.Host}, bare(channel.URL)))
	answer := p.order(environment(base, "proj", "openjdk", "program"))
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v:\n%s", s, p.logOf(answer))
	}
	img := pull(t, text(answer, "targetImage"), "amd64")
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PROJ_DATA=/opt/conda/share/proj", "JAVA_HOME=/opt/conda/lib/jvm"} {
		if !slices.Contains(cf.Config.Env, want) {
			t.Errorf("%s is not among %q", want, cf.Config.Env)
		}
	}
	if all := strings.Join(cf.Config.Env, "\n"); !strings.Contains(all, "PATH=/opt/conda/lib/jvm/bin:/opt/conda/bin:") || strings.Contains(all, "LOST") {
		t.Errorf("the variables are %q", cf.Config.Env)
	}
	const refused = "etc/conda/activate.d/program.sh"
	if got := cf.Config.Labels["dev.slipway.conda.activate.unsupported"]; got != refused {
		t.Errorf("the label is %q", got)
	}
	if log := p.logOf(answer); !strings.Contains(log, refused+` (it cannot be evaluated: it runs "python")`) {
		t.Errorf("the log is %s", log)
	}
	content := files(t, img)
	p.judgeBuild(t, answer, content, judged{channel: channel.URL + "/lab", more: "spare"})
}
