// Package doctor implements `slipway doctor`, which checks what the commands need from the server and from this machine. It changes
// nothing but a file of its own in the cache, which it deletes.
package doctor

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/run"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
	"slipway.dev/services/mount/sandbox"
)

// A state is the result of a check. A warning means that something works with restrictions.
type state string

const (
	ok   state = "ok"
	warn state = "warn"
	fail state = "fail"
)

// A finding is the result of checking one thing.
type finding struct {
	Check string `json:"check"`
	State state  `json:"state"`
	// Text is the result as a sentence.
	Text string `json:"text"`
	// Do is the fix, of the user or of the machine's administrator. Instead is what is used without it.
	Do      string `json:"do,omitempty"`
	Instead string `json:"instead,omitempty"`
}

// Command returns `slipway doctor`.
func Command(s *session.Settings) *cobra.Command {
	var offline bool
	var folders run.CacheFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the server and this machine, and suggest fixes",
		Long: `Check what the commands need, and suggest fixes: the server, its version, the
login and the clock; the cache of environments; and for ` + "`slipway run`" + `, what the
kernel of this machine allows: user namespaces, mounts, FUSE, EROFS.

Each finding states what its user or an administrator can do, and what is used
without it. The exit code is 1 if a check fails; warnings do not count.`,
		Example: `  slipway doctor
  slipway doctor --offline -o json`,
		Args: usage.Exactly(0),
	}
	cmd.Flags().BoolVar(&offline, "offline", false, "Check only this machine.")
	folders.Add(cmd)
	format := output.Flag(cmd, map[string]any{"findings": []finding{}})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var all []finding
		if !offline {
			all = serverFindings(cmd.Context(), s)
		}
		all = append(all, cacheFindings(folders)...)
		for _, f := range sandbox.Check() {
			all = append(all, fromMachine(f))
		}
		return report(cmd, format, all)
	}
	return cmd
}

// fromMachine converts a finding about the kernel.
func fromMachine(f sandbox.Finding) finding {
	out := finding{Check: f.What, State: ok, Text: f.Detail, Do: f.Advice, Instead: f.Instead}
	switch {
	case f.OK && f.Detail == "":
		out.Text = "allowed"
	case !f.OK && f.Required:
		out.State = fail
	case !f.OK:
		out.State = warn
	}
	return out
}

// report prints the findings. It returns an error if a check failed.
func report(cmd *cobra.Command, format *output.Format, all []finding) error {
	raw, err := json.Marshal(map[string]any{"findings": all})
	if err != nil {
		return fmt.Errorf("printing the findings: %w", err)
	}
	t := output.Table{{"CHECK", "STATE", "RESULT"}}
	failed := 0
	for _, f := range all {
		t = append(t, []string{f.Check, string(f.State), f.Text})
		if f.State == fail {
			failed++
		}
		if format.Kind == "name" {
			continue
		}
		if f.Do != "" {
			t = append(t, []string{"", "", "-> " + f.Do})
		}
		if f.Instead != "" {
			t = append(t, []string{"", "", "instead: " + f.Instead})
		}
	}
	if err := format.Print(cmd.OutOrStdout(), raw, t); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d checks failed; each states what to do", failed, len(all))
	}
	return nil
}

// serverFindings checks the server and the login.
func serverFindings(ctx context.Context, s *session.Settings) []finding {
	c, err := s.Client()
	if err != nil {
		return []finding{{Check: "server", State: fail, Text: err.Error(), Do: "correct the settings"}}
	}
	e := examination{client: c, version: s.Version}
	return e.run(ctx)
}
