package kv

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	type o = redis.UniversalOptions
	for _, tc := range []struct {
		name, in string
		want     o
		tls      bool
	}{
		{"one server", "redis://r:6380", o{Addrs: []string{"r:6380"}}, false},
		{"the default port", "redis://r", o{Addrs: []string{"r:6379"}}, false},
		{"login and database", "redis://me:p%40ss@r:1/3", o{Addrs: []string{"r:1"}, Username: "me", Password: "p@ss", DB: 3}, false},
		{"password only", "redis://:pass@r:1", o{Addrs: []string{"r:1"}, Password: "pass"}, false},
		{"TLS", "rediss://r:1", o{Addrs: []string{"r:1"}}, true},
		{"cluster", "redis+cluster://a:1,b:2", o{Addrs: []string{"a:1", "b:2"}, IsClusterMode: true}, false},
		{"a cluster of one", "redis+cluster://a:1/", o{Addrs: []string{"a:1"}, IsClusterMode: true}, false},
		{"cluster with TLS and login", "rediss+cluster://me:p%40ss@a:1,b:2",
			o{Addrs: []string{"a:1", "b:2"}, IsClusterMode: true, Username: "me", Password: "p@ss"}, true},
		{"sentinel", "redis+sentinel://a:1,b:2/main", o{Addrs: []string{"a:1", "b:2"}, MasterName: "main"}, false},
		{"sentinel with all options", "rediss+sentinel://:p@a:1/main/4", o{Addrs: []string{"a:1"}, MasterName: "main", Password: "p", DB: 4}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := options(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if (got.TLSConfig != nil) != tc.tls {
				t.Errorf("TLS: %v", got.TLSConfig)
			}
			got.TLSConfig = nil
			if diff := cmp.Diff(tc.want, *got, cmpopts.IgnoreFields(o{}, "Dialer", "OnConnect")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"", "r:6379", "http://:geheim@r", "redis://:geheim@r:1/x", "redis://:geheim@r:x", "redis://:gehe%zzim@r",
		"redis+sentinel://:geheim@a:1", "redis+sentinel://:geheim@a:1/", "redis+sentinel://:geheim@a:1/main/x",
		"redis+cluster://:geheim%zz@a:1",
	} {
		o, err := options(in)
		if err == nil || !strings.Contains(err.Error(), "redis_url") {
			t.Errorf("%q was parsed as %+v, %v; want an error that names the setting", in, o, err)
		} else if strings.Contains(err.Error(), "gehe") {
			t.Errorf("%q: the error shows the password: %v", in, err)
		}
	}
}

func FuzzOptions(f *testing.F) {
	for _, in := range []string{"redis://me:x@r:1/3", "rediss+sentinel://:p@a:1,b:2/main/4", "redis+cluster://a:1", "redis+sentinel://@/"} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		o, err := options(in)
		if (o == nil) == (err == nil) || o != nil && len(o.Addrs) == 0 {
			t.Errorf("%q was parsed as %+v, %v", in, o, err)
		}
	})
}
