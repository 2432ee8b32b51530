package e2e

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"slipway.dev/services/internal/testkit"
)

// shell returns busybox with a shell as its command, like typical base images.
func shell(t testing.TB) v1.Image {
	t.Helper()
	img := busybox(t, true)
	cf, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	cf = cf.DeepCopy()
	cf.Config.Cmd = []string{"sh"}
	if img, err = mutate.ConfigFile(img, cf); err != nil {
		t.Fatal(err)
	}
	return img
}

// TestWebPageToDockerRun follows a new user: types a name, accepts the suggestion, requests the
// container, copies the command for Docker, runs it unchanged, and calls the program.
func TestWebPageToDockerRun(t *testing.T) {
	t.Parallel()
	needClients(t)
	browser, docker := newChromium(t), startDocker(t)
	up, lab := testkit.NewRegistry(t, testkit.Open), madeChannel(t, greet(t, "amd64"),
		madePackage{name: "procps-ng", version: "4.0.4", subdir: "linux-64", files: []packedFile{{path: "share/procps-ng", mode: 0o644}}})
	s := bare(lab.URL)
	s["conda_channels"] = "conda-forge=" + lab.URL + "/lab,bioconda=" + lab.URL + "/lab"
	s["conda_base_image"] = up.Push(t, "base/busybox:1", shell(t))
	eachCopyShape(t, []string{up.Host}, unraced(s), func(t *testing.T, p *program) {
		b := openTab(t, browser, p.url+"/")
		b.await(webField)
		b.eval(webField + ".focus()")
		b.press("gre")
		b.await(`document.querySelectorAll("#found li").length === 1`)
		b.press(kb.Enter)
		b.await(webVerdict + ` === "This can be made."`)
		b.await(`document.querySelector(".contents summary").innerText.startsWith("2 packages")`) // as many as the image will have
		b.eval(webSubmit + ".click()")
		b.await(`document.querySelector(".uses code")`)
		b.eval(`document.querySelector(".uses .copy").click()`)
		b.await(`document.querySelector(".uses .copy").innerText.startsWith("Copied")`)
		command := b.text(`document.querySelector(".uses code").innerText`)
		if !strings.HasPrefix(command, "docker run ") {
			t.Fatalf("the first command is %q", command)
		}
		// Immediately: the pull waits for the build.
		printed := docker.typed(t, command, "greet\nexit\n")
		if !strings.Contains(printed, "/opt/conda/share/greeting: hello of a package") {
			t.Errorf("%s\n%s", command, printed)
		}
		b.good("docker", p.url)
	})
}

// typed runs a command in a terminal and types keys.
func (d daemon) typed(t testing.TB, command, keys string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := sandbox(ctx, d.home, "script", "-qec", command, "/dev/null")
	cmd.Env = append(cmd.Env, "DOCKER_HOST="+d.socket())
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(keys), &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, tail(out.String(), 4000))
	}
	return out.String()
}
