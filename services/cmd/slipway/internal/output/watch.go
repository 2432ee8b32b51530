package output

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Watch shows a result repeatedly.
type Watch struct {
	output   *Format
	watch    bool
	interval time.Duration
	isLive   func(io.Writer) bool
}

// WatchFlags adds -o, --watch and --interval, for a command that prints one of these documents.
func WatchFlags(cmd *cobra.Command, isLive func(io.Writer) bool, help string, docs ...any) *Watch {
	w := &Watch{output: Flag(cmd, docs...), isLive: isLive}
	cmd.Flags().BoolVarP(&w.watch, "watch", "w", false, help)
	cmd.Flags().DurationVar(&w.interval, "interval", 5*time.Second, "How often, with --watch.")
	usage.CompleteFlag(cmd, "interval", "1s", "5s", "1m")
	return w
}

// Sighting is one observation.
type Sighting struct {
	Raw   []byte
	Table Table
	End   *Ending // nil while it continues
}

// Ending is the final result of what was watched.
type Ending struct{ Err error }

// Show prints the result of look: once, or until it ends. On a terminal a new result
// replaces the old one; elsewhere only new results are printed.
func (w *Watch) Show(cmd *cobra.Command, look func(context.Context) (Sighting, error)) error {
	if w.watch && w.interval < time.Second {
		return usage.Errorf("--interval must be a second or more")
	}
	out := cmd.OutOrStdout()
	clears := w.watch && w.isLive(out)
	tick := time.NewTicker(max(w.interval, time.Second))
	defer tick.Stop()
	for before := []byte(nil); ; {
		seen, err := look(cmd.Context())
		if err != nil {
			return err
		}
		var now bytes.Buffer
		if err := w.output.Print(&now, seen.Raw, seen.Table); err != nil {
			return err
		}
		if clears {
			err = put(out, append([]byte("\x1b[H\x1b[2J"), now.Bytes()...))
		} else if !bytes.Equal(now.Bytes(), before) {
			err = put(out, now.Bytes())
		}
		switch {
		case err != nil:
			return err
		case !w.watch:
			return nil
		case seen.End != nil:
			return seen.End.Err
		}
		before = now.Bytes()
		select {
		case <-tick.C:
		case <-cmd.Context().Done():
			return fmt.Errorf("interrupted: %w", cmd.Context().Err())
		}
	}
}

func put(out io.Writer, text []byte) error {
	if _, err := out.Write(text); err != nil {
		return fmt.Errorf("printing the answer: %w", err)
	}
	return nil
}
