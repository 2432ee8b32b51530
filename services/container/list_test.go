package container_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// list asks for a page of who's requests.
func (s *site) list(t *testing.T, who string, most int32, from string) (*containerv1.ListContainersResponse, error) {
	t.Helper()
	return s.ListContainers(signed(t.Context(), who), &containerv1.ListContainersRequest{Max: most, PageToken: from})
}

// TestListOfRequests: each user has their own, the newest first, each once, page after
// page; and none of their names.
func TestListOfRequests(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		s := newSite(t, db)
		s.must(t, as("", s.conda("bwa")))
		s.must(t, as("bob", s.conda("bwa")))
		var images, names []string
		for i, entry := range []string{"samtools=1.20", "bwa", "jq", "fastqc", "multiqc"} {
			r := s.must(t, as("ada", s.conda(entry)))
			images, names = append([]string{r.GetContainerImage()}, images...), append(names, r.GetRequestId())
			if i%2 == 1 {
				s.sleep(time.Minute) // some are made in the same moment
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
					t.Errorf("the name with %s is told", n)
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
			if len(c.GetRequestKey()) != 64 || c.GetBuildId() == "" || c.GetContainerPlatform() != "linux/amd64" || c.GetExpiration() == nil {
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

// TestListRefused says to whom, and for what, there is no list.
func TestListRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	for name, c := range map[string]struct {
		who  string
		most int32
		from string
		want codes.Code
	}{
		"nobody":            {want: codes.Unauthenticated},
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

// TestRequestKeys: who made a request describes, names and revokes it by its key; for
// nobody else it stands for anything.
func TestRequestKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t, testkit.SQLite(t))
	made := s.must(t, as("ada", s.conda("bwa")))
	anonymous := keyInRedis(s.must(t, s.conda("jq")).GetContainerToken())
	anonymous = anonymous[strings.LastIndex(anonymous, ":")+1:]
	page, err := s.list(t, "ada", 0, "")
	if err != nil {
		t.Fatal(err)
	}
	key := page.GetContainers()[0].GetRequestKey()
	calls := map[string]func(who, id string) (string, error){
		"describe": func(who, id string) (string, error) {
			got, err := s.DescribeContainer(signed(t.Context(), who), &containerv1.DescribeContainerRequest{RequestId: id})
			if err == nil && (got.GetContainerImage() != made.GetContainerImage() || got.TargetImage != nil) {
				t.Errorf("it is described as %v", got)
			}
			return got.GetRequestId(), err
		},
		"status": func(who, id string) (string, error) {
			got, err := s.GetContainerStatus(signed(t.Context(), who), &containerv1.GetContainerStatusRequest{RequestId: id})
			if err == nil && (got.GetBuildId() != made.GetBuildId() || got.TargetImage != nil) {
				t.Errorf("its status is %v", got)
			}
			return got.GetId(), err
		},
		"name": func(who, id string) (string, error) {
			got, err := s.asked(t, who, id)
			if err == nil && (!strings.Contains(got.GetTargetImage(), got.GetRequestId()) || got.GetBuildId() != made.GetBuildId() || got.GetRequestId() == made.GetRequestId()) {
				t.Errorf("it is named %v", got)
			}
			return id, err
		},
		"revoke": func(who, id string) (string, error) {
			_, err := s.RevokeContainer(signed(t.Context(), who), &containerv1.RevokeContainerRequest{RequestId: id})
			return id, err
		},
	}
	for name, call := range calls {
		for who, want := range map[string]error{"": fault.Unauthenticated, "bob": fault.NotFound} {
			if _, err := call(who, key); !errors.Is(err, want) {
				t.Errorf("%s, by %q: %v", name, who, err)
			}
		}
		for _, id := range []string{anonymous, strings.Repeat("0", 64), strings.ToUpper(key), key[1:]} {
			if _, err := call("ada", id); !errors.Is(err, fault.NotFound) {
				t.Errorf("%s of %s: %v", name, id, err)
			}
		}
	}
	for _, name := range []string{"describe", "status", "name", "revoke"} {
		if id, err := calls[name]("ada", key); err != nil || id != key {
			t.Errorf("%s: %s, %v", name, id, err)
		}
	}
	if _, err := s.resolve(t, made.GetContainerToken(), false); !errors.Is(err, fault.NotFound) {
		t.Errorf("what was revoked resolves: %v", err)
	}
	if _, err := calls["name"]("ada", key); !errors.Is(err, fault.NotFound) {
		t.Errorf("what was revoked has a name: %v", err)
	}
}
