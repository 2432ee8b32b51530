package conda

import (
	"strings"
	"testing"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
)

// TestClientDefaultImages checks that the images which client libraries always send do
// not count as the user's choice.
func TestClientDefaultImages(t *testing.T) {
	t.Parallel()
	usual := Defaults{Mamba: "h:5000/m:2", Base: "debian:12", ClientMamba: []string{"mambaorg/micromamba"}, ClientBase: []string{"ubuntu:24.04"}}
	const mamba, base = "h:5000/m:2", "docker.io/library/debian:12"
	for _, tc := range []struct{ mamba, base, wantOwn, wantMamba, wantBase string }{
		{"", "", "", mamba, base},
		{"mambaorg/micromamba:1.5.10-noble", "", "", mamba, base},
		{"mambaorg/micromamba:1.5.8-noble", "ubuntu:24.04", "", mamba, base},
		{"docker.io/mambaorg/micromamba:1.5.10", "docker.io/library/ubuntu:24.04", "", mamba, base},
		{"index.docker.io/mambaorg/micromamba:2-amazon2023", "", "", mamba, base},
		{"mambaorg/micromamba", "ubuntu:22.04", "", mamba, "docker.io/library/ubuntu:22.04"},
		{"quay.io/mambaorg/micromamba:2", "ubuntu", "quay.io/mambaorg/micromamba:2", "quay.io/mambaorg/micromamba:2", "docker.io/library/ubuntu:latest"},
		{"mambaorg/micromamba-cuda:2", "", "docker.io/mambaorg/micromamba-cuda:2", "docker.io/mambaorg/micromamba-cuda:2", base},
	} {
		r, err := Read(options(&containerv1.CondaOptions{MambaImage: tc.mamba, BaseImage: tc.base}), "", nil, usual)
		if err != nil {
			t.Fatal(err)
		}
		if r.OwnInstaller() != tc.wantOwn || r.mambaImage != tc.wantMamba || r.BaseImage() != tc.wantBase {
			t.Errorf("%q and %q: own installer %q, images %s and %s", tc.mamba, tc.base, r.OwnInstaller(), r.mambaImage, r.BaseImage())
		}
	}
	strict := Defaults{ClientMamba: []string{"mambaorg/micromamba:1"}}
	r, err := Read(options(&containerv1.CondaOptions{MambaImage: "mambaorg/micromamba:2"}), "", nil, strict)
	if err != nil || r.OwnInstaller() == "" {
		t.Errorf("another tag than the listed one: %q, %v", r.OwnInstaller(), err)
	}
	if _, err := (Defaults{ClientBase: []string{"a", "B b"}}).Qualified(); err == nil || !strings.HasPrefix(err.Error(), "conda_client_base_images[1]: ") {
		t.Errorf("a malformed setting: %v", err)
	}
}
