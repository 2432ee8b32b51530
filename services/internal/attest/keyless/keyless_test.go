package keyless_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/attest/keyless"
	"slipway.dev/services/internal/attest/trust"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/testkit"
)

// tokenOf returns an unsigned token.
func tokenOf(t testing.TB, claims map[string]any) string {
	t.Helper()
	raw, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return "e30." + base64.RawURLEncoding.EncodeToString(raw) + ".AAAA\n"
}

// A setup is a signer of an authority.
type setup struct {
	*keyless.Signer
	authority *testkit.Authority
	root      *trust.Root
	token     string
	now       atomic.Int64 // added to the time, in seconds
}

func newSetup(t testing.TB) *setup {
	t.Helper()
	a := testkit.NewAuthority(t)
	root, err := trust.Parse(a.Root)
	if err != nil {
		t.Fatal(err)
	}
	s := &setup{authority: a, root: root, token: filepath.Join(t.TempDir(), "token")}
	s.write(t, tokenOf(t, map[string]any{"iss": testkit.AuthorityIssuer, "sub": "slipway"}))
	s.Signer = keyless.New(keyless.Options{
		Fulcio: a.URL + "/", Timestamp: a.URL + "/timestamp", TokenFile: s.token, Root: root, Transport: http.DefaultTransport,
		Now: func() time.Time { return time.Now().Add(time.Duration(s.now.Load()) * time.Second) },
	})
	return s
}

func (s *setup) write(t testing.TB, token string) {
	t.Helper()
	if err := os.WriteFile(s.token, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
}

// memory stores signatures.
type memory struct{ sync.Map }

func (m *memory) Signature(_ context.Context, key, message string, sign func() ([]byte, error)) ([]byte, error) {
	if out, ok := m.Load(key + message); ok {
		return out.([]byte), nil
	}
	made, err := sign()
	if err != nil {
		return nil, err
	}
	out, _ := m.LoadOrStore(key+message, made)
	return out.([]byte), nil
}

var subject = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("image"), Size: 5}

// TestCertifiedStatements checks that statements are signed with one certificate until it expires, that
// the first signature remains, and who has signed.
func TestCertifiedStatements(t *testing.T) {
	t.Parallel()
	s, in := newSetup(t), &memory{}
	if _, err := attest.NewCertifiedSigner(s).SignImage(t.Context(), subject); err == nil {
		t.Error("a signature was made without being stored")
	}
	signer := attest.NewCertifiedSigner(s).Storing(in)
	one, err := signer.SignImage(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	var who trust.Identity
	check := func(c attest.Certified, message []byte) (err error) {
		who, err = s.root.Verify(c, message)
		return err
	}
	statement, err := attest.VerifyCertified(one, subject.Digest, check)
	if err != nil || statement.PredicateType != attest.SignaturePredicate {
		t.Fatalf("%v, %v", statement, err)
	}
	if who.Name != testkit.AuthorityName || who.Issuer != testkit.AuthorityIssuer || time.Since(who.SignedAt) > time.Minute {
		t.Errorf("signed by %+v", who)
	}
	if again, err := signer.SignImage(t.Context(), subject); err != nil || string(again.Bundle) != string(one.Bundle) {
		t.Errorf("the second signature differs, %v", err)
	}
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			d := subject
			d.Digest = digest.FromString(fmt.Sprint(i))
			made, err := signer.SignImage(t.Context(), d)
			if err == nil {
				_, err = attest.VerifyCertified(made, d.Digest, func(c attest.Certified, message []byte) error {
					_, err := s.root.Verify(c, message)
					return err
				})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := s.authority.Issued(); n != 1 {
		t.Errorf("%d certificates were issued", n)
	}
	s.now.Store(9*60 + 1)
	s.authority.Change(testkit.AuthorityChange{Lifetime: 20 * time.Minute})
	if _, err := s.Certify(t.Context(), []byte("later")); err != nil || s.authority.Issued() != 2 {
		t.Errorf("after the first certificate: %d were issued, %v", s.authority.Issued(), err)
	}
	// A key, or the statement of another image, is not accepted.
	if _, err := attest.Verify(one.Bundle, subject.Digest); err == nil {
		t.Error("a signature with a certificate was accepted without one")
	}
	if _, err := attest.VerifyCertified(one, digest.FromString("other"), check); err == nil {
		t.Error("the statement of another image was accepted")
	}
	if signer.Public() != nil || signer.IsDeterministic() || !signer.IsCertified() {
		t.Error("the signer has a key")
	}
	if _, err := signer.SignSIF(t.Context(), nil); err == nil {
		t.Error("a Singularity image was signed")
	}
}

// TestIdentityChanges checks that another identity has its own signatures and certificate.
func TestIdentityChanges(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	first, err := s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Certify(t.Context(), []byte("m")); err != nil {
		t.Fatal(err)
	}
	s.write(t, tokenOf(t, map[string]any{"iss": testkit.AuthorityIssuer, "sub": "slipway", "exp": time.Now().Add(time.Hour).Unix()}))
	if again, err := s.Identity(t.Context()); err != nil || again != first {
		t.Errorf("a new token of the same identity: %s and %s, %v", first, again, err)
	}
	s.write(t, tokenOf(t, map[string]any{"iss": testkit.AuthorityIssuer, "sub": "other"}))
	if other, err := s.Identity(t.Context()); err != nil || other == first {
		t.Errorf("another identity: %v", err)
	}
	if _, err := s.Certify(t.Context(), []byte("m")); err != nil || s.authority.Issued() != 2 {
		t.Errorf("%d certificates were issued, %v", s.authority.Issued(), err)
	}
}

// TestUnusableResponses checks that nothing is signed if an authority does not respond as expected.
func TestUnusableResponses(t *testing.T) {
	t.Parallel()
	respond := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
		}
	}
	for name, c := range map[string]struct {
		change testkit.AuthorityChange
		want   string
	}{
		"down":                    {testkit.AuthorityChange{Certificates: respond(503, "maintenance")}, "503 Service Unavailable: maintenance"},
		"redirect":                {testkit.AuthorityChange{Certificates: http.RedirectHandler("/elsewhere", http.StatusTemporaryRedirect).ServeHTTP}, "307"},
		"not JSON":                {testkit.AuthorityChange{Certificates: respond(200, "x")}, "malformed"},
		"no certificate":          {testkit.AuthorityChange{Certificates: respond(200, "{}")}, "no certificate"},
		"malformed certificate":   {testkit.AuthorityChange{Certificates: respond(200, `{"signedCertificateEmbeddedSct":{"chain":{"certificates":["x"]}}}`)}, "malformed certificate"},
		"large":                   {testkit.AuthorityChange{Certificates: respond(200, strings.Repeat("x", limits.CertificateAnswer+1))}, "is larger than"},
		"another key":             {testkit.AuthorityChange{OtherKey: true}, "another key"},
		"almost expired":          {testkit.AuthorityChange{Lifetime: 30 * time.Second}, "clocks"},
		"no timestamps":           {testkit.AuthorityChange{Timestamps: respond(500, "x")}, "signing_timestamp"},
		"malformed timestamp":     {testkit.AuthorityChange{Timestamps: respond(200, "x")}, "malformed"},
		"an earlier timestamp":    {testkit.AuthorityChange{OtherNonce: true}, "earlier"},
		"of another signature":    {testkit.AuthorityChange{OtherMessage: true}, "something else"},
		"the clocks differ":       {testkit.AuthorityChange{Shift: time.Hour}, "compare the clocks"},
		"the clocks differ, past": {testkit.AuthorityChange{Shift: -time.Hour}, "compare the clocks"},
		"no single identity":      {testkit.AuthorityChange{Names: []string{"https://a", "https://b"}}, "2 names"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t)
			s.authority.Change(c.change)
			if _, err := s.Certify(t.Context(), []byte("m")); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v", err)
			}
			s.authority.Change(testkit.AuthorityChange{})
			if name == "no single identity" {
				return // the certificate is used until it expires
			}
			if _, err := s.Certify(t.Context(), []byte("m")); err != nil {
				t.Errorf("later: %v", err)
			}
		})
	}
}

// TestUnusableTokens checks what is returned for a file without a usable token, and that the error does
// not contain it.
func TestUnusableTokens(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	for token, want := range map[string]string{
		"secret": "not a JSON Web Token", "a.secret!.c": "not base64", "a.c2VjcmV0.c": "not JSON", tokenOf(t, map[string]any{"iss": "secret"}): "no issuer, or no subject",
		strings.Repeat("secret", limits.IdentityToken/6+1): "is larger than",
	} {
		s.write(t, token)
		_, err := s.Certify(t.Context(), []byte("m"))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.20q: got %v", token, err)
		}
		if _, err := s.Identity(t.Context()); err == nil {
			t.Errorf("%.20q has an identity", token)
		}
	}
	s.write(t, tokenOf(t, map[string]any{"iss": "i", "sub": "s"}))
	known, err := s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, "")
	if again, err := s.Identity(t.Context()); err != nil || again != known {
		t.Errorf("while the token is being replaced: %s, %v", again, err)
	}
	s.write(t, tokenOf(t, map[string]any{"iss": "i", "sub": "s", "exp": time.Now().Add(-time.Minute).Unix()}))
	if _, err := s.Certify(t.Context(), []byte("m")); err == nil || !strings.Contains(err.Error(), "was not replaced") {
		t.Errorf("an expired token: got %v", err)
	}
	if err := os.Remove(s.token); err != nil {
		t.Fatal(err)
	}
	if err := keyless.CheckToken(s.token); err == nil {
		t.Error("a missing file was accepted")
	}
}
