package session

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/prompt"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Login returns `slipway login`.
func Login(s *Settings) *cobra.Command {
	secret := prompt.Secret{What: "token"}
	var web, device bool
	cmd := &cobra.Command{
		Use:   "login",
		Short: "Sign in to a server, and stay signed in",
		Long: `Sign in to a server, and stay signed in.

It prompts for the server and for an access token, which is not shown while it is
typed. The token is tried, and stored in $XDG_CONFIG_HOME/slipway/logins.json
(~/.config/slipway/logins.json), which only you can read. From then on every
command uses that server and that token, unless overridden by --server, --context,
--token-file or their variables. A token is only sent to its own server.

Without a terminal, give the server with --server and the token with --token-stdin
or --token-file.

Two ways work without copying a token: with --web a page of the server signs you in, in a
browser on this machine; with --device, as on a cluster's login node, you enter a
code in a browser on any other. Both create an access token for this machine,
which is stored in the same file. An empty answer to the prompt for a token is --device.`,
		Example: `  slipway login
  slipway login --server https://slipway.example.org --web
  slipway login --server https://slipway.example.org --device
  slipway login --server http://localhost:9090 --token-file data/admin-token
  pass show slipway | slipway login --server https://slipway.example.org --token-stdin`,
		Args:              usage.Exactly(0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	secret.Add(cmd)
	cmd.Flags().BoolVar(&web, "web", false, "Sign in with a browser on this machine.")
	cmd.Flags().BoolVar(&device, "device", false, "Sign in with a browser on another machine.")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if web && device {
			return usage.Errorf("--web and --device cannot be used together; give one")
		}
		if (web || device) && secret.IsSet() {
			return usage.Errorf("--web and --device create a token; do not give one")
		}
		d := prompt.New(cmd)
		base, err := s.chooseServer(d, web || device || secret.IsSet())
		if err != nil {
			return err
		}
		token, err := s.newLogin(cmd, base, d, signInMethod{web, device, secret})
		if err != nil {
			return err
		}
		return s.signIn(cmd, base, token)
	}
	return cmd
}

// signInMethod holds the flags that select how to sign in.
type signInMethod struct {
	web, device bool
	secret      prompt.Secret // if neither is set
}

// newLogin returns the token to sign in with.
func (s *Settings) newLogin(cmd *cobra.Command, base *url.URL, d *prompt.Dialogue, w signInMethod) (string, error) {
	switch {
	case w.web:
		return s.signInOnTheWeb(cmd, base)
	case w.device:
		return s.signInWithDevice(cmd, base)
	}
	token, err := w.secret.Read(d, "Access token, or nothing to enter a code in a browser")
	if errors.Is(err, prompt.ErrNothing) && !w.secret.IsSet() {
		return s.signInWithDevice(cmd, base)
	}
	return token, err
}

// chooseServer returns the server to sign in to. It prompts for it if there is a terminal and
// no flag.
func (s *Settings) chooseServer(d *prompt.Dialogue, quiet bool) (*url.URL, error) {
	_, used, err := s.current()
	if err != nil {
		return nil, err
	}
	isChosen := s.server != "" || s.context != "" || s.envServer != "" || s.envContext != ""
	if isChosen || quiet || !d.IsAvailable() {
		return used.base, nil
	}
	server, err := d.Ask("Server", used.base.String())
	if err != nil {
		return nil, err
	}
	return parseServer(cmp.Or(server, used.base.String()))
}

// signIn tries a token and stores it.
func (s *Settings) signIn(cmd *cobra.Command, base *url.URL, token string) error {
	if ip := net.ParseIP(base.Hostname()); base.Scheme == "http" && base.Hostname() != "localhost" && !ip.IsLoopback() {
		cmd.PrintErrln("slipway: the token goes to", output.Printable(base.Redacted()), "unencrypted; use https beyond this machine")
	}
	user, err := s.clientOf(base, token).whoAmI(cmd.Context())
	if err != nil {
		return fmt.Errorf("signing in: %w", err)
	}
	kept, err := readLogins(s.logins)
	if err != nil {
		return err
	}
	if kept.Logins == nil {
		kept.Logins = map[string]login{}
	}
	kept.Server = serverKey(base)
	kept.Logins[kept.Server] = login{Token: token, User: user.GetUserName()}
	if err := kept.write(s.logins); err != nil {
		return err
	}
	if s.token != "" {
		cmd.PrintErrln("slipway: SLIPWAY_TOKEN is set, and takes precedence over the login")
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "Signed in to %s as %s.\n", output.Printable(kept.Server), output.Printable(user.GetUserName()))
	return err
}

// Logout returns `slipway logout`.
func Logout(s *Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "logout",
		Short: "Delete the stored access token of a server",
		Long: `Delete the stored access token of a server: the one that commands use, or that of
--server or --context.

The token itself stays valid for other uses; ` + "`slipway tokens delete`" + `
ends it.`,
		Example:           "  slipway logout\n  slipway logout --server https://slipway.example.org",
		Args:              usage.Exactly(0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			kept, used, err := s.current()
			if err != nil {
				return err
			}
			key := serverKey(used.base)
			if _, ok := kept.Logins[key]; !ok {
				return fmt.Errorf("you are not signed in to %s", output.Printable(key))
			}
			delete(kept.Logins, key)
			if kept.Server == key {
				kept.Server = ""
			}
			if err := kept.write(s.logins); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Signed out of %s.\n", output.Printable(key))
			return err
		},
	}
}

// Whoami returns `slipway whoami`.
func Whoami(s *Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "whoami",
		Short:             "Show who you are to the server",
		Example:           "  slipway whoami\n  slipway whoami -o json",
		Args:              usage.Exactly(0),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := output.Flag(cmd, &platformv1.GetUserInfoResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *Client, _ []string) error {
		var res platformv1.GetUserInfoResponse
		raw, err := c.Do(cmd.Context(), Call{Method: http.MethodGet, Path: "/api/user-info", Signed: true}, &res)
		if err != nil {
			return fmt.Errorf("asking who you are: %w", err)
		}
		u := res.GetUser()
		var t output.Table
		t.Fact("Server", c.Base.Redacted())
		t.Fact("User", u.GetUserName())
		t.Fact("Name", u.GetFirstName()+" "+u.GetLastName())
		t.Fact("E-mail", u.GetEmail())
		t.Fact("Organisation", u.GetOrganization())
		t.Fact("Id", output.Tallied(u.GetId()))
		return format.Print(cmd.OutOrStdout(), raw, t)
	})
	return cmd
}
