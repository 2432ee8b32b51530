package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// noPager disables the pager.
const noPager = "cat"

// pagerOf returns the program that shows long results on a terminal; "" for none.
func pagerOf(env func(string) string) string {
	if p := strings.TrimSpace(cmp.Or(env("SLIPWAY_PAGER"), env("PAGER"))); p != noPager {
		return p
	}
	return ""
}

// Paged makes a command and its subcommands show their results in the pager.
func (s *Settings) Paged(cmd *cobra.Command) *cobra.Command {
	for _, below := range cmd.Commands() {
		s.Paged(below)
	}
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			if s.pager == "" || s.atOnce || !s.IsLive(out) || follows(cmd) {
				return run(cmd, args)
			}
			return throughPager(cmd.Context(), s.pager, out, func(page io.Writer) error {
				cmd.SetOut(page)
				defer cmd.SetOut(out)
				return run(cmd, args)
			})
		}
	}
	return cmd
}

// follows reports whether a command shows results as they arrive.
func follows(cmd *cobra.Command) bool {
	for _, name := range []string{"follow", "watch"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Value.String() == "true" {
			return true
		}
	}
	return false
}

// throughPager shows the output of work in a program. Leaving the program before the end is
// no error.
func throughPager(ctx context.Context, program string, out io.Writer, work func(io.Writer) error) error {
	pager := exec.CommandContext(context.WithoutCancel(ctx), "sh", "-c", program)
	pager.Stdout, pager.Stderr, pager.Env = out, os.Stderr, os.Environ()
	if os.Getenv("LESS") == "" {
		pager.Env = append(pager.Env, "LESS=FRX") // short output is printed, and stays on the screen
	}
	page, err := pager.StdinPipe()
	if err == nil {
		err = pager.Start()
	}
	if err != nil {
		return fmt.Errorf("starting the pager %s; set SLIPWAY_PAGER, or use --no-pager: %w", program, err)
	}
	err = errors.Join(work(page), page.Close())
	end := pager.Wait()
	if failed, ok := errors.AsType[*exec.ExitError](end); ok && failed.ExitCode() >= 126 { // the shell cannot run it
		return fmt.Errorf("there is no pager %s; set SLIPWAY_PAGER, or use --no-pager", program)
	}
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}
