package main

import "testing"

const (
	inspected = `{"container":{"registry":"docker.io","hostName":"https://registry-1.docker.io","imageName":"library/ubuntu",` +
		`"reference":"24.04","digest":"sha256:aa","config":{"architecture":"arm64","created":"2026-01-01T00:00:00Z",` +
		`"config":{"env":["PATH=/bin","EVIL=a\u001b[2J\tb"],"cmd":["/bin/bash"],"entrypoint":["sh","-c"],"workingDir":"/data","user":"1000"},` +
		`"rootfs":{"type":"layers","diff_ids":["sha256:dd"]}},"manifest":{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",` +
		`"config":{"digest":"sha256:cc","size":2000},"layers":[{"digest":"sha256:l1","size":29700000},{"digest":"sha256:l2","size":512}]},` +
		`"v1":false,"v2":false,"oci":true}}`
	inspectedText = `Name          docker.io/library/ubuntu:24.04
Digest        sha256:aa
Type          application/vnd.oci.image.manifest.v1+json
Architecture  arm64
Created       2026-01-01T00:00:00Z
Entrypoint    ["sh" "-c"]
Cmd           ["/bin/bash"]
Env           PATH=/bin
              EVIL=a b
Working dir   /data
User          1000
Layers        sha256:l1   29.7 MB
              sha256:l2     512 B
`
	indexed = `{"index":{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","digest":"sha256:ii","manifests":[` +
		`{"digest":"sha256:m1","size":424,"platform":{"architecture":"amd64","os":"linux"}},` +
		`{"digest":"sha256:m2","size":424,"platform":{"architecture":"arm64","os":"linux","variant":"v8","os.version":"1"}},` +
		`{"digest":"sha256:m3","size":424}]}}`
	indexedText = `Name    ubuntu:24.04
Digest  sha256:ii
Type    application/vnd.oci.image.index.v1+json

PLATFORM        DIGEST
linux/amd64     sha256:m1
linux/arm64/v8  sha256:m2
-               sha256:m3
`
)

func TestInspect(t *testing.T) {
	t.Parallel()
	const (
		post = "POST /v1alpha1/inspect"
		body = `{"containerImage":"ubuntu:24.04"}`
	)
	for _, s := range []sight{
		{
			name: "an image", args: []string{"inspect", "ubuntu:24.04", "--platform", "linux/arm64"},
			env: map[string]string{"SLIPWAY_TOKEN": "tok"},
			ex:  exchange{call: post + "?platform=linux%2Farm64", auth: "Bearer tok", body: body, answer: inspected}, out: inspectedText,
		}, {
			name: "an image by digest", args: []string{"inspect", "ubuntu:24.04"},
			ex:  exchange{call: post, body: body, answer: `{"container":{"registry":"quay.io","imageName":"a/b","reference":"sha256:aa"}}`},
			out: "Name  quay.io/a/b@sha256:aa\n",
		}, {
			name: "an index", args: []string{"inspect", "ubuntu:24.04"},
			ex: exchange{call: post, body: body, answer: indexed}, out: indexedText,
		}, {
			name: "JSON", args: []string{"inspect", "ubuntu:24.04", "--output", "json"},
			ex:  exchange{call: post, body: body, answer: `{"index":{"manifests":[{"size":424}]}}`},
			out: "{\n  \"index\": {\n    \"manifests\": [\n      {\n        \"size\": 424\n      }\n    ]\n  }\n}\n",
		}, {
			name: "neither", args: []string{"inspect", "ubuntu:24.04"},
			ex: exchange{call: post, body: body, answer: `{}`}, errs: []string{"inspecting ubuntu:24.04: the answer describes no image"}, code: 1,
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.check(t)
		})
	}
}
