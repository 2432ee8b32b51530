package upstream

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseChallenges(t *testing.T) {
	t.Parallel()
	type params = map[string]string
	bearer := params{"realm": "https://auth.docker.io/token", "service": "registry.docker.io", "scope": "repository:a/b:pull"}
	for _, tc := range []struct {
		name, in string
		want     []challenge
		fails    bool
	}{
		{"Docker Hub", `Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull"`,
			[]challenge{{"bearer", bearer}}, false},
		{"blanks", "\tBEARER  realm = \"https://auth.docker.io/token\" ,\tService=\"registry.docker.io\", SCOPE=\"repository:a/b:pull\" ",
			[]challenge{{"bearer", bearer}}, false},
		{"basic", `Basic realm="a"`, []challenge{{"basic", params{"realm": "a"}}}, false},
		{"scheme alone", `Negotiate`, []challenge{{"negotiate", params{}}}, false},
		{"two schemes", `Basic realm="a", Bearer realm="b",service=c`,
			[]challenge{{"basic", params{"realm": "a"}}, {"bearer", params{"realm": "b", "service": "c"}}}, false},
		{"scheme alone, then another", `Negotiate, Basic realm="a"`,
			[]challenge{{"negotiate", params{}}, {"basic", params{"realm": "a"}}}, false},
		{"a comma and a scheme inside quotes", `Basic realm="a, Bearer realm=b"`,
			[]challenge{{"basic", params{"realm": "a, Bearer realm=b"}}}, false},
		{"escaped quotes", `Basic realm="a \"b\" \\c"`, []challenge{{"basic", params{"realm": `a "b" \c`}}}, false},
		{"several scopes", `Bearer realm="r",scope="repository:a:pull repository:b:pull"`,
			[]challenge{{"bearer", params{"realm": "r", "scope": "repository:a:pull repository:b:pull"}}}, false},
		{"empty value", `Bearer realm="",service=`, []challenge{{"bearer", params{"realm": "", "service": ""}}}, false},
		{"nothing", ``, nil, false},
		{"commas", ` ,, `, nil, false},
		{"no scheme", `realm="a"`, []challenge{{"realm", params{}}}, true},
		{"open quotes", `Basic realm="a", Bearer realm="b`, []challenge{{"basic", params{"realm": "a"}}, {"bearer", params{}}}, true},
		{"a backslash ends it", `Basic realm="a\`, []challenge{{"basic", params{}}}, true},
		{"token68", `NTLM abc==`, []challenge{{"ntlm", params{"abc": ""}}}, true},
		{"not a word", `"Basic" realm="a"`, nil, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseChallenges(tc.in)
			if (err != nil) != tc.fails {
				t.Errorf("err = %v", err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(challenge{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParseChallenges(f *testing.F) {
	f.Add(`Bearer realm="https://a/token",service="b",scope="repository:a/b:pull", Basic realm=x`)
	f.Add(`Basic realm="a\"`)
	f.Add(`a=b,c d="e`)
	f.Fuzz(func(t *testing.T, header string) {
		list, _ := parseChallenges(header)
		for _, c := range list {
			if c.scheme == "" || c.params == nil || c.scheme != strings.ToLower(c.scheme) {
				t.Errorf("%q: challenge %+v", header, c)
			}
			for k, v := range c.params {
				if k != strings.ToLower(k) || len(v) > len(header) {
					t.Errorf("%q: %q is %q", header, k, v)
				}
			}
		}
	})
}

func BenchmarkParseChallenges(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseChallenges(`Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull"`); err != nil {
			b.Fatal(err)
		}
	}
}
