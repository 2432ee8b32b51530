package output

import (
	"io"
	"os"
	"testing"

	"github.com/spf13/cobra"
)

func TestHasColour(t *testing.T) {
	t.Parallel()
	terminal, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as terminals are
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, c := range []struct {
		env  map[string]string
		w    io.Writer
		want bool
	}{
		{map[string]string{"TERM": "xterm"}, terminal, true},
		{map[string]string{"TERM": "xterm"}, file, false},
		{map[string]string{"TERM": "xterm"}, io.Discard, false},
		{map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, terminal, false},
		{map[string]string{"TERM": "dumb"}, terminal, false},
		{nil, terminal, false},
	} {
		root, below := &cobra.Command{Use: "root"}, &cobra.Command{Use: "below"}
		root.AddCommand(below)
		AllowColour(root, func(name string) string { return c.env[name] })
		if got := HasColour(below, c.w); got != c.want {
			t.Errorf("%v, %T: %t", c.env, c.w, got)
		}
	}
}

func TestColours(t *testing.T) {
	t.Parallel()
	table := "ID      STATUS\nbeef_1  FAILED (solve)  x\nFAILED_1  COMPLETED\n"
	want := bold + "ID      STATUS" + reset + "\nbeef_1  " + red + "FAILED (solve)" + reset + "  x\nFAILED_1  " + green + "COMPLETED" + reset + "\n"
	if got := string(colouredTable([]byte(table), true)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	help := "Text: one.\n\nUsage:\n  slipway x\n\nGlobal Flags:\n"
	if got, want := string(colouredHelp([]byte(help))), "Text: one.\n\n"+bold+"Usage:"+reset+"\n  slipway x\n\n"+bold+"Global Flags:"+reset+"\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
