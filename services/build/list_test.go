package build_test

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
)

// member is a platform with one user.
type member struct {
	platformv1.AccessServiceClient
	user *platformv1.Identity
}

func (m member) Authorize(context.Context, *platformv1.AuthorizeRequest, ...grpc.CallOption) (*platformv1.AuthorizeResponse, error) {
	return &platformv1.AuthorizeResponse{Identity: m.user}, nil
}

// TestTotalOfBuilds checks the number of a user's builds in lists of them: it is exact up to a limit, and never smaller than
// what a page shows.
func TestTotalOfBuilds(t *testing.T) {
	t.Parallel()
	ada := &platformv1.Identity{Endpoint: "e", UserId: 7}
	p := newDeployment(t, testkit.SQLite(t))
	p.platform = member{user: ada}
	r := p.replica(t, 100)
	newWorker(t, p, 2)
	list := func(page, size int32, want, total int) {
		t.Helper()
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer ada")
		got, err := r.ListBuilds(ctx, &buildv1.ListBuildsRequest{Page: page, PageSize: size})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.GetBuilds()) != want || int(got.GetTotalSize()) != total {
			t.Errorf("page %d of %d builds has %d, and the total is %d instead of %d", page, size, len(got.GetBuilds()), got.GetTotalSize(), total)
		}
	}
	list(1, 2, 0, 0)
	for i := range 3 {
		r.submit(t, p.request(fmt.Sprint(i), "aaaa", ada))
	}
	list(1, 2, 2, 3)
	list(2, 2, 1, 3)
	list(3, 2, 0, 3)
	p.copyBuilds(t, 0, limits.CountedBuilds-3)
	list(1, 10, 10, limits.CountedBuilds)
	p.copyBuilds(t, limits.CountedBuilds, 1)
	list(1, 10, 10, limits.CountedBuilds+1)
	p.copyBuilds(t, limits.CountedBuilds+1, 2)
	list(1, 10, 10, limits.CountedBuilds+1) // remembered
	list(limits.CountedBuilds, 10, 0, limits.CountedBuilds+1)
	list((limits.CountedBuilds+3)/3+1, 3, 1, limits.CountedBuilds+3)
}

// copyBuilds adds n builds of the user, with numbers from a first one on.
func (p *deployment) copyBuilds(t *testing.T, from, n int) {
	t.Helper()
	_, err := p.db.ExecContext(t.Context(), `WITH RECURSIVE series(g) AS (SELECT $1 UNION ALL SELECT g + 1 FROM series WHERE g < $2)
		INSERT INTO build_builds (id, content_id, number, content_digest, target, scope, state, engine, architecture, owner, endpoint, user_id, workspace_id, email,
			client_ip, request, trace_parent, time_limit, created_at, published_at, publications, started_at, completed_at, delivery, worker, ticket, succeeded, reason, message, digest, counted, solve_at)
		SELECT printf('%016x_1', g), printf('%016x', g), 1, printf('%064x', g), printf('example.org/built:%d', g), scope, 'COMPLETED', engine, architecture, owner, endpoint, user_id, workspace_id, email,
			client_ip, request, trace_parent, time_limit, created_at, 1, 1, 1, created_at, 1, '', '', true, '', '', '', -1, 0
		FROM (SELECT * FROM build_builds WHERE user_id = 7 LIMIT 1), series`, from, from+n-1)
	if err != nil {
		t.Fatal(err)
	}
}
