package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// watching shows something again and again.
type watching struct {
	output *format
	watch  bool
	every  time.Duration
	isLive func(io.Writer) bool
}

// watchFlags adds -o, --watch and --interval.
func watchFlags(cmd *cobra.Command, isLive func(io.Writer) bool, usage string) *watching {
	w := &watching{output: outputFlag(cmd), isLive: isLive}
	cmd.Flags().BoolVarP(&w.watch, "watch", "w", false, usage)
	cmd.Flags().DurationVar(&w.every, "interval", 5*time.Second, "How often, with --watch.")
	complete(cmd, "interval", "1s", "5s", "1m")
	return w
}

// sighting is what is there at one time.
type sighting struct {
	raw   []byte
	table table
	end   *verdictOf // nil while it goes on
}

// verdictOf is how what was watched ended.
type verdictOf struct{ err error }

// show prints what look sees: once, or until it ends. On a terminal the new one
// takes the old one's place; elsewhere only what is new is printed.
func (w *watching) show(cmd *cobra.Command, look func(context.Context) (sighting, error)) error {
	if w.watch && w.every < time.Second {
		return usagef("--interval must be a second or more")
	}
	out := cmd.OutOrStdout()
	clears := w.watch && w.isLive(out)
	tick := time.NewTicker(max(w.every, time.Second))
	defer tick.Stop()
	for before := []byte(nil); ; {
		seen, err := look(cmd.Context())
		if err != nil {
			return err
		}
		var now bytes.Buffer
		if err := w.output.print(&now, seen.raw, seen.table); err != nil {
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
		case seen.end != nil:
			return seen.end.err
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
