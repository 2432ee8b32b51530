package account

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
	"slipway.dev/services/cmd/slipway/internal/usage"
)

// Robots returns `slipway robots`.
func Robots(s *session.Settings) *cobra.Command {
	cmd := usage.Group("robots", "Manage robots: accounts of a workspace or an organisation without a person")
	cmd.AddCommand(robotsListCommand(s), robotsShowCommand(s), robotsCreateCommand(s), robotsUpdateCommand(s), robotsDeleteCommand(s), robotTokens(s))
	return cmd
}

// robotTokens returns `slipway robots tokens`.
func robotTokens(s *session.Settings) *cobra.Command {
	cmd := usage.Group("tokens", "List, create and delete the access tokens of a robot")
	cmd.AddCommand(robotTokensListCommand(s), robotTokensCreateCommand(s), robotTokensDeleteCommand(s))
	return cmd
}

// ownerOf returns the ids of ORGANISATION or ORGANISATION/WORKSPACE; workspace is "" for an organisation.
// Both names may also be ids, so that administrators of the server can name organisations that they do
// not belong to.
func ownerOf(ctx context.Context, c *session.Client, owner string) (org, workspace string, err error) {
	org, workspace, _ = strings.Cut(owner, "/")
	if isID(org) && (workspace == "" || isID(workspace)) { // before names, since a name may be a number
		return org, workspace, nil
	}
	_, list, err := c.Workspaces(ctx)
	if err != nil {
		return "", "", fmt.Errorf("looking for %s: %w", owner, err)
	}
	for _, w := range list {
		if w.GetWorkspaceId() == nil && strings.EqualFold(w.GetOrgName(), owner) {
			return output.Tallied(w.GetOrgId()), "", nil
		}
		if w.GetWorkspaceId() != nil && strings.EqualFold(session.FullWorkspace(w), owner) {
			return output.Tallied(w.GetOrgId()), output.Tallied(w.GetWorkspaceId().GetValue()), nil
		}
	}
	return "", "", fmt.Errorf("you have no organisation or workspace %s; `slipway workspaces` shows yours", owner)
}

// robotsOf returns the call for the robots of ORGANISATION or ORGANISATION/WORKSPACE.
func robotsOf(ctx context.Context, c *session.Client, owner string) (session.Call, error) {
	org, workspace, err := ownerOf(ctx, c, owner)
	return ownedCall(org, workspace, "robots"), err
}

func isID(text string) bool {
	id, err := strconv.ParseInt(text, 10, 64)
	return err == nil && id > 0
}

// ownedCall returns the call for what belongs to an organisation, or to one of its workspaces.
func ownedCall(org, workspace, what string) session.Call {
	call := session.Call{Path: "/api/orgs/" + org + "/" + what, Query: url.Values{}, Signed: true}
	if workspace != "" {
		call.Query.Set("workspaceId", workspace)
	}
	return call
}

// robots lists the robots of an owner. at is the call for them.
func robots(ctx context.Context, c *session.Client, owner string) (at session.Call, raw []byte, list []*platformv1.Robot, err error) {
	if at, err = robotsOf(ctx, c, owner); err != nil {
		return at, nil, nil, err
	}
	at.Method = http.MethodGet
	var res platformv1.ListRobotsResponse
	if raw, err = c.Do(ctx, at, &res); err != nil {
		return at, nil, nil, fmt.Errorf("listing the robots of %s: %w", owner, err)
	}
	return at, raw, res.GetRobots(), nil
}

// robotCall returns the call for the robot with a name or an id.
func robotCall(ctx context.Context, c *session.Client, owner, name string) (session.Call, error) {
	at, _, list, err := robots(ctx, c, owner)
	if err != nil {
		return at, err
	}
	id, err := idOf(list, name, "robot of "+owner+" called", robotNames)
	at.Path += "/" + id
	return at, err
}

// tokensOfRobot returns the call for the tokens of the robot with a name or an id.
func tokensOfRobot(ctx context.Context, c *session.Client, owner, name string) (session.Call, error) {
	at, err := robotCall(ctx, c, owner, name)
	at.Path += "/tokens"
	return at, err
}

func robotNames(r *platformv1.Robot) (id, name string) { return output.Tallied(r.GetId()), r.GetName() }

// listTokens lists the tokens of a robot. at is the call for them.
func listTokens(ctx context.Context, c *session.Client, owner, robot string) (at session.Call, raw []byte, list []*platformv1.TokenRecord, err error) {
	if at, err = tokensOfRobot(ctx, c, owner, robot); err != nil {
		return at, nil, nil, err
	}
	var res platformv1.ListRobotTokensResponse
	if raw, err = c.Do(ctx, at, &res); err != nil {
		return at, nil, nil, fmt.Errorf("listing the tokens of %s: %w", robot, err)
	}
	return at, raw, res.GetTokens(), nil
}

// completeRobots completes the owner, then a robot of the owner, then a token of the robot. most
// is the number of arguments that are completed.
func completeRobots(s *session.Settings, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return s.Completions(func(ctx context.Context, c *session.Client) (out []cobra.Completion, err error) {
			switch {
			case len(args) >= most:
				return nil, nil
			case len(args) == 0:
				_, list, err := c.Workspaces(ctx)
				for _, w := range list {
					name, id := w.GetOrgName(), w.GetOrgId()
					if w.GetWorkspaceId() != nil {
						name, id = session.FullWorkspace(w), w.GetWorkspaceId().GetValue()
					}
					out = append(out, session.CompleteFlag(name, output.Tallied(id)))
				}
				return out, err
			case len(args) == 1:
				_, _, list, err := robots(ctx, c, args[0])
				for _, r := range list {
					out = append(out, session.CompleteFlag(r.GetName(), r.GetRole()))
				}
				return out, err
			}
			_, _, list, err := listTokens(ctx, c, args[0], args[1])
			for _, t := range list {
				out = append(out, session.CompleteFlag(t.GetName(), strings.Join(t.GetScopes(), ",")))
			}
			return out, err
		})(cmd, args, prefix)
	}
}

func robotsListCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list ORGANISATION[/WORKSPACE]", Short: "List the robots of a workspace, or of an organisation", Args: usage.Exactly(1), ValidArgsFunction: completeRobots(s, 1),
		Example: "  slipway robots list lab/rnaseq\n  slipway robots list lab",
	}
	format := output.Flag(cmd, &platformv1.ListRobotsResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		_, raw, list, err := robots(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		t := output.Table{{"ID", "NAME", "ROLE", "CREATED BY", "CREATED", "LAST USED", "DESCRIPTION"}}
		for _, r := range list {
			t = append(t, []string{
				output.Tallied(r.GetId()), r.GetName(), r.GetRole(), r.GetCreatedBy(), output.FormatTime(r.GetDateCreated()), output.MomentOrNever(r.GetLastUsed()),
				cmp.Or(r.GetDescription(), "-"),
			})
		}
		return format.List(cmd, raw, t, "No robots yet. `slipway robots create "+args[0]+" NAME` creates one.")
	})
	return cmd
}

func robotTable(r *platformv1.Robot) output.Table {
	var t output.Table
	t.Fact("Id", output.Tallied(r.GetId()))
	t.Fact("Name", r.GetName())
	t.Fact("User name", r.GetUserName())
	t.Fact("Role", r.GetRole())
	t.Fact("Description", r.GetDescription())
	t.Fact("Created", output.FormatTime(r.GetDateCreated()))
	t.Fact("Created by", r.GetCreatedBy())
	t.Fact("Last used", output.MomentOrNever(r.GetLastUsed()))
	return t
}

func robotsShowCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ORGANISATION[/WORKSPACE] NAME|ID", Short: "Show a robot", Args: usage.Exactly(2), ValidArgsFunction: completeRobots(s, 2),
		Example: "  slipway robots show lab/rnaseq ci",
	}
	format := output.Flag(cmd, &platformv1.DescribeRobotResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		at, err := robotCall(cmd.Context(), c, args[0], args[1])
		if err != nil {
			return err
		}
		at.Method = http.MethodGet
		var res platformv1.DescribeRobotResponse
		raw, err := c.Do(cmd.Context(), at, &res)
		if err != nil {
			return fmt.Errorf("reading the robot %s: %w", args[1], err)
		}
		return format.Print(cmd.OutOrStdout(), raw, robotTable(res.GetRobot()))
	})
	return cmd
}

func robotsUpdateCommand(s *session.Settings) *cobra.Command {
	var role, description string
	cmd := &cobra.Command{
		Use: "update ORGANISATION[/WORKSPACE] NAME|ID", Short: "Change the role or the description of a robot",
		Long: `Change the role or the description of a robot. What no flag names stays as it is.

A new role applies to the next call of each token of the robot; a running build
keeps its logins until it ends. With the role connect or view, the tokens get no
logins and report no runs. Their scopes decide what else they may
do, such as requesting images: use "slipway robots tokens delete" to stop a token.`,
		Args: usage.Exactly(2), ValidArgsFunction: completeRobots(s, 2),
		Example: "  slipway robots update lab/rnaseq ci --role view\n  slipway robots update lab/rnaseq ci --description 'Pulls images for the cluster'",
	}
	cmd.Flags().StringVar(&role, "role", "", "The new role: launch, connect or view (only launch uses logins and reports runs).")
	usage.CompleteFlag(cmd, "role", "launch", "connect", "view")
	cmd.Flags().StringVar(&description, "description", "", `The new description; "" removes it.`)
	format := output.Flag(cmd, &platformv1.UpdateRobotResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		change := &platformv1.RobotChange{}
		if cmd.Flags().Changed("role") {
			change.Role = &role
		}
		if cmd.Flags().Changed("description") {
			change.Description = &description
		}
		if change.Role == nil && change.Description == nil {
			return usage.Errorf("no change was requested: use --role or --description")
		}
		at, err := robotCall(cmd.Context(), c, args[0], args[1])
		if err != nil {
			return err
		}
		at.Method, at.Body = http.MethodPut, change
		var res platformv1.UpdateRobotResponse
		raw, err := c.Do(cmd.Context(), at, &res)
		if err != nil {
			return fmt.Errorf("changing the robot %s: %w", args[1], err)
		}
		return format.Print(cmd.OutOrStdout(), raw, robotTable(res.GetRobot()))
	})
	return cmd
}

func robotsCreateCommand(s *session.Settings) *cobra.Command {
	var role, description string
	cmd := &cobra.Command{
		Use: "create ORGANISATION[/WORKSPACE] NAME", Short: "Create a robot",
		Long: `Create a robot, for CI, a cluster or another program.

A robot is an account of a workspace or an organisation, and of no person: it cannot
sign in, and keeps working when the user who created it leaves. It acts with access
tokens, which ` + "`slipway robots tokens create`" + ` creates, only in its workspace, or in the
workspaces of its organisation.`,
		Args: usage.Exactly(2), ValidArgsFunction: completeRobots(s, 1),
		Example: "  slipway robots create lab/rnaseq ci\n  slipway robots tokens create lab/rnaseq ci cluster --scope pull,request,build > ci-token\n  slipway robots create lab reports --role view",
	}
	cmd.Flags().StringVar(&role, "role", "", "The role: launch, connect or view (default: launch, which uses the workspace's logins and reports runs).")
	usage.CompleteFlag(cmd, "role", "launch", "connect", "view")
	cmd.Flags().StringVar(&description, "description", "", "A description for the lists of robots.")
	format := output.Flag(cmd, &platformv1.CreateRobotResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		at, err := robotsOf(cmd.Context(), c, args[0])
		if err != nil {
			return err
		}
		at.Method, at.Body = http.MethodPost, &platformv1.RobotSpec{Name: args[1], Role: role, Description: description}
		var res platformv1.CreateRobotResponse
		raw, err := c.Do(cmd.Context(), at, &res)
		if err != nil {
			return fmt.Errorf("creating the robot %s: %w", args[1], err)
		}
		return format.Print(cmd.OutOrStdout(), raw, output.Table{{"Created", res.GetRobot().GetUserName()}})
	})
	return cmd
}

func robotsDeleteCommand(s *session.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "delete ORGANISATION[/WORKSPACE] NAME|ID...", Short: "Delete robots with their tokens, effective immediately", Args: usage.AtLeast(2), ValidArgsFunction: completeRobots(s, 2),
		RunE: s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
			at, _, list, err := robots(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return removeEach(cmd, c, at, "robot", args[1:], func(name string) (string, error) { return idOf(list, name, "robot of "+args[0]+" called", robotNames) })
		}),
	}
}

// removeEach deletes the objects with these names or ids, below the path of a call. In messages, what is
// the kind of the objects.
func removeEach(cmd *cobra.Command, c *session.Client, at session.Call, what string, names []string, id func(name string) (string, error)) error {
	for _, name := range names {
		one, err := id(name)
		if err != nil {
			return err
		}
		if err := c.Remove(cmd, session.Call{Path: at.Path + "/" + one, Query: at.Query}, what+" "+name); err != nil {
			return err
		}
	}
	return nil
}

func robotTokensListCommand(s *session.Settings) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list ORGANISATION[/WORKSPACE] ROBOT", Short: "List the access tokens of a robot", Args: usage.Exactly(2), ValidArgsFunction: completeRobots(s, 2),
		Example: "  slipway robots tokens list lab/rnaseq ci",
	}
	format := output.Flag(cmd, &platformv1.ListRobotTokensResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		_, raw, list, err := listTokens(cmd.Context(), c, args[0], args[1])
		if err != nil {
			return err
		}
		t := output.Table{{"ID", "NAME", "SCOPES", "REPOSITORIES", "CREATED", "LAST USED", "FROM", "EXPIRES"}}
		for _, r := range list {
			t = append(t, []string{
				output.Tallied(r.GetId()), r.GetName(), strings.Join(r.GetScopes(), ","), cmp.Or(strings.Join(r.GetRepositories(), ","), "all"), output.FormatTime(r.GetDateCreated()), output.MomentOrNever(r.GetLastUsed()),
				cmp.Or(r.GetLastAddress().GetValue(), "-"), output.MomentOrNever(r.GetExpires()),
			})
		}
		return format.List(cmd, raw, t, "No tokens yet. `slipway robots tokens create` creates one.")
	})
	return cmd
}

func robotTokensCreateCommand(s *session.Settings) *cobra.Command {
	var scopes, repositories []string
	cmd := &cobra.Command{
		Use: "create ORGANISATION[/WORKSPACE] ROBOT NAME", Short: "Create an access token for a robot and print it, this once",
		Long: `Create an access token for a robot and print it, this once.

Only the token is printed. --scope is required; ` + "`slipway tokens create --help`" + `
explains the scopes and --repository.`,
		Args: usage.Exactly(3), ValidArgsFunction: completeRobots(s, 2),
		Example: "  slipway robots tokens create lab/rnaseq ci cluster --scope pull,request,build > ci-token",
	}
	expires := expiryFlag(cmd)
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "What the token may be used for; can be repeated.")
	usage.CompleteFlag(cmd, "scope", scopeNames()...)
	repositoryFlag(cmd, &repositories)
	format := output.Flag(cmd, &platformv1.CreateRobotTokenResponse{})
	cmd.RunE = s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
		if len(scopes) == 0 {
			return usage.Errorf("--scope is missing: what the token may be used for, e.g. --scope pull,request,build")
		}
		at, err := tokensOfRobot(cmd.Context(), c, args[0], args[1])
		if err != nil {
			return err
		}
		at.Method, at.Body = http.MethodPost, &platformv1.RobotTokenSpec{Name: args[2], Scopes: scopes, Repositories: repositories, Expires: expires()}
		var res platformv1.CreateRobotTokenResponse
		raw, err := c.Do(cmd.Context(), at, &res)
		if err != nil {
			return fmt.Errorf("creating the token %s: %w", args[2], err)
		}
		return format.Print(cmd.OutOrStdout(), raw, output.Table{{res.GetAccessKey()}})
	})
	return cmd
}

func robotTokensDeleteCommand(s *session.Settings) *cobra.Command {
	return &cobra.Command{
		Use: "delete ORGANISATION[/WORKSPACE] ROBOT ID|NAME...", Short: "Delete access tokens of a robot, effective immediately", Args: usage.AtLeast(3), ValidArgsFunction: completeRobots(s, 3),
		RunE: s.WithClient(func(cmd *cobra.Command, c *session.Client, args []string) error {
			at, _, list, err := listTokens(cmd.Context(), c, args[0], args[1])
			if err != nil {
				return err
			}
			return removeEach(cmd, c, at, "token", args[2:], func(name string) (string, error) {
				return idOf(list, name, "token of "+args[1]+" called", func(r *platformv1.TokenRecord) (string, string) { return output.Tallied(r.GetId()), r.GetName() })
			})
		}),
	}
}
