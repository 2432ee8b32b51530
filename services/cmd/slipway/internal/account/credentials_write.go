package account

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/prompt"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// registryProvider is the provider of logins that the server itself uses.
const registryProvider = "container-reg"

// credentialsFlags are the flags of stored credentials.
type credentialsFlags struct {
	password                                  prompt.Secret
	registry, username, description, provider string
	keysFile                                  string
	// ask prompts for the password; unseen stores a login without trying it.
	ask, unseen bool
	channel     channelFlags
}

func (f *credentialsFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.registry, "registry", "", "The `registry` that the login is for: its host, or host/path (default: docker.io).")
	flags.StringVarP(&f.username, "username", "u", "", "The `name` to log in with.")
	flags.StringVar(&f.description, "description", "", "A description.")
	f.password = prompt.Secret{What: "password"}
	f.password.Add(cmd)
	flags.StringVar(&f.keysFile, "keys-file", "", "A `file` with a JSON object of keys, for other providers; - for standard input.")
	flags.BoolVar(&f.unseen, "no-verify", false, "Store the login without trying it at the registry.")
	for _, name := range []string{"registry", "username", "description"} {
		usage.CompleteFlag(cmd, name)
	}
}

// spec returns the values of the given flags.
func (f *credentialsFlags) spec(cmd *cobra.Command, d *prompt.Dialogue) (*platformv1.CredentialsSpec, error) {
	spec := &platformv1.CredentialsSpec{Keys: &structpb.Struct{Fields: map[string]*structpb.Value{}}}
	if cmd.Flags().Changed("description") {
		spec.Description = &f.description
	}
	if f.keysFile != "" {
		if cmd.Flags().Changed("registry") || cmd.Flags().Changed("username") || f.password.IsSet() {
			return nil, usage.Errorf("--keys-file holds all keys; --registry, --username and the password are for %s", registryProvider)
		}
		return spec, f.readKeys(d, spec.GetKeys())
	}
	for name, value := range map[string]string{"registry": f.registry, "username": f.username} {
		if !cmd.Flags().Changed(name) {
			continue
		}
		if name == "username" {
			name = "userName"
		}
		spec.Keys.Fields[name] = structpb.NewStringValue(value)
	}
	if f.channel.address != "" {
		f.channel.into(spec.GetKeys())
	}
	if !f.ask && !f.password.IsSet() {
		return spec, nil
	}
	password, err := f.password.Read(d, "Password")
	spec.Keys.Fields["password"] = structpb.NewStringValue(password)
	return spec, err
}

// complete returns an error if new credentials lack a value.
func (f *credentialsFlags) complete() error {
	switch isRegistry := f.provider == registryProvider; {
	case f.channel.address != "":
		return nil // already validated
	case f.keysFile != "":
		return nil
	case !isRegistry:
		return usage.Errorf("--keys-file is needed for the provider %s", f.provider)
	case f.username == "":
		return usage.Errorf("--username is needed")
	}
	return nil
}

func (f *credentialsFlags) readKeys(d *prompt.Dialogue, into *structpb.Struct) error {
	text, err := (&prompt.Secret{What: "keys", File: f.keysFile}).Read(d, "")
	if err != nil {
		return err
	}
	keys := map[string]any{}
	if json.Unmarshal([]byte(text), &keys) != nil { // the decoder's error would show a part of the secret
		return fmt.Errorf("reading the keys: %s does not hold a JSON object", f.keysFile)
	}
	made, err := structpb.NewStruct(keys)
	if err != nil {
		return errors.New("reading the keys: they are not plain JSON")
	}
	into.Fields = made.GetFields()
	return nil
}

func credentialsAddCommand(s *session.Settings) *cobra.Command {
	f := credentialsFlags{ask: true}
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Store a login for a registry or a Conda channel",
		Long: `Store a registry login at the server, which encrypts it. Its id is printed.

The command prompts for the password, or reads it with --password-stdin or
--password-file. A login for a path of a registry, such as quay.io/team, is used
below that path; the longest matching path wins. With --workspace all members of
the workspace use it.

The server tries the login before it is stored, and uses it from then on.

With --channel the login is for a private Conda channel: a user name with its
password (--username), a token that is part of addresses (--token-in-path), or
a bearer token (--bearer). Tokens are read like passwords. The server tests the
login by reading the channel, and removes it if the channel refuses it. If the
channel cannot be read at the moment, the login is stored without the test, and
the command prints that.

--provider and --keys-file store credentials that the server does not use itself.`,
		Example: `  slipway credentials add quay --registry quay.io --username team+robot
  pass show quay | slipway credentials add quay --registry quay.io -u team+robot --password-stdin
  slipway credentials add lab --channel https://conda.example.org/lab --bearer
  slipway credentials add cloud --provider aws --keys-file keys.json`,
		Args:              usage.Exactly(1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.provider, "provider", registryProvider, "What the keys are for; all but "+registryProvider+" need --keys-file.")
	usage.CompleteFlag(cmd, "provider", registryProvider)
	f.channel.add(cmd)
	workspace := session.WorkspaceFlag(cmd, s, "to store it in")
	format := output.Flag(cmd, &platformv1.CreateCredentialsResponse{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.readChannel(cmd); err != nil {
			return err
		}
		if err := f.complete(); err != nil {
			return err
		}
		c, query, err := s.Within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		spec, err := f.spec(cmd, prompt.New(cmd))
		if err != nil {
			return err
		}
		spec.Name, spec.Provider = &args[0], &f.provider
		tried, err := f.try(cmd.Context(), c, spec, nil)
		if err != nil {
			return err
		}
		var res platformv1.CreateCredentialsResponse
		what := session.Call{Method: http.MethodPost, Path: "/api/credentials", Query: query, Signed: true, Body: &platformv1.CredentialsBody{Credentials: spec}}
		raw, err := c.Do(cmd.Context(), what, &res)
		if err != nil {
			return fmt.Errorf("storing the credentials %s: %w", args[0], err)
		}
		if err := f.tryChannel(cmd, c, query, args[0], res.GetCredentialsId()); err != nil {
			return err
		}
		printTested(cmd, tried, query)
		return format.Print(cmd.OutOrStdout(), raw, output.Table{{res.GetCredentialsId()}})
	}
	return cmd
}

func credentialsUpdateCommand(s *session.Settings) *cobra.Command {
	var f credentialsFlags
	var name string
	cmd := &cobra.Command{
		Use:   "update ID|NAME",
		Short: "Change credentials; values without a flag stay as they are",
		Long: `Change credentials; values without a flag stay as they are.

Another registry needs its password: give --registry together with --password,
--password-stdin or --password-file. Changed logins for Conda channels are not
tested.`,
		Example: `  slipway credentials update quay --password
  slipway credentials update quay --name quay-robot --username team+robot2 --password-file new`,
		Args: usage.Exactly(1),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.ask, "password", false, "Ask for a new password.")
	cmd.Flags().StringVar(&name, "name", "", "The new name.")
	usage.CompleteFlag(cmd, "name")
	workspace := session.WorkspaceFlag(cmd, s, "to look in")
	cmd.ValidArgsFunction = completeCredentials(s, workspace)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, query, err := s.Within(cmd.Context(), *workspace)
		if err != nil {
			return err
		}
		spec, err := f.spec(cmd, prompt.New(cmd))
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("name") {
			spec.Name = &name
		}
		if isEmpty(spec) {
			return usage.Errorf("no change was requested; give at least one flag")
		}
		kept, err := storedCredentials(cmd.Context(), c, query, args[0])
		if err != nil {
			return err
		}
		tried, err := f.try(cmd.Context(), c, spec, kept)
		if err != nil {
			return err
		}
		what := session.Call{Method: http.MethodPut, Path: "/api/credentials/" + kept.GetId(), Query: query, Signed: true, Body: &platformv1.CredentialsBody{Credentials: spec}}
		if _, err := c.Do(cmd.Context(), what, nil); err != nil {
			return fmt.Errorf("changing the credentials %s: %w", args[0], err)
		}
		printTested(cmd, tried, query)
		if kept.GetProvider() == channelProvider && len(spec.GetKeys().GetFields()) > 0 {
			cmd.PrintErrln("The changed login was not tested: a lock or a request with packages of the channel shows whether it is accepted.")
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "Changed credentials %s.\n", output.Printable(args[0]))
		return err
	}
	return cmd
}

func isEmpty(spec *platformv1.CredentialsSpec) bool {
	return spec.Name == nil && spec.Description == nil && len(spec.GetKeys().GetFields()) == 0
}
