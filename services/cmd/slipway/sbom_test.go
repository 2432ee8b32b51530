package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSBOM checks that the document is printed or written as the server returns it.
func TestSBOM(t *testing.T) {
	t.Parallel()
	const call, document = "GET /v1alpha1/images/sbom?format=spdx&image=ubuntu%3A24.04", `{"spdxVersion":"SPDX-2.3","name":"a b"}` + "\n"
	file := filepath.Join(t.TempDir(), "u.json")
	link := filepath.Join(t.TempDir(), "link.json")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, s := range []sight{
		{name: "SPDX", args: []string{"sbom", "ubuntu:24.04"}, env: map[string]string{"SLIPWAY_TOKEN": "tok"}, ex: exchange{call: call, auth: "Bearer tok", answer: document}, out: document},
		{
			name: "CycloneDX", args: []string{"sbom", "ubuntu:24.04", "--format", "cyclonedx", "--platform", "linux/arm64", "--workspace", "7"},
			ex: exchange{call: "GET /v1alpha1/images/sbom?format=cyclonedx&image=ubuntu%3A24.04&platform=linux%2Farm64&workspaceId=7", answer: `{"bomFormat":"CycloneDX"}`}, out: `{"bomFormat":"CycloneDX"}`,
		},
		{name: "a file", args: []string{"sbom", "ubuntu:24.04", "--output", file}, ex: exchange{call: call, answer: document}},
		{name: "a device", args: []string{"sbom", "ubuntu:24.04", "--output", os.DevNull}, ex: exchange{call: call, answer: document}},
		{name: "a link", args: []string{"sbom", "ubuntu:24.04", "--output", link}, ex: exchange{call: call, answer: document}},
		{name: "no folder", args: []string{"sbom", "ubuntu:24.04", "--output", file + "/x"}, ex: exchange{call: call, answer: document}, code: 1, errs: []string{"not a directory"}},
		{name: "no document", args: []string{"sbom", "ubuntu:24.04"}, ex: exchange{call: call, answer: "<html>"}, code: 1, errs: []string{"no bill of materials"}},
		{name: "another format", args: []string{"sbom", "ubuntu:24.04", "--format", "syft"}, code: 2, errs: []string{"--format must be spdx or cyclonedx"}},
		{name: "an output format", args: []string{"sbom", "ubuntu:24.04", "--output", "json"}, code: 2, errs: []string{"--output is the file to write"}},
		{name: "a refusal", args: []string{"sbom", "ubuntu:24.04"}, ex: exchange{call: call, status: 404, answer: `{"message":"The image index has no images"}`}, code: 1, errs: []string{"reading the bill of materials of ubuntu:24.04: The image index has no images"}},
	} {
		t.Run(s.name, func(t *testing.T) { s.check(t) })
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != document {
		t.Errorf("the file has %q, %v", got, err)
	}
	if left, err := filepath.Glob(file + ".*"); err != nil || len(left) > 0 {
		t.Errorf("%q, %v", left, err)
	}
	for name, kind := range map[string]os.FileMode{os.DevNull: os.ModeDevice, link: os.ModeSymlink} {
		if info, err := os.Lstat(name); err != nil || info.Mode()&kind == 0 {
			t.Errorf("%s was replaced: %v, %v", name, info, err)
		}
	}
}
