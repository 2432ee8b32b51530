package batch

import (
	"io"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// TestOptionsDigest checks what a lock, or the digest of an image, does not have of a request.
func TestOptionsDigest(t *testing.T) {
	t.Parallel()
	packages := func(change func(p *containerv1.Packages)) *containerv1.ContainerRequest {
		r := environmentRequest([]byte("dependencies: [bwa]\n"))
		change(r.GetPackages())
		return r
	}
	for name, r := range map[string]*containerv1.ContainerRequest{
		"packages":      packages(func(p *containerv1.Packages) { p.Channels, p.CondaOpts = []string{"lab"}, &containerv1.CondaOptions{} }),
		"a Conda file":  {CondaFile: "eA==", MinAge: "7d", BuildRepository: "h/a", Freeze: true, PlatformAccessToken: "secret"},
		"an image":      {ContainerImage: "h/a:1", Mirror: true, ContainerConfig: &containerv1.ContainerConfig{}},
		"its placement": {CacheRepository: "h/cache", NameStrategy: "none"},
	} {
		if got := optionsDigest(r); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
	seen := map[string]string{}
	for name, r := range map[string]*containerv1.ContainerRequest{
		"a base image":  packages(func(p *containerv1.Packages) { p.CondaOpts = &containerv1.CondaOptions{BaseImage: "h/a:1"} }),
		"no packages":   packages(func(p *containerv1.Packages) { p.CondaOpts = &containerv1.CondaOptions{BasePackages: proto.String("")} }),
		"a platform":    {CondaFile: "eA==", ContainerPlatform: "linux/arm64"},
		"a variable":    {ContainerImage: "h/a:1", ContainerConfig: &containerv1.ContainerConfig{Env: []string{"A=b"}}},
		"other layers":  {ContainerImage: "h/a:1", ContainerIncludes: []string{"h/b:1"}},
		"a Dockerfile":  {ContainerFile: "eA=="},
		"a compression": {Compression: &containerv1.Compression{Mode: "zstd"}},
	} {
		got := optionsDigest(r)
		if got == "" || seen[got] != "" {
			t.Errorf("%s: %q, as %s", name, got, seen[got])
		}
		seen[got] = name
	}
}

// TestRecordsAreSufficient checks that records of a lock file are only used if they determine the
// image.
func TestRecordsAreSufficient(t *testing.T) {
	t.Parallel()
	id, base := digestOf([]byte(pixiLock)), &containerv1.ContainerRequest{Packages: &containerv1.Packages{CondaOpts: &containerv1.CondaOptions{BaseImage: "h/base:1"}}}
	options := optionsDigest(withDefaults(environmentRequest([]byte(pixiLock)), base))
	for name, tc := range map[string]struct {
		record   locked
		defaults *containerv1.ContainerRequest
		want     string
	}{
		"a lock":                       {locked{Image: "server/builds:a", Lock: id}, &containerv1.ContainerRequest{}, ""},
		"another base image":           {locked{Image: "server/builds:a", Lock: id, Options: options}, &containerv1.ContainerRequest{}, "requested with other options"},
		"the same base image":          {locked{Image: "server/builds:a", Lock: id, Options: options}, base, ""},
		"no base image":                {locked{Image: "server/builds:a", Lock: id}, base, "requested with other options"},
		"an image":                     {locked{Image: "h/a:1", Digest: "sha256:00"}, base, ""},
		"an image with more":           {locked{Image: "h/a:1", Digest: "sha256:00", Options: "sha256:01", Added: true}, base, "something was added to its image"},
		"an image of another server":   {locked{Image: "other/builds:a", Digest: "sha256:00", Lock: id, Options: options}, &containerv1.ContainerRequest{}, ""},
		"more on that of another":      {locked{Image: "other/builds:a", Digest: "sha256:00", Lock: id, Options: options, Added: true}, base, "something was added to its image"},
		"an image without its digest":  {locked{Image: "h/a:1"}, base, "has no digest"},
		"a build without its packages": {locked{Image: "server/builds:a", Digest: "sha256:00"}, base, "has no digest, or the server cannot make it"},
	} {
		r := newRun(nil, newProgress(io.Discard, false, 1))
		e := lockFile{Containers: []locked{tc.record}, Locks: map[string]string{id: pixiLock}}.entries("server")[0]
		r.add(e, withDefaults(e.request, tc.defaults), lockFile{})
		if got := r.all[0].result.GetMessage(); got == "" != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestCheck checks which images may differ from those of the lock file.
func TestCheck(t *testing.T) {
	t.Parallel()
	packages, image := environmentRequest([]byte(pixiLock)), &containerv1.ContainerRequest{ContainerImage: "h/a:1"}
	more := proto.CloneOf(image)
	more.ContainerConfig = &containerv1.ContainerConfig{Env: []string{"A=b"}}
	for name, tc := range map[string]struct {
		c          container
		err, noted string
	}{
		"an image":             {container{request: image}, "; slipway batch --update accepts the new one", ""},
		"an image with more":   {container{request: more}, "", ""},
		"packages":             {container{request: packages}, "", "the image is sha256:02 instead of sha256:01"},
		"packages of an input": {container{request: packages, isInput: true}, "; give the inputs of slipway batch", ""},
	} {
		tc.c.locked = locked{Digest: "sha256:01"}
		i := tc.c.image()
		if err := i.Check("sha256:01"); err != nil || i.Note != "" {
			t.Errorf("%s: %v, %q", name, err, i.Note)
		}
		if err := i.Check("sha256:02"); err == nil != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) || i.Note != tc.noted {
			t.Errorf("%s: %v, %q", name, err, i.Note)
		}
	}
}
