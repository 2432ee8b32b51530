package conda_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/testkit/heap"
)

// from returns the context of a call from an address.
func from(t *testing.T, address string) context.Context {
	t.Helper()
	return rpc.WithCall(t.Context(), rpc.Call{ClientIP: netip.MustParseAddr(address)})
}

// longNames returns a compressed list of n packages with names of 206 characters.
func longNames(t *testing.T, n int) []byte {
	t.Helper()
	var out strings.Builder
	z, err := zstd.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 200)
	_, _ = io.WriteString(z, `{"packages.conda":{`)
	for i := range n {
		_, _ = fmt.Fprintf(z, `"%d.conda":{"name":"%s%06d","version":"1","build":"0"},`, i, long, i)
	}
	_, _ = io.WriteString(z, `"a.conda":{"name":"a","version":"1","build":"0"}}}`)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return []byte(out.String())
}

// TestLongNames checks that a list of long names uses little memory, however many calls
// search it concurrently, and that a list with too many of them is rejected.
//
//nolint:paralleltest // it measures what is allocated meanwhile
func TestLongNames(t *testing.T) {
	lists := map[string][]byte{
		"/many/linux-64/repodata.json.zst": longNames(t, limits.ChannelNamesBytes/206-1), "/endless/linux-64/repodata.json.zst": longNames(t, 490_000),
	}
	service, _ := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if list, ok := lists[r.URL.Path]; ok {
			_, _ = w.Write(list)
			return
		}
		http.NotFound(w, r)
	})
	search := func(i int, channel string) error {
		got, err := service.SearchPackages(from(t, fmt.Sprintf("192.0.%d.1", i)), &condav1.SearchPackagesRequest{Channel: channel, Q: "x"})
		if err == nil && (got.GetTotal() < 80_000 || len(got.GetPackages()) != 20) {
			err = fmt.Errorf("%d of %d packages are returned", len(got.GetPackages()), got.GetTotal())
		}
		return err
	}
	if err := search(0, "endless"); err == nil || !strings.Contains(err.Error(), "names") {
		t.Errorf("too many names: %v", err)
	}
	if err := search(0, "many"); err != nil {
		t.Fatal(err)
	}
	for _, together := range []int{1, 4} {
		heap.Within(t, 0, together*(16<<20), nil, func() {
			var all sync.WaitGroup
			for i := range together {
				all.Go(func() {
					if err := search(i, "many"); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		})
	}
}

// puzzle returns a channel in which each of the packages needs a version of its own, of
// which there is one too few.
func puzzle(packages int) string {
	var out strings.Builder
	out.WriteString(`{"packages.conda":{`)
	for i := range packages {
		for v := range packages - 1 {
			var others []string
			for k := range packages {
				if k != i {
					others = append(others, fmt.Sprintf(`"p%d !=%d"`, k, v))
				}
			}
			_, _ = fmt.Fprintf(&out, `"p%d-%d-0.conda":{"name":"p%d","version":"%d","build":"0","constrains":[%s]},`, i, v, i, v, strings.Join(others, ","))
		}
	}
	return strings.TrimSuffix(out.String(), ",") + "}}"
}

// TestUnsolvableRequestsDoNotBlock checks that unsolvable requests do not prevent other clients
// from solving or searching.
func TestUnsolvableRequestsDoNotBlock(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("uses all processors for some seconds")
	}
	hard := puzzle(17)
	service, _ := serve(t, nil, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/puzzle/linux-64/repodata.json":
			_, _ = io.WriteString(w, hard)
		case "/lab/linux-64/repodata.json":
			_, _ = io.WriteString(w, library)
		default:
			http.NotFound(w, r)
		}
	})
	var specs []string
	for i := range 17 {
		specs = append(specs, fmt.Sprintf("p%d", i))
	}
	attack, stop := context.WithCancel(t.Context())
	var attackers sync.WaitGroup
	var begun atomic.Int32
	for i := range 16 { // four at a time from each of four addresses
		attackers.Go(func() {
			ctx := rpc.WithCall(attack, rpc.Call{ClientIP: netip.MustParseAddr(fmt.Sprintf("198.51.%d.1", i%4))})
			for attack.Err() == nil {
				begun.Add(1)
				q := &condav1.LockQuery{Packages: entries("puzzle", specs...)}
				q.Packages.Type = "CONDA"
				if got, err := service.LockPackages(ctx, &condav1.LockPackagesRequest{Lock: q}); err == nil {
					t.Errorf("the puzzle was solved: %v", got.GetMessage())
				}
			}
		})
	}
	defer func() { stop(); attackers.Wait() }()
	testkit.Until(t, "all attackers", func() error {
		if n := begun.Load(); n < 16 {
			return fmt.Errorf("%d of 16 solves have started", n)
		}
		return nil
	})
	var others sync.WaitGroup
	for i := range 20 {
		ctx, cancel := context.WithTimeout(from(t, fmt.Sprintf("203.0.%d.1", i)), 30*time.Second)
		defer cancel()
		others.Go(func() {
			q := &condav1.LockQuery{Packages: entries("lab", "samtools")}
			q.Packages.Type = "CONDA"
			if got, err := service.LockPackages(ctx, &condav1.LockPackagesRequest{Lock: q}); err != nil || chosen(got) != "htslib=1.21 samtools=1.21" {
				t.Errorf("lock %d: %v, %v", i, got.GetMessage(), err)
			}
		})
		others.Go(func() {
			start := time.Now()
			if _, err := service.SearchPackages(ctx, &condav1.SearchPackagesRequest{Channel: "lab", Q: "samtools"}); err != nil || time.Since(start) > 10*time.Second {
				t.Errorf("search %d: %v after %s", i, err, time.Since(start))
			}
		})
	}
	others.Wait()
}
