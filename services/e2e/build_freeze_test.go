package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"slipway.dev/services/internal/testkit"
)

// TestBuildFrozen builds an image, freezes it with the request's additions in a user's
// repository, and pulls it from there directly.
func TestBuildFrozen(t *testing.T) {
	t.Parallel()
	up, own := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Basic)
	logins := settings{"admin_registry_auth_file": dockerConfig(t, map[string]string{own.Host: testkit.User + ":" + testkit.Password})}
	eachBuildShape(t, []string{up.Host, own.Host}, logins, func(t *testing.T, p *program) {
		base := up.Push(t, "base/busybox:1", busybox(t, true))
		gz, tar := testkit.Tar(t, "added.txt", "of the request")
		body := recipe("FROM "+base, "RUN echo built > /hello.txt", "ENV BAKED=yes")
		body["freeze"], body["buildRepository"] = true, own.Host+"/team/tools"
		body["containerConfig"] = map[string]any{
			"env": []string{"GREETING=hello"}, "layers": []any{layer(fileServer(t, "/x.tar.gz", gz), gz, tar)},
		}
		body["containerIncludes"] = []string{up.Push(t, "lib/more:1", holding(t, true, "included.txt", "of another image"))}
		answer := p.order(body, "Authorization", "Bearer "+p.token)
		if target := text(answer, "targetImage"); !strings.HasPrefix(target, own.Host+"/team/tools:") {
			t.Errorf("the image name is %s", target)
		}
		if s := p.finished(t, answer); s["succeeded"] != true {
			log := p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId")+"/logs", nil)
			record := p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId"), nil)
			t.Fatalf("the build ended as %v\n%s\n%s", s, record.body, log.body)
		}
		img := ownImage(t, text(answer, "targetImage"))
		if in := files(t, img); in["hello.txt"] != "built\n" || in["added.txt"] != "of the request" || in["included.txt"] != "of another image" {
			t.Errorf("the image contains %q, %q and %q", in["hello.txt"], in["added.txt"], in["included.txt"])
		}
		cf, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if env := strings.Join(cf.Config.Env, " "); !strings.Contains(env, "BAKED=yes") || !strings.Contains(env, "GREETING=hello") {
			t.Errorf("variables %s", env)
		}
		if again := p.order(body, "Authorization", "Bearer "+p.token); again["cached"] != true || again["succeeded"] != true {
			t.Errorf("the repeated request returned %v", again)
		}
	})
}

func ownImage(t testing.TB, image string) v1.Image {
	t.Helper()
	ref, err := name.ParseReference(image, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(ref, remote.WithAuth(&authn.Basic{Username: testkit.User, Password: testkit.Password}),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"}))
	if err != nil {
		t.Fatal(err)
	}
	return img
}
