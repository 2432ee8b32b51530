package account

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// channelProvider is the provider of credentials for Conda channels.
const channelProvider = "conda"

// channelFlags holds the flags for a login to a Conda channel.
type channelFlags struct {
	// address is the address of the channel, and place its host and path.
	address, place      string
	tokenInPath, bearer bool
	username            string
}

func (f *channelFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.address, "channel", "", "The `address` of the private Conda channel of the login.")
	flags.BoolVar(&f.tokenInPath, "token-in-path", false, "Send the token in the path of addresses (/t/TOKEN/).")
	flags.BoolVar(&f.bearer, "bearer", false, "Send the token as a bearer token.")
	usage.CompleteFlag(cmd, "channel")
}

// readChannel checks the flags of a login for a channel.
func (f *credentialsFlags) readChannel(cmd *cobra.Command) error {
	c := &f.channel
	if c.address == "" {
		if c.tokenInPath || c.bearer {
			return usage.Errorf("--token-in-path and --bearer require --channel")
		}
		return nil
	}
	for _, name := range []string{"registry", "provider", "keys-file"} {
		if cmd.Flags().Changed(name) {
			return usage.Errorf("--channel and --%s exclude each other", name)
		}
	}
	ways := 0
	for _, is := range []bool{f.username != "", c.tokenInPath, c.bearer} {
		if is {
			ways++
		}
	}
	if ways != 1 {
		return usage.Errorf("--channel needs one of --username, --token-in-path and --bearer")
	}
	at, err := url.Parse(c.address)
	if err != nil || at.Host == "" || at.User != nil || at.RawQuery != "" || at.Fragment != "" || strings.HasPrefix(at.Path, "/t/") || at.Scheme != "https" && at.Scheme != "http" && at.Scheme != "oci" {
		return usage.Errorf("--channel must be an address such as https://conda.example.org/lab or oci://ghcr.io/team/lab, without a login")
	}
	if at.Scheme == "oci" && f.username == "" {
		return usage.Errorf("a channel in a registry needs --username, and a token as the password if the registry issues tokens")
	}
	switch {
	case c.tokenInPath:
		c.username = "token"
	case c.bearer:
		c.username = "bearer"
	default:
		c.username = f.username
		if c.username == "token" || c.username == "bearer" {
			return usage.Errorf("the user name %s is reserved for tokens: use --token-in-path or --bearer", c.username)
		}
	}
	c.place, f.provider = at.Host+strings.TrimRight(at.Path, "/"), channelProvider
	return nil
}

// into sets the keys of the login.
func (f *channelFlags) into(keys *structpb.Struct) {
	keys.Fields["registry"], keys.Fields["userName"] = structpb.NewStringValue(f.place), structpb.NewStringValue(f.username)
}

// tryChannel makes the server read the channel with the stored login. It deletes the login if
// the channel refuses it, and keeps it if the channel cannot be read at the moment.
func (f *credentialsFlags) tryChannel(cmd *cobra.Command, c *session.Client, query url.Values, name, id string) error {
	if f.channel.address == "" || f.unseen {
		return nil
	}
	ask := url.Values{"q": {"a"}, "max": {"1"}, "channel": {f.channel.address}}
	for name, values := range query { // the workspace
		ask[name] = values
	}
	read := func() error {
		_, err := c.Do(cmd.Context(), session.Call{Method: http.MethodGet, Path: "/v1alpha1/conda/packages", Query: ask, Signed: true}, nil)
		return err
	}
	err := read()
	if err != nil { // another replica may see the new login with a delay
		select {
		case <-cmd.Context().Done():
		case <-time.After(2 * time.Second):
		}
		err = read()
	}
	if err == nil {
		cmd.PrintErrf("The server has read %s with the login, and uses it from now on, %s.\n", output.Printable(f.channel.address), audience(query))
		return nil
	}
	if !isRefusal(err) && cmd.Context().Err() == nil {
		cmd.PrintErrf("The login is stored and used from now on, but it could not be tested: reading %s with it: %s. If it turns out to be wrong, delete it with `slipway credentials delete %s`, and add it again.\n",
			output.Printable(f.channel.address), err, output.Printable(name))
		return nil
	}
	what := session.Call{Method: http.MethodDelete, Path: "/api/credentials/" + url.PathEscape(id), Query: query, Signed: true}
	if _, failed := c.Do(context.WithoutCancel(cmd.Context()), what, nil); failed != nil {
		return fmt.Errorf("reading %s with the login: %w; the login is stored as %s and could not be removed: %w", f.channel.address, err, id, failed)
	}
	return fmt.Errorf("reading %s with the login: %w; the login was removed: correct it, or store it without the test with --no-verify", f.channel.address, err)
}

// audience returns for whom a login is used that was stored with a query.
func audience(query url.Values) string {
	if query.Get("workspaceId") != "" {
		return "for all participants of the workspace"
	}
	return "on your behalf only"
}

// isRefusal reports whether the channel refuses a login, or does not exist. Other failures are
// temporary, or not of the channel.
func isRefusal(err error) bool {
	no, ok := errors.AsType[*session.Refused](err)
	return ok && no.Response != nil && no.Response.Code == "conda.channel" && (no.Status == http.StatusBadRequest || no.Status == http.StatusForbidden)
}
