package e2e

import (
	"net/http"
	"slices"
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
	more := signingKey(t)
	more["admin_registry_auth_file"] = dockerConfig(t, map[string]string{own.Host: testkit.User + ":" + testkit.Password})
	eachBuildShape(t, []string{up.Host, own.Host}, more, func(t *testing.T, p *program) {
		named := up.Push(t, "base/named:1", holding(t, true, "named.txt", "of ONBUILD"))
		secret := own.Push(t, "team/secret:1", holding(t, true, "secret.txt", "of an image that requires a login"))
		base := up.Push(t, "base/busybox:1", onBuild(t, busybox(t, true), "COPY --from="+named+" /named.txt /named.txt"))
		gz, tar := testkit.Tar(t, "added.txt", "of the request")
		body := recipe("FROM "+base, "RUN echo built > /hello.txt", "ENV BAKED=yes", "COPY --from="+secret+" /secret.txt /secret.txt")
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
		registry, subject := registryURL(own.Host, true)+"/v2/team/tools", manifestAt(t, text(answer, "targetImage")).Digest.String()
		made := verified(t, p, subject, attachedTo(t, 2, func() []statementFile { return statementsOf(t, registry, subject) }))
		var read []string
		for _, d := range made.BuildDefinition.ResolvedDependencies {
			read = append(read, d.Name+" "+d.Digest["sha256"]+" "+strings.Split(d.URI, "@")[0])
		}
		slices.Sort(read)
		want := []string{"image " + hexOf(t, base) + " pkg:oci/busybox", "image " + hexOf(t, named) + " pkg:oci/named", "image " + hexOf(t, secret) + " "}
		slices.Sort(want)
		if !slices.Equal(read, want) || made.BuildDefinition.ExternalParameters.Omitted != nil {
			t.Errorf("the image was made from %q, want %q", read, want)
		}
		if again := p.order(body, "Authorization", "Bearer "+p.token); again["cached"] != true || again["succeeded"] != true {
			t.Errorf("the repeated request returned %v", again)
		}
	})
}

// hexOf returns the digest of an image at a registry of the test, in hex.
func hexOf(t testing.TB, image string) string {
	t.Helper()
	return manifestAt(t, image).Digest.Hex
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
