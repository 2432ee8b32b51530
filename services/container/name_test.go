package container_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// asked requests a new name as the user of a token, or anonymously for "".
func (s *site) asked(t *testing.T, who, id string) (*containerv1.NameContainerResponse, error) {
	t.Helper()
	return s.NameContainer(signed(t.Context(), who), &containerv1.NameContainerRequest{Id: id})
}

func signed(ctx context.Context, who string) context.Context {
	if who == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+who)
}

// TestFreshNames requests names of earlier requests and builds.
func TestFreshNames(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		s := newSite(t, db)
		image := s.submit(t, nil)
		built := s.must(t, s.conda("samtools=1.20"))
		s.sleep(100 * 24 * time.Hour) // the names expired long ago
		for _, id := range []string{image.GetContainerToken(), built.GetContainerToken(), built.GetBuildId()} {
			got, err := s.asked(t, "", id)
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			want := image
			if id != image.GetContainerToken() {
				want = built
			}
			if fresh := strings.Replace(want.GetTargetImage(), want.GetContainerToken(), got.GetContainerToken(), 1); got.GetTargetImage() != fresh || got.GetContainerToken() == want.GetContainerToken() {
				t.Errorf("%s: the name is %s, want %s", id, got.GetTargetImage(), fresh)
			}
			if got.GetBuildId() != want.GetBuildId() || got.GetSucceeded() != (want == image) {
				t.Errorf("%s: got %v", id, got)
			}
			if plan, err := s.resolve(t, got.GetContainerToken(), false); err != nil || plan.GetBuildId() != want.GetBuildId() {
				t.Errorf("%s: the plan is %v, %v", id, plan, err)
			}
		}
	})
}

// TestFreshNamesRequireReadAccess requests names of private images.
func TestFreshNamesRequireReadAccess(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	private := s.must(t, as("ada", from(s.secret)))
	hers := s.must(t, as("ada", &containerv1.ContainerRequest{ContainerImage: s.secret}))
	added := s.submit(t, &containerv1.ContainerConfig{Env: []string{"PASSWORD=x"}})
	revoked := s.submit(t, nil)
	if _, err := s.RevokeContainer(t.Context(), &containerv1.RevokeContainerRequest{RequestId: revoked.GetContainerToken()}); err != nil {
		t.Fatal(err)
	}
	failed := s.must(t, s.conda("bwa"))
	s.builds.set(failed.GetBuildId(), &buildv1.AwaitBuildResponse{State: buildv1.BuildState_BUILD_STATE_FAILED, Reason: "solve"})
	check := func(when, who, id string, want error) {
		t.Helper()
		_, err := s.asked(t, who, id)
		if (want == nil) != (err == nil) || want != nil && !errors.Is(err, want) {
			t.Errorf("%s, %q asks for %s: %v, want %v", when, who, id, err, want)
		}
	}
	for _, when := range []string{"while it works", "when it has expired"} {
		for _, id := range []string{private.GetContainerToken(), private.GetBuildId(), hers.GetContainerToken()} {
			check(when, "ada", id, nil)
			check(when, "bob", id, fault.Denied)
			check(when, "", id, fault.Denied)
		}
		check(when, "", revoked.GetContainerToken(), fault.NotFound)
		check(when, "", failed.GetContainerToken(), fault.NotFound)
		check(when, "", failed.GetBuildId(), fault.NotFound)
		check(when, "", "00000000deadbeef_1", fault.NotFound)
		check(when, "", "nothing/../of the kind", fault.NotFound)
		if when == "while it works" {
			check(when, "", added.GetContainerToken(), nil)
			s.sleep(37 * time.Hour)
			continue
		}
		check(when, "", added.GetContainerToken(), fault.NotFound)
	}
}

// TestRevokingByBuild revokes the names of one user, and checks that those of others
// remain.
func TestRevokingByBuild(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		s := newSite(t, db)
		first, second := s.must(t, as("ada", s.conda("bwa"))), s.must(t, as("ada", s.conda("bwa")))
		bobs := s.must(t, as("bob", s.conda("bwa")))
		revoke := func(who string) (*containerv1.RevokeBuildResponse, error) {
			return s.RevokeBuild(signed(t.Context(), who), &containerv1.RevokeBuildRequest{BuildId: first.GetBuildId()})
		}
		if _, err := revoke(""); !errors.Is(err, fault.Unauthenticated) {
			t.Errorf("anonymous: %v", err)
		}
		if _, err := revoke("eve"); !errors.Is(err, fault.NotFound) {
			t.Errorf("who has none: %v", err)
		}
		if got, err := revoke("ada"); err != nil || got.GetRevoked() != 2 {
			t.Errorf("got %v, %v", got, err)
		}
		for _, r := range []*containerv1.SubmitContainerResponse{first, second} {
			if _, err := s.resolve(t, r.GetContainerToken(), false); !errors.Is(err, fault.NotFound) {
				t.Errorf("a revoked name: %v", err)
			}
		}
		if _, err := s.resolve(t, bobs.GetContainerToken(), false); err != nil || len(s.builds.cancelled) != 0 {
			t.Errorf("the other user's: %v, cancelled %v", err, s.builds.cancelled)
		}
		if _, err := revoke("bob"); err != nil || len(s.builds.cancelled) != 1 {
			t.Errorf("the last: %v, cancelled %v", err, s.builds.cancelled)
		}
	})
}

// TestRecipeDescription checks the description of a request's recipe.
func TestRecipeDescription(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	req := s.must(t, from(s.image))
	d, err := s.DescribeContainer(t.Context(), &containerv1.DescribeContainerRequest{RequestId: req.GetContainerToken()})
	if want := "FROM " + s.image + "\nRUN true\n"; err != nil || d.GetContainerFile() != want {
		t.Errorf("got %v, %v", d, err)
	}
}
