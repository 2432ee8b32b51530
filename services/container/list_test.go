package container_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// list requests a page of a user's requests.
func (s *site) list(t *testing.T, who string, most int32, from string) (*containerv1.ListContainersResponse, error) {
	t.Helper()
	return s.ListContainers(signed(t.Context(), who), &containerv1.ListContainersRequest{Max: most, PageToken: from})
}

// TestListOfRequests checks that each user only sees their own requests, newest first and
// without duplicates over all pages, and that lists contain no names.
func TestListOfRequests(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		s := newSite(t, db)
		s.must(t, as("", s.conda("bwa")))
		s.must(t, as("bob", s.conda("bwa")))
		var images, names []string
		for i, entry := range []string{"samtools=1.20", "bwa", "jq", "fastqc", "multiqc"} {
			r := s.must(t, as("ada", s.conda(entry)))
			images, names = append([]string{r.GetContainerImage()}, images...), append(names, r.GetContainerToken())
			if i%2 == 1 {
				s.sleep(time.Minute) // some are created at the same time
			}
		}
		var got []*containerv1.Container
		for from, pages := "", 1; ; pages++ {
			page, err := s.list(t, "ada", 2, from)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range names {
				if strings.Contains(page.String(), n) {
					t.Errorf("the name with %s is disclosed", n)
				}
			}
			got = append(got, page.GetContainers()...)
			if from = page.GetNextPageToken(); from == "" {
				if pages != 3 || len(page.GetContainers()) != 1 {
					t.Errorf("the page %d ends the list with %v", pages, page)
				}
				break
			}
		}
		seen := map[string]bool{}
		for i, c := range got {
			seen[c.GetContainerImage()] = true
			if len(c.GetRequestId()) != 64 || c.GetRequestKey() != c.GetRequestId() || c.GetBuildId() == "" || c.GetContainerPlatform() != "linux/amd64" || c.GetExpiration() == nil {
				t.Errorf("it shows %v", c)
			}
			if i > 0 && got[i-1].GetCreationTime().AsTime().Before(c.GetCreationTime().AsTime()) {
				t.Errorf("%v is after an older one", c)
			}
		}
		if len(got) != len(images) || len(seen) != len(images) || got[0].GetContainerImage() != images[0] {
			t.Errorf("Ada's are %v, want %v", got, images)
		}
		if bobs, err := s.list(t, "bob", 0, ""); err != nil || len(bobs.GetContainers()) != 1 || bobs.NextPageToken != nil {
			t.Errorf("Bob's are %v, %v", bobs, err)
		}
		if none, err := s.list(t, "eve", 0, ""); err != nil || len(none.GetContainers()) != 0 {
			t.Errorf("Eve's are %v, %v", none, err)
		}
	})
}

// TestListRefused checks which callers and pages are rejected.
func TestListRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	for name, c := range map[string]struct {
		who  string
		most int32
		from string
		want codes.Code
	}{
		"anonymous":         {want: codes.Unauthenticated},
		"an unknown token":  {who: "mallory", want: codes.Unauthenticated},
		"too many":          {who: "ada", most: 101, want: codes.InvalidArgument},
		"less than none":    {who: "ada", most: -1, want: codes.InvalidArgument},
		"no page token":     {who: "ada", from: "x", want: codes.InvalidArgument},
		"half a page token": {who: "ada", from: "1.abc", want: codes.InvalidArgument},
	} {
		if got, err := s.list(t, c.who, c.most, c.from); status.Code(err) != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
