package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestCommandLineBuilds builds images with the command line and pulls them.
func TestCommandLineBuilds(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	eachBuildShape(t, []string{up.Host}, nil, func(t *testing.T, p *program) {
		channel, mamba, base := condaWorld(t, up)
		dir := t.TempDir()
		write := func(name, text string) string {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			return path
		}
		write("hello.txt", "of the context\n")
		write("secret.txt", "not to be sent\n")
		write(".dockerignore", "secret.txt\n")
		good := write("Dockerfile", "FROM "+base+"\nCOPY . /in/\nRUN echo this is printed\n")

		target, log, err := p.slipway("build", "-f", good, "--context", dir, "--env", "A=b", "--await")
		if err != nil || !strings.Contains(log, "this is printed") || strings.Count(target, "\n") != 0 {
			t.Fatalf("slipway build printed %q, %v\n%s", target, err, log)
		}
		img := pull(t, target, "amd64")
		in := files(t, img)
		if in["in/hello.txt"] != "of the context\n" || in["in/secret.txt"] != "" {
			t.Errorf("the context is %q", in)
		}
		if cf, err := img.ConfigFile(); err != nil || !strings.Contains(strings.Join(cf.Config.Env, " "), "A=b") {
			t.Errorf("variables %v, %v", cf.Config.Env, err)
		}

		target, log, err = p.slipway("conda", "zlib=1.2.11", "-c", channel, "--mamba-image", mamba, "--base-image", base, "--base-packages", "",
			"--run", "RUN echo done > /last.txt", "--await")
		if err != nil {
			t.Fatalf("slipway conda: %v\n%s", err, log)
		}
		if in := files(t, pull(t, target, "amd64")); in["opt/conda/include/zlib.h"] == "" || in["last.txt"] != "done\n" {
			t.Error("zlib is not in the image")
		}
		p.listsBuilds(t, write("Broken", "FROM "+base+"\nRUN echo going wrong && exit 3\n"))
	})
}

// listsBuilds runs a build that fails, finds it in the list, and reads its log.
func (p *program) listsBuilds(t *testing.T, broken string) {
	t.Helper()
	target, log, err := p.slipway("build", "-f", broken, "--await")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || target != "" {
		t.Errorf("a build that fails: %v, printed %q", err, target)
	}
	last := log[strings.LastIndex(log, "slipway: ")+1:]
	if !strings.Contains(last, "failed (build)") || !strings.Contains(last, "exit code 3") {
		t.Errorf("a build that fails prints\n%s", log)
	}
	list, _, err := p.slipway("builds")
	lines := strings.Split(list, "\n")
	if err != nil || len(lines) != 4 || !strings.Contains(lines[1], "FAILED (build)") || !strings.Contains(lines[2], "SUCCEEDED") {
		t.Fatalf("slipway builds: %v\n%s", err, list)
	}
	failed, made := strings.Fields(lines[1])[0], strings.Fields(lines[2])[0]
	if out, _, err := p.slipway("logs", made, "-f"); err != nil || !strings.Contains(out, "exporting to image") {
		t.Errorf("slipway logs %s -f: %v\n%s", made, err, out)
	}
	if out, errs, err := p.slipway("logs", failed, "-f"); err == nil || !strings.Contains(out, "going wrong") || !strings.Contains(errs, "failed (build)") {
		t.Errorf("slipway logs %s -f: %v\n%s%s", failed, err, out, errs)
	}
	if out, _, err := p.slipway("logs", failed); err != nil || !strings.Contains(out, "going wrong") {
		t.Errorf("slipway logs %s: %v\n%s", failed, err, out)
	}
	cmd := exec.Command(filepath.Join(binaries, "slipway"), "builds")
	cmd.Env = append(os.Environ(), "SLIPWAY_SERVER="+p.url, "SLIPWAY_TOKEN=")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "SLIPWAY_TOKEN") {
		t.Errorf("slipway builds without a token: %v %s", err, out)
	}
}
