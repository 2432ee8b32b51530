package session

import (
	"io"
	"os"
	"testing"
)

func TestDumbTerminal(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if (&Settings{dumb: true}).IsLive(null) || (&Settings{}).IsLive(io.Discard) {
		t.Error("a dumb terminal, or no terminal, got a last line")
	}
}
