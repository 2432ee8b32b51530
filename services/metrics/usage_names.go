package metrics

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/wrapperspb"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
	usagev1 "slipway.dev/proto/gen/slipway/usage/v1"

	"slipway.dev/services/internal/limits"
)

// names holds the names of users, workspaces and organisations that the platform knows.
type names struct {
	platform    Platform
	users, orgs map[int64]string
	workspaces  map[int64]*platformv1.WorkspaceName
}

// addWorkspaces reads the names of the groups' workspaces, with their organisations.
func (n *names) addWorkspaces(ctx context.Context, groups []usageGroup) error {
	return n.read(ctx, idsOf(groups, func(g usageGroup) int64 { return g.workspace }), func(ids []int64) *platformv1.DescribeNamesRequest {
		return &platformv1.DescribeNamesRequest{WorkspaceIds: ids}
	})
}

// add reads the names of the groups' users and organisations.
func (n *names) add(ctx context.Context, groups []usageGroup) error {
	err := n.read(ctx, idsOf(groups, func(g usageGroup) int64 { return g.user }), func(ids []int64) *platformv1.DescribeNamesRequest {
		return &platformv1.DescribeNamesRequest{UserIds: ids}
	})
	if err != nil {
		return err
	}
	return n.read(ctx, idsOf(groups, func(g usageGroup) int64 { return g.org }), func(ids []int64) *platformv1.DescribeNamesRequest {
		return &platformv1.DescribeNamesRequest{OrgIds: ids}
	})
}

// idsOf returns the ids of groups, each once, without 0.
func idsOf(groups []usageGroup, id func(usageGroup) int64) []int64 {
	all := map[int64]bool{}
	for _, g := range groups {
		all[id(g)] = true
	}
	delete(all, 0)
	return slices.Sorted(maps.Keys(all))
}

// read reads the names of ids, with as many calls as needed.
func (n *names) read(ctx context.Context, ids []int64, request func([]int64) *platformv1.DescribeNamesRequest) error {
	for part := range slices.Chunk(ids, limits.DescribedNames) {
		resp, err := n.platform.DescribeNames(ctx, request(part))
		if err != nil {
			return fmt.Errorf("reading the names of a report: %w", err)
		}
		n.users, n.orgs, n.workspaces = merged(n.users, resp.GetUsers()), merged(n.orgs, resp.GetOrgs()), merged(n.workspaces, resp.GetWorkspaces())
	}
	return nil
}

func merged[V any](into, more map[int64]V) map[int64]V {
	if into == nil {
		return more
	}
	maps.Copy(into, more)
	return into
}

// row returns a group with its names.
func (n *names) row(g usageGroup) *usagev1.Usage {
	u := &usagev1.Usage{
		UserId: idValue(g.user), WorkspaceId: idValue(g.workspace), OrgId: idValue(g.org),
		Builds: float64(g.builds), BuildSeconds: float64(g.seconds), Pulls: float64(g.pulls), FilesystemPulls: float64(g.filesystemPulls),
		UserName: textValue(n.users[g.user]), WorkspaceName: textValue(n.workspaces[g.workspace].GetName()), OrgName: textValue(n.orgs[g.org]),
	}
	u.Day = textValue(g.day)
	return u
}

// idValue returns an id; nil for 0.
func idValue(id int64) *wrapperspb.DoubleValue {
	if id == 0 {
		return nil
	}
	return wrapperspb.Double(float64(id))
}

// textValue returns a string; nil for "".
func textValue(s string) *wrapperspb.StringValue {
	if s == "" {
		return nil
	}
	return wrapperspb.String(s)
}
