package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// maxContexts is the maximum number of contexts.
const maxContexts = 100

var contextForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
})

// A choice is the server that a command uses.
type choice struct {
	base   *url.URL
	source string // where it was chosen
}

// choose returns the server of a command: that of --server, of --context, of SLIPWAY_SERVER, of SLIPWAY_CONTEXT, that of `slipway config
// use` or of the last login, or the default.
func (s *Settings) choose(kept logins) (choice, error) {
	if s.server != "" && s.context != "" {
		return choice{}, usage.Errorf("--server and --context both name a server; give one")
	}
	var name, server, source string
	switch {
	case s.server != "":
		server, source = s.server, "--server"
	case s.context != "":
		name, source = s.context, "--context"
	case s.envServer != "":
		server, source = s.envServer, "SLIPWAY_SERVER"
	case s.envContext != "":
		name, source = s.envContext, "SLIPWAY_CONTEXT"
	case kept.Server != "":
		server, source = kept.Server, "the last `slipway login` or `slipway config use`"
	default:
		server, source = usualServer, "the default"
	}
	if name != "" {
		known, ok := kept.Contexts[name]
		if !ok {
			return choice{}, usage.Errorf("there is no context %.100q of %s; `slipway config list` shows those that exist, and `slipway config add NAME URL` adds one", name, source)
		}
		server = known
	}
	base, err := parseServer(server)
	return choice{base, source}, err
}

// current returns the stored logins, and the server of a command.
func (s *Settings) current() (logins, choice, error) {
	kept, err := readLogins(s.logins)
	if err != nil {
		return kept, choice{}, err
	}
	used, err := s.choose(kept)
	return kept, used, err
}

// names returns the names of the contexts of a server, sorted.
func (l logins) names(key string) []string {
	var out []string
	for name, server := range l.Contexts {
		if server == key {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// completeContexts completes the names of contexts.
func (s *Settings) completeContexts(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	kept, err := readLogins(s.logins)
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []cobra.Completion
	for _, name := range slices.Sorted(maps.Keys(kept.Contexts)) {
		out = append(out, CompleteFlag(name, kept.Contexts[name]))
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// Config returns `slipway config`.
func Config(s *Settings) *cobra.Command {
	cmd := usage.Group("config", "Name the servers that you use, and choose one")
	cmd.Long = `Name the servers that you use, and choose one.

A context is a name for a server. Commands use the first of these servers:

  --server URL, or --context NAME
  SLIPWAY_SERVER
  SLIPWAY_CONTEXT
  the one of the last ` + "`slipway login` or `slipway config use`" + `
  ` + usualServer + `

The contexts are stored with the logins, in $XDG_CONFIG_HOME/slipway/logins.json
(~/.config/slipway/logins.json). Each server has its own login, of
` + "`slipway login --context NAME`" + `: a command sends the token of a login only to the server
of the login. With --context, SLIPWAY_TOKEN is only used if the server has no login.`
	cmd.Example = `  slipway config add work https://slipway.example.org
  slipway login --context work --web
  slipway config use work
  slipway builds --context work`
	cmd.AddCommand(configList(s), configUse(s), configAdd(s), configRemove(s), configShow(s))
	return cmd
}

// listedContext is a context in JSON.
type listedContext struct {
	Name   string `json:"name"`
	Server string `json:"server"`
	User   string `json:"user,omitempty"` // of the login
	// Current reports whether commands use it.
	Current bool `json:"current"`
}

func configList(s *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the contexts", Example: "  slipway config list", Args: usage.Exactly(0), ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := output.Flag(cmd, map[string]any{"contexts": []listedContext{}})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		kept, err := readLogins(s.logins)
		if err != nil {
			return err
		}
		current := ""
		if used, err := s.choose(kept); err == nil { // otherwise this command shows which contexts exist
			current = serverKey(used.base)
		}
		rows, t := []listedContext{}, output.Table{{"NAME", "SERVER", "USER", "CURRENT"}}
		for _, name := range slices.Sorted(maps.Keys(kept.Contexts)) {
			server := kept.Contexts[name]
			row := listedContext{name, server, kept.Logins[server].User, server == current}
			rows = append(rows, row)
			t = append(t, []string{name, server, cmp.Or(row.User, "-"), output.YesNo(&row.Current)})
		}
		raw, err := json.Marshal(map[string]any{"contexts": rows})
		if err != nil {
			return fmt.Errorf("printing the contexts: %w", err)
		}
		return format.List(cmd, raw, t, "No contexts yet. `slipway config add NAME URL` adds one.")
	}
	return cmd
}

// change changes the stored contexts, and prints what was done.
func (s *Settings) change(cmd *cobra.Command, change func(kept *logins) (string, error)) error {
	kept, err := readLogins(s.logins)
	if err != nil {
		return err
	}
	done, err := change(&kept)
	if err != nil {
		return err
	}
	if err := kept.write(s.logins); err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), output.Printable(done))
	return err
}

// context returns the server of a context.
func (l logins) context(name string) (string, error) {
	server, ok := l.Contexts[name]
	if !ok {
		return "", fmt.Errorf("there is no context %.100q; `slipway config list` shows those that exist", name)
	}
	return server, nil
}

func configUse(s *Settings) *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Use the server of a context from now on", Example: "  slipway config use work",
		Args: usage.Exactly(1), ValidArgsFunction: s.completeContexts,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.change(cmd, func(kept *logins) (string, error) {
				server, err := kept.context(args[0])
				if err != nil {
					return "", err
				}
				kept.Server = server
				for _, set := range [][2]string{{"SLIPWAY_SERVER", s.envServer}, {"SLIPWAY_CONTEXT", s.envContext}, {"SLIPWAY_TOKEN", s.token}} {
					switch {
					case set[1] == "":
					case set[0] == "SLIPWAY_TOKEN":
						cmd.PrintErrln("slipway: SLIPWAY_TOKEN is set, and is sent to this server instead of its login")
					default:
						cmd.PrintErrln("slipway: " + set[0] + " is set, and takes precedence over the context")
					}
				}
				return "Commands now use " + args[0] + ", " + server + ".", nil
			})
		},
	}
}

func configAdd(s *Settings) *cobra.Command {
	return &cobra.Command{
		Use: "add NAME URL", Short: "Add a context", Example: "  slipway config add work https://slipway.example.org",
		Args: usage.Exactly(2), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !contextForm().MatchString(args[0]) {
				return usage.Errorf("the name of a context must be up to 63 letters, digits, dots, hyphens and underscores, and begin with a letter or a digit, not %.100q", args[0])
			}
			base, err := parseServer(args[1])
			if err != nil {
				return err
			}
			if base.User != nil {
				return usage.Errorf("the server's URL must have no password; `slipway login` stores an access token")
			}
			return s.change(cmd, func(kept *logins) (string, error) {
				if server, ok := kept.Contexts[args[0]]; ok {
					return "", fmt.Errorf("the context %s exists, with the server %s; remove it with `slipway config remove %s`", args[0], output.Printable(server), args[0])
				}
				if len(kept.Contexts) >= maxContexts {
					return "", fmt.Errorf("there are %d contexts, which is the limit; remove one with `slipway config remove NAME`", len(kept.Contexts))
				}
				if kept.Contexts == nil {
					kept.Contexts = map[string]string{}
				}
				kept.Contexts[args[0]] = serverKey(base)
				return "Added " + args[0] + ", " + serverKey(base) + ".", nil
			})
		},
	}
}

func configRemove(s *Settings) *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove a context; the login of its server stays", Example: "  slipway config remove work",
		Args: usage.Exactly(1), ValidArgsFunction: s.completeContexts,
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.change(cmd, func(kept *logins) (string, error) {
				server, err := kept.context(args[0])
				if err != nil {
					return "", err
				}
				delete(kept.Contexts, args[0])
				if kept.Server == server {
					cmd.PrintErrln("slipway: commands still use", output.Printable(server)+"; choose another server with `slipway config use`")
				}
				return "Removed " + args[0] + ".", nil
			})
		},
	}
}

// shownConfig is what a command would use, in JSON.
type shownConfig struct {
	Server string `json:"server"`
	// Source is where the server was chosen.
	Source   string   `json:"source"`
	Contexts []string `json:"contexts"` // of the server
	User     string   `json:"user,omitempty"`
	// Token is where the access token is read from; "" for none.
	Token     string `json:"token,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	File      string `json:"file,omitempty"`
}

func configShow(s *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show", Short: "Show the server and the login that commands use, and where they are from", Example: "  slipway config show\n  slipway config show --context work",
		Args: usage.Exactly(0), ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := output.Flag(cmd, shownConfig{})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		kept, used, err := s.current()
		if err != nil {
			return err
		}
		key := serverKey(used.base)
		shown := shownConfig{
			Server: used.base.Redacted(), Source: used.source, Contexts: append([]string{}, kept.names(key)...), Workspace: s.workspace, File: s.logins,
		}
		switch login := kept.Logins[key]; {
		case s.tokenFile != "":
			shown.Token = s.tokenFile
		case s.token != "":
			shown.Token = "SLIPWAY_TOKEN"
		case login.Token != "":
			shown.Token, shown.User = "the login", login.User
		}
		raw, err := json.Marshal(shown)
		if err != nil {
			return fmt.Errorf("printing the settings: %w", err)
		}
		var t output.Table
		t.Fact("Server", shown.Server, "from "+shown.Source)
		t.Fact("Context", shown.Contexts...)
		t.Fact("User", shown.User)
		t.Fact("Access token", cmp.Or(shown.Token, "none"))
		t.Fact("Workspace", shown.Workspace)
		t.Fact("File", shown.File)
		return format.Print(cmd.OutOrStdout(), raw, t)
	}
	return cmd
}
