package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// slipway runs the command line and returns its output.
func (p *program) slipway(args ...string) (stdout, stderr string, err error) {
	cmd := exec.Command(filepath.Join(binaries, "slipway"), args...)
	cmd.Env = append(os.Environ(), "SLIPWAY_SERVER="+p.url, "SLIPWAY_TOKEN="+p.token)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return strings.TrimSpace(out.String()), errs.String(), err
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Basic)
	image := up.Push(t, "lib/tool:v1", testkit.Index(t, true, "amd64", "arm64"))
	auth := settings{"admin_registry_auth_file": dockerConfig(t, map[string]string{up.Host: testkit.User + ":" + testkit.Password})}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "opt"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "opt", "hello.txt"), []byte("packed"), 0o644); err != nil {
		t.Fatal(err)
	}
	eachShape(t, []string{up.Host}, auth, func(t *testing.T, p *program) {
		ok := func(args ...string) string {
			t.Helper()
			out, errs, err := p.slipway(args...)
			if err != nil {
				t.Fatalf("slipway %s: %v\n%s", strings.Join(args, " "), err, errs)
			}
			return out
		}
		first := ok("image", image, "--layer", dir, "--env", "A=b", "--entrypoint", "/bin/new", "--platform", "linux/arm64")
		target := ok("get", first) // returns another name of the same image
		if target == first {
			t.Errorf("slipway get printed the old name")
		}
		img := pull(t, target, "arm64")
		cf, err := img.ConfigFile()
		if err != nil || !slices.Contains(cf.Config.Env, "A=b") || cf.Config.Entrypoint[0] != "/bin/new" {
			t.Errorf("config %+v, %v", cf.Config, err)
		}
		if files(t, img)["opt/hello.txt"] != "packed" {
			t.Error("the directory is not in the image")
		}
		for args, want := range map[string]string{
			"status " + target:                              "DONE",
			"describe " + target:                            image,
			"inspect " + target + " --platform linux/arm64": "A=b",
			"image " + target + " --env C=d":                "/wt/",
			"inspect " + image:                              "linux/arm64",
			"inspect " + image + " --platform linux/amd64":  "/bin/entry",
			"info":                        "1.31.0",
			"info -o json":                `"version"`,
			"completion bash":             "complete",
			"image " + image + " -o json": `"targetImage"`,
		} {
			if out := ok(strings.Fields(args)...); !strings.Contains(out, want) {
				t.Errorf("slipway %s printed %s, want %s in it", args, out, want)
			}
		}
		if out := ok("revoke", target); !strings.Contains(out, "Revoked") {
			t.Errorf("slipway revoke printed %s", out)
		}
		_, errs, err := p.slipway("image", up.Host+"/lib/nothing:v1")
		if err == nil || !strings.Contains(errs, "does not exist") {
			t.Errorf("an image that does not exist: %v %s", err, errs)
		}
	})
}
