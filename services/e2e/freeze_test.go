package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/random"

	"slipway.dev/services/internal/testkit"
)

// frozen returns a request that freezes an existing image.
func frozen(image, repository string, config map[string]any) map[string]any {
	return map[string]any{"containerImage": image, "freeze": true, "buildRepository": repository, "containerConfig": config}
}

// eachCopyShape is eachShape with workers for engines that do not need BuildKit.
func eachCopyShape(t *testing.T, plain []string, more settings, scenario func(t *testing.T, p *program)) {
	t.Helper()
	inEach(t, common(t, plain, more), func(t testing.TB, s settings) *program {
		p, _ := buildersPerRole(t, s)
		return p
	}, scenario)
}

// logOf returns the log of a build.
func (p *program) logOf(answer map[string]any) string {
	return string(p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId")+"/logs", nil).body)
}

// TestFreezeImage freezes an existing image with additions in a user's repository. Only missing
// blobs must be sent to the registry.
func TestFreezeImage(t *testing.T) {
	t.Parallel()
	own, far := testkit.NewRegistry(t, testkit.Basic), testkit.NewRegistry(t, testkit.Open)
	more := settings{"admin_registry_auth_file": dockerConfig(t, map[string]string{own.Host: testkit.User + ":" + testkit.Password})}
	eachCopyShape(t, []string{own.Host, far.Host}, more, func(t *testing.T, p *program) {
		img, err := random.Image(5000, 3)
		if err != nil {
			t.Fatal(err)
		}
		base := own.Push(t, "team/base:1", img)
		gz, tar := testkit.Tar(t, "added.txt", "of the request")
		config := map[string]any{"env": []string{"GREETING=hello"}, "layers": []any{layer(fileServer(t, "/x.tar.gz", gz), gz, tar)}}
		repository := own.Host + "/team/frozen" + testkit.FreePort(t)
		own.Requests()
		body := frozen(base, repository, config)
		answer := p.order(body, "Authorization", "Bearer "+p.token)
		target := text(answer, "targetImage")
		if !strings.HasPrefix(target, repository+":") || answer["freeze"] != true || answer["containerToken"] != nil || text(answer, "containerImage") != base {
			t.Errorf("the request returned %v", answer)
		}
		if s := p.finished(t, answer); s["succeeded"] != true {
			t.Fatalf("the build ended as %v\n%s", s, p.logOf(answer))
		}
		pushed := 2 // the config and the added layer
		if request(t, http.MethodGet, p.url+"/.well-known/slipway/cosign.pub", nil).status == http.StatusOK {
			pushed += 3 // two statements and their config
			registry := registryURL(own.Host, true) + "/v2/" + strings.TrimPrefix(repository, own.Host+"/")
			subject := sha(request(t, http.MethodGet, registry+"/manifests/"+strings.TrimPrefix(target, repository+":"), nil).body)
			attachedTo(t, 2, func() []statementFile { return statementsOf(t, registry, subject) })
		}
		puts, mounts := 0, 0
		for _, r := range own.Requests() {
			if strings.HasPrefix(r, "PUT ") && strings.Contains(r, "/blobs/") {
				puts++
			}
			if strings.HasPrefix(r, "GET ") && strings.Contains(r, "team/base/blobs") {
				mounts++
			}
		}
		if puts != pushed || mounts > 1 { // the config is read
			t.Errorf("%d blobs were pushed, %d read\n%s", puts, mounts, p.logOf(answer))
		}
		frozenImage := ownImage(t, target)
		if in := files(t, frozenImage); in["added.txt"] != "of the request" {
			t.Errorf("the image contains %q", in["added.txt"])
		}
		record := p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId"), nil).json(t)
		if d, err := frozenImage.Digest(); err != nil || text(record, "digest") != d.String() {
			t.Errorf("the record is %v, the image digest is %s", record, d)
		}
		again := p.order(body, "Authorization", "Bearer "+p.token)
		if again["cached"] != true || again["succeeded"] != true || text(again, "targetImage") != target {
			t.Errorf("the repeated request returned %v", again)
		}
		p.freezeFromAfar(t, far, repository)
	})
}

// freezeFromAfar copies an image from another registry without changes.
func (p *program) freezeFromAfar(t *testing.T, far *testkit.Registry, repository string) {
	t.Helper()
	img, err := random.Image(3000, 2)
	if err != nil {
		t.Fatal(err)
	}
	answer := p.order(frozen(far.Push(t, "lib/image:1", img), repository, nil), "Authorization", "Bearer "+p.token)
	if s := p.finished(t, answer); s["succeeded"] != true {
		t.Fatalf("the build ended as %v\n%s", s, p.logOf(answer))
	}
	want, err1 := img.Digest()
	got, err2 := ownImage(t, text(answer, "targetImage")).Digest()
	if want != got || err1 != nil || err2 != nil {
		t.Errorf("the copy of %s is %s (%v, %v)", want, got, err1, err2)
	}
}

// TestFreezeDenied checks that a denied push is explained and leaves no tag in the registry.
func TestFreezeDenied(t *testing.T) {
	t.Parallel()
	up, own := testkit.NewRegistry(t, testkit.Open), testkit.NewRegistry(t, testkit.Basic)
	eachCopyShape(t, []string{up.Host, own.Host}, nil, func(t *testing.T, p *program) {
		img, err := random.Image(1000, 1)
		if err != nil {
			t.Fatal(err)
		}
		own.Requests()
		answer := p.order(frozen(up.Push(t, "lib/image:1", img), own.Host+"/team/frozen", nil), "Authorization", "Bearer "+p.token)
		s := p.finished(t, answer)
		record := p.call(http.MethodGet, "/v1alpha1/builds/"+text(answer, "buildId"), nil).json(t)
		if s["succeeded"] != false || text(s, "reasonCode") != "push" || !strings.Contains(text(record, "message"), own.Host) {
			t.Errorf("the build ended as %v, %v; the log is\n%s", s, record, p.logOf(answer))
		}
		if requests := own.Requests(); slices.ContainsFunc(requests, func(r string) bool { return strings.HasPrefix(r, "PUT ") }) {
			t.Errorf("the image was pushed: %q", requests)
		}
		sif := frozen(up.Host+"/lib/image:1", own.Host+"/team/frozen", nil)
		sif["format"] = "sif"
		r := p.call(http.MethodPost, "/v1alpha2/container", sif, "Authorization", "Bearer "+p.token)
		if r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "your own credentials") {
			t.Errorf("a Singularity image without credentials: %d %s", r.status, r.body)
		}
	})
}
