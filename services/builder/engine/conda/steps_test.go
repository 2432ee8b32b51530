package conda_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	registry "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/testkit"
)

// assembled reads an image that a build has pushed by digest.
func (b *bench) assembled(digest string) v1.Image {
	b.t.Helper()
	ref, err := name.NewDigest(b.images.Host+"/team/env@"+digest, name.Insecure)
	if err != nil {
		b.t.Fatal(err)
	}
	img, err := registry.Image(ref)
	if err == nil {
		err = validate.Image(img)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return img
}

// named reports whether the target has the tag.
func (b *bench) named() bool {
	ref, err := name.ParseReference(b.images.Host+"/team/env:1", name.Insecure)
	if err == nil {
		_, err = registry.Head(ref)
	}
	return err == nil
}

// TestCondaSteps checks that if commands have to run, the packages are assembled, and the
// image gets no tag until they have run.
func TestCondaSteps(t *testing.T) {
	t.Parallel()
	const run = `RUN --mount=type=bind,source=.slipway,target=/.slipway ["sh", "/.slipway/install.sh"]` + "\n"
	for _, tc := range []struct {
		name, user, lines string
		script, pip       bool
		file              string // the steps, below FROM
		why               string
	}{
		{"a package's script", "", "", true, false, run, "The package link-scripts 0.1.0 h4616a5c_0 runs a script when it is installed (bin/.link-scripts-post-link.sh)"},
		{"with a user of the base image's", "app:100", "", true, false, "USER 0\n" + run + "USER app:100\n", "runs a script"},
		{"commands", "app", "RUN true\n", false, false, "", "commands"},
		{"pip", "root", "", false, true, run, "packages of pip"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.baseUser(tc.user)
			lock := b.curl()
			if tc.script {
				script := b.record("link-scripts-0.1.0-h4616a5c_0.conda", "link-scripts", "0.1.0", "h4616a5c_0")
				script.BuildNumber = 3
				lock = append(lock, script)
			}
			job := b.job(lock, func(j *jobs.Job) {
				j.Recipe.ContainerFile, j.Recipe.Config = tc.lines, &containerv1.ContainerConfig{Env: []string{"GREETING=hello"}}
				if tc.pip {
					j.Recipe.Files = []*buildv1.File{{Path: ".slipway/requirements.txt", Content: []byte("six\n")}}
				}
			})
			out := &lines{}
			_, err := b.engine(t.TempDir()).Build(t.Context(), job, out)
			needs := new(jobs.StepsNeeded)
			if !errors.As(err, &needs) || !strings.Contains(needs.Message, tc.why) || !strings.Contains(out.String(), "in steps on the image of the packages") {
				t.Fatalf("it ends as %v:\n%s", err, out)
			}
			if want := "FROM " + b.images.Host + "/team/env@" + needs.Digest + "\n" + tc.file; needs.Steps.GetContainerFile() != want {
				t.Errorf("the steps are %s", needs.Steps.GetContainerFile())
			}
			links := slices.IndexFunc(needs.Steps.GetFiles(), func(f *buildv1.File) bool { return f.GetPath() == ".slipway/links" })
			if (links >= 0) != tc.script || tc.script && string(needs.Steps.GetFiles()[links].GetContent()) != "bin/.link-scripts-post-link.sh\tlink-scripts\t0.1.0\t3\n" {
				t.Errorf("the files are %v", needs.Steps.GetFiles())
			}
			cf, err := b.assembled(needs.Digest).ConfigFile()
			if err != nil || slices.Contains(cf.Config.Env, "GREETING=hello") || cf.Config.User != tc.user {
				t.Errorf("its configuration is %+v, %v", cf, err)
			}
			if b.named() {
				t.Error("half an image has the name")
			}
		})
	}
}

// baseUser sets the base image's user.
func (b *bench) baseUser(user string) {
	b.t.Helper()
	img, err := mutate.Config(testkit.Image(b.t, "amd64", true), v1.Config{User: user})
	if err != nil {
		b.t.Fatal(err)
	}
	b.images.Push(b.t, "library/base:2", img)
	d, err := img.Digest()
	if err != nil {
		b.t.Fatal(err)
	}
	b.base.Reference = d.String()
}

// TestCondaStepsAsNobody checks that a user which no Dockerfile can name is rejected.
func TestCondaStepsAsNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.baseUser("a\nRUN id")
	job := b.job(b.curl(), func(j *jobs.Job) { j.Recipe.ContainerFile = "RUN true\n" })
	_, err := b.engine(t.TempDir()).Build(t.Context(), job, &lines{})
	if f := new(jobs.Failure); !errors.As(err, &f) || errors.As(err, new(*jobs.StepsNeeded)) || !strings.Contains(f.Message, "which no Dockerfile can name") {
		t.Errorf("it ends as %v", err)
	}
}
