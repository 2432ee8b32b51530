package run

import (
	"testing"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/session"
)

// TestRequestedFormat checks that no image is requested for packages, unless the command uses one.
func TestRequestedFormat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args   []string
		format string
	}{
		{nil, formatEnvironment},
		{[]string{"--channel", "lab", "--base-packages", ""}, formatEnvironment},
		{[]string{"--base"}, ""},
		{[]string{"--base-image", "debian:12"}, ""},
	} {
		var f flags
		cmd := &cobra.Command{}
		f.add(cmd, &session.Settings{})
		f.addBase(cmd)
		if err := cmd.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		_, req, err := f.subject(cmd, []string{"samtools=1.20"})
		if err != nil || req.GetFormat() != c.format || req.GetMount() != (c.format == "") {
			t.Errorf("%v: the request is %v, %v", c.args, req, err)
		}
	}
}
