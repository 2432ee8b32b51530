package main

import (
	"os"
	"path/filepath"
	"testing"
)

const (
	plainRequest = `{"containerImage":"ubuntu:24.04"}`
	plainAnswer  = `{"requestId":"abc123","containerToken":"abc123","targetImage":"localhost:9090/wt/abc123/library/ubuntu:24.04",` +
		`"expiration":"2026-01-02T00:00:00Z","containerImage":"docker.io/library/ubuntu:24.04","freeze":false,"mirror":false,"succeeded":true}`
	plainName = "localhost:9090/wt/abc123/library/ubuntu:24.04\n"
)

func TestImage(t *testing.T) {
	t.Parallel()
	const post = "POST /v1alpha2/container"
	for _, s := range []sight{
		{
			name: "with others", args: []string{"image", "ubuntu:24.04", "--include", "quay.io/a/b:1", "--include", "c:2"},
			ex:  exchange{call: post, body: `{"containerImage":"ubuntu:24.04","containerIncludes":["quay.io/a/b:1","c:2"]}`, answer: plainAnswer},
			out: plainName,
		},
		{
			name: "the name alone", args: []string{"image", "ubuntu:24.04"},
			ex: exchange{call: post, body: plainRequest, answer: plainAnswer}, out: plainName,
		}, {
			name: "additions", args: []string{
				"image", "ubuntu:24.04", "--env", "A=b,c", "--env", "EMPTY=", "--entrypoint", "/bin/sh", "--entrypoint=-c",
				"--cmd", "echo hello, world", "--workdir", "/data", "--platform", "linux/arm64", "--workspace", "12",
			},
			ex: exchange{call: post, answer: plainAnswer, body: `{"containerImage":"ubuntu:24.04","containerPlatform":"linux/arm64",` +
				`"platformWorkspaceId":"12","containerConfig":{"env":["A=b,c","EMPTY="],"entrypoint":["/bin/sh","-c"],` +
				`"cmd":["echo hello, world"],"workingDir":"/data"}}`},
			out: plainName,
		}, {
			name: "the whole answer, fields of a newer server too", args: []string{"image", "ubuntu:24.04", "-o", "json"},
			ex:  exchange{call: post, body: plainRequest, answer: `{"targetImage":"h/wt/a/b:1","later":{"size":12}}`},
			out: "{\n  \"targetImage\": \"h/wt/a/b:1\",\n  \"later\": {\n    \"size\": 12\n  }\n}\n",
		}, {
			name: "a name with terminal control sequences", args: []string{"image", "ubuntu:24.04"},
			ex: exchange{call: post, body: plainRequest, answer: `{"targetImage":"a\u001b[2Jb"}`}, out: "ab\n",
		}, {
			name: "an answer without a name", args: []string{"image", "ubuntu:24.04"},
			ex: exchange{call: post, body: plainRequest, answer: `{}`}, errs: []string{"requesting ubuntu:24.04: the answer holds no name"}, code: 1,
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.check(t)
		})
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"SLIPWAY_TOKEN": "from-env"}
	image := exchange{call: "POST /v1alpha2/container", body: plainRequest, answer: plainAnswer}
	signed := func(auth string) exchange {
		e := image
		e.auth = auth
		return e
	}
	for _, s := range []sight{
		{name: "of the environment", args: []string{"image", "ubuntu:24.04"}, env: env, ex: signed("Bearer from-env"), out: plainName},
		{name: "of a file", args: []string{"image", "ubuntu:24.04", "--token-file", file}, env: env, ex: signed("Bearer from-file"), out: plainName},
		{name: "none", args: []string{"image", "ubuntu:24.04"}, ex: image, out: plainName},
		{
			name: "not where the contract ignores it", args: []string{"revoke", "abc123"}, env: env,
			ex: exchange{call: "DELETE /v1alpha2/container/abc123", status: 204}, out: "Revoked.\n",
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.check(t)
		})
	}
}

func TestTokenFileErrors(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		empty:              "slipway: reading the access token: " + empty + " is empty\n",
		empty + "-missing": "slipway: reading the access token: open " + empty + "-missing: no such file or directory\n",
	} {
		got := slipway(t.Context(), nil, "image", "ubuntu", "--token-file", file)
		if got.code != 1 || got.errs != want {
			t.Errorf("got %+v, want %q", got, want)
		}
	}
}
