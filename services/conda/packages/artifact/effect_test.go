package artifact_test

import (
	"testing"

	"slipway.dev/services/conda/packages/artifact"
)

// TestEffect checks known link scripts. Scripts that are not our own are identified by
// digest, so that one more byte makes the script with the licence unknown.
func TestEffect(t *testing.T) {
	t.Parallel()
	licence := "echo \"By downloading and using the cuDNN conda packages, you accept the terms and conditions of the NVIDIA cuDNN EULA -\n" +
		"  https://docs.nvidia.com/deeplearning/cudnn/sla/index.html\" >> \"$PREFIX\"/.messages.txt\n"
	for text, want := range map[string]artifact.Effect{
		licence: artifact.Message, licence + "\n": artifact.MustRun, "": artifact.MustRun, "exit 0\n": artifact.MustRun,
	} {
		if got := (artifact.Script{Text: text}).Effect(); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	in, _ := install(t, "testdata/packages/link-scripts-0.1.0-h4616a5c_0.conda", place(t))
	if got := in.LinkScripts[0].Effect(); got != artifact.MustRun {
		t.Errorf("a script of a test's package: %s", got)
	}
}

// TestMessageText checks the message of a script that only prints one.
func TestMessageText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"#!/bin/bash\n\necho \" \" >> $PREFIX/.messages.txt\necho \"Set X before\" >> $PREFIX/.messages.txt\necho \"you start $PREFIX/bin/x.\"  >> x\n": "Set X before\nyou start /opt/conda/bin/x.",
		"{\n  printf \"%s\\n\" \"Of ${PKG_NAME}\"\n  printf \"%s\\n\" \"and more.\"\n} >> \"${PREFIX}/.messages.txt\"\n":                                "Of thing\nand more.",
		"true\n": "",
	} {
		if got := (artifact.Script{Text: text}).MessageText("/opt/conda", "thing"); got != want {
			t.Errorf("%q says %q, want %q", text, got, want)
		}
	}
}
