package platform_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/platform"
	"slipway.dev/services/platform/identity"
	"slipway.dev/services/platform/vault"
)

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func decode(s string) ([]byte, error) { return base64.StdEncoding.DecodeString(s) }

func adminOf(email string) identity.Admin { return identity.Admin{Email: email} }

func login(name, registry, password string) *platformv1.CredentialsBody {
	keys, err := structpb.NewStruct(map[string]any{"userName": "robot", "password": password, "registry": registry})
	if err != nil {
		panic(err)
	}
	return &platformv1.CredentialsBody{Credentials: &platformv1.CredentialsSpec{Name: &name, Keys: keys}}
}

// TestCondaCredentials checks that a login for a channel is not used for a registry of the same
// name, and vice versa.
func TestCondaCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	conda := login("channel", "https://conda.example.org:8443/Team/", "of the channel")
	conda.Credentials.Provider = new("conda")
	for _, body := range []*platformv1.CredentialsBody{conda, login("registry", "quay.io/team", "of the registry")} {
		must(w.client.CreateCredentials(w.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: body}))(t)
	}
	for registry, want := range map[string]string{
		"conda/conda.example.org:8443/team": "of the channel", "conda/conda.example.org:8443/team/c": "of the channel", "conda.example.org:8443/team": "",
		"conda/conda.example.org:8443/other": "", "quay.io/team/x": "of the registry", "conda/quay.io/team": "",
	} {
		resp := must(w.client.GetCredentials(t.Context(), &platformv1.GetCredentialsRequest{Identity: w.identity("launch"), Registry: registry}))(t)
		if got := resp.GetCredentials().GetPassword(); got != want {
			t.Errorf("at %s the password is %q, want %q", registry, got, want)
		}
	}
	// The address is public and recorded.
	conda = login("token in the path", "https://conda.example.org/t/secret/lab", "x")
	conda.Credentials.Provider = new("conda")
	_, err := w.client.CreateCredentials(w.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: conda})
	wantError(t, "a token in the address", err, fault.Invalid)
	based := login("base", "quay.io/x", "x")
	based.Credentials.BaseUrl = new("https://ada:secret@quay.io")
	_, err = w.client.CreateCredentials(w.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: based})
	wantError(t, "a login in baseUrl", err, fault.Invalid)
}

// TestLastUseOnAFullDisk checks that access tokens and logins work if the time of their last use
// cannot be stored.
func TestLastUseOnAFullDisk(t *testing.T) {
	t.Parallel()
	db := testkit.SQLite(t)
	w := newWorld(t, db)
	must(w.client.CreateCredentials(w.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: login("registry", "quay.io/team", "p")}))(t)
	for _, table := range []string{"platform_tokens", "platform_credentials"} {
		_, err := db.ExecContext(t.Context(), `CREATE TRIGGER full_`+table+` BEFORE UPDATE ON `+table+`
			BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END`)
		if err != nil {
			t.Fatal(err)
		}
	}
	w.clock.now = w.clock.now.Add(time.Hour) // the next use would be stored
	must(w.client.ListCredentials(w.as("launch"), &platformv1.ListCredentialsRequest{WorkspaceId: &w.ws}))(t)
	resp := must(w.client.GetCredentials(t.Context(), &platformv1.GetCredentialsRequest{Identity: w.identity("launch"), Registry: "quay.io/team"}))(t)
	if got := resp.GetCredentials().GetPassword(); got != "p" {
		t.Errorf("the password is %q", got)
	}
}

// TestShownKeys checks that the keys of a record have a discriminator, by which typed clients
// select their type. A record of an unknown provider has no keys.
func TestShownKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	other := login("cloud", "ignored", "s")
	other.Credentials.Provider = new("aws")
	for _, body := range []*platformv1.CredentialsBody{login("registry", "quay.io/team", "s"), other} {
		must(w.client.CreateCredentials(w.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: body}))(t)
	}
	list := must(w.client.ListCredentials(w.as("view"), &platformv1.ListCredentialsRequest{WorkspaceId: &w.ws}))(t).GetCredentials()
	if len(list) != 2 || list[0].GetName() != "cloud" || list[0].Keys != nil {
		t.Errorf("the record of an unknown provider is %v", list)
	}
	want := map[string]any{"discriminator": "container-reg", "registry": "quay.io/team", "userName": "robot"}
	if d := cmp.Diff(want, list[1].GetKeys().AsMap()); d != "" {
		t.Error(d)
	}
	shown := must(w.client.DescribeCredentials(w.as("view"), &platformv1.DescribeCredentialsRequest{WorkspaceId: &w.ws, CredentialsId: list[1].GetId()}))(t)
	if d := cmp.Diff(want, shown.GetCredentials().GetKeys().AsMap()); d != "" {
		t.Error(d)
	}
}

func TestCredentialsAreSealed(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		w := newWorld(t, db)
		const secret = "correct horse battery"
		id := must(w.client.CreateCredentials(w.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: login("quay", "https://quay.io/Team/", secret)}))(t).GetCredentialsId()
		shown := must(w.client.DescribeCredentials(w.as("view"), &platformv1.DescribeCredentialsRequest{WorkspaceId: &w.ws, CredentialsId: id}))(t)
		if text := shown.String(); strings.Contains(text, secret) || shown.GetCredentials().GetKeys().AsMap()["registry"] != "quay.io/team" {
			t.Errorf("the response is %s", text)
		}
		var sealed []byte
		if err := db.QueryRowContext(t.Context(), `SELECT sealed FROM platform_credentials WHERE id = $1`, id).Scan(&sealed); err != nil || bytes.Contains(sealed, []byte(secret)) {
			t.Errorf("stored is %q, %v", sealed, err)
		}
		// An update without a password does not change the password.
		must(w.client.UpdateCredentials(w.as("maintain"), &platformv1.UpdateCredentialsRequest{WorkspaceId: &w.ws, CredentialsId: id, Body: &platformv1.CredentialsBody{
			Credentials: &platformv1.CredentialsSpec{Description: new("ours")},
		}}))(t)
		resp := must(w.client.GetCredentials(t.Context(), &platformv1.GetCredentialsRequest{Identity: w.identity("launch"), Registry: "quay.io/team/app"}))(t)
		if resp.GetCredentials().GetPassword() != secret || resp.GetCredentials().GetUsername() != "robot" {
			t.Errorf("resolved to %v", resp)
		}
		var reads int
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM platform_audit WHERE action = 'credentials.read' AND subject = $1 AND user_id = $2`, id, w.ids["launch"]).Scan(&reads); err != nil || reads != 1 {
			t.Errorf("%d reads are in the audit log, %v", reads, err)
		}
		_, err := w.client.DeleteCredentials(w.as("maintain"), &platformv1.DeleteCredentialsRequest{WorkspaceId: &w.ws, CredentialsId: id, Checked: true})
		wantError(t, "credentials in use", err, fault.Conflict)
		must(w.client.DeleteCredentials(w.as("maintain"), &platformv1.DeleteCredentialsRequest{WorkspaceId: &w.ws, CredentialsId: id}))(t)
		_, err = w.client.DeleteCredentials(w.as("maintain"), &platformv1.DeleteCredentialsRequest{WorkspaceId: &w.ws, CredentialsId: id})
		wantError(t, "deleted already", err, fault.NotFound)
	})
}

func (w *world) identity(name string) *platformv1.Identity {
	return &platformv1.Identity{Endpoint: endpoint, UserId: w.ids[name], WorkspaceId: w.ws}
}

func TestResolution(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testkit.SQLite(t))
	for name, registry := range map[string]string{"host": "quay.io", "team": "quay.io/team", "hub": ""} {
		must(w.client.CreateCredentials(w.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: login(name, registry, name)}))(t)
	}
	must(w.client.CreateCredentials(w.as("launch"), &platformv1.CreateCredentialsRequest{Body: login("mine", "quay.io", "mine")}))(t)
	personal := &platformv1.Identity{Endpoint: endpoint, UserId: w.ids["launch"]}
	for _, c := range []struct {
		name     string
		id       *platformv1.Identity
		registry string
		want     string
		kind     error
	}{
		{"host", w.identity("launch"), "quay.io", "host", nil},
		{"another path", w.identity("launch"), "quay.io/teams/app", "host", nil},
		{"path", w.identity("launch"), "quay.io/team/app", "team", nil},
		{"docker hub", w.identity("launch"), "docker.io/library/alpine", "hub", nil},
		{"none", w.identity("launch"), "ghcr.io/x", "", nil},
		{"personal", personal, "quay.io/team/app", "mine", nil},
		{"another's personal", &platformv1.Identity{Endpoint: endpoint, UserId: w.ids["view"]}, "quay.io", "", nil},
		{"no participant", w.identity("member"), "quay.io", "", fault.Denied},
		{"a stranger", w.identity("stranger"), "quay.io", "", fault.Denied},
	} {
		resp, err := w.client.GetCredentials(t.Context(), &platformv1.GetCredentialsRequest{Identity: c.id, Registry: c.registry})
		wantError(t, c.name, err, c.kind)
		if got := resp.GetCredentials().GetPassword(); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestMasterKeys(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		d := deps(t, db)
		path := filepath.Join(t.TempDir(), "keys")
		d.Keys = must(vault.Open(path, true))(t)
		w := newWorldWith(t, d, &clock{})
		replica, err := platform.New(platform.Deps{DB: db, Endpoint: endpoint, Now: time.Now, Keys: must(vault.Open(path, false))(t)})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b", "c"} {
			must(w.client.CreateCredentials(w.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: login(name, "quay.io/"+name, name)}))(t)
		}
		read := func(s platformv1.AccessServiceServer, name string) error {
			resp, err := s.GetCredentials(t.Context(), &platformv1.GetCredentialsRequest{Identity: w.identity("launch"), Registry: "quay.io/" + name})
			if err == nil && resp.GetCredentials().GetPassword() != name {
				t.Errorf("%s resolves to %v", name, resp)
			}
			return err
		}
		// Both replicas keep running while the keys are rotated.
		var wg sync.WaitGroup
		for _, s := range []*platform.Service{w.service, replica} {
			wg.Go(func() {
				for n := range 30 {
					wantError(t, "under rotation", read(s, []string{"a", "b", "c"}[n%3]), nil)
				}
			})
		}
		for range 3 {
			if err := d.Keys.Add(); err != nil {
				t.Error(err)
			}
			if n, err := w.service.RotateKeys(t.Context()); err != nil || n != 3 {
				t.Errorf("rotated %d, %v", n, err)
			}
		}
		wg.Wait()
		wantError(t, "with all keys", replica.CheckKeys(t.Context()), nil)
		other := filepath.Join(t.TempDir(), "other")
		for name, keys := range map[string]*vault.Keys{"no key": nil, "another key": must(vault.Open(other, true))(t)} {
			s, err := platform.New(platform.Deps{DB: db, Endpoint: endpoint, Now: time.Now, Keys: keys})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.CheckKeys(t.Context()); err == nil || !strings.Contains(err.Error(), "master") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestKeyFiles(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"empty": "", "a comment": "# nothing\n", "short": b64("short"), "no base64": "%%%"} {
		path := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := vault.Open(path, true); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := vault.Open(filepath.Join(t.TempDir(), "none"), false); err == nil {
		t.Error("a file that is not there was read")
	}
}

func TestKeyPackets(t *testing.T) {
	t.Parallel()
	d := deps(t, testkit.SQLite(t))
	d.OperatorAccounts = operatorsFile(t)
	w := newWorldWith(t, d, &clock{})
	key := newRSA(t)
	ask := pairWith(t, key)
	_, err := w.client.CreatePairing(w.as("boss"), ask)
	wantError(t, "a user who would pair", err, fault.Unauthenticated)
	operator := asOperator(t)
	pair := must(w.client.CreatePairing(operator, ask))(t)
	_, err = w.client.CreatePairing(operator, &platformv1.CreatePairingRequest{Pairing: &platformv1.PairingSpec{PublicKey: "x"}})
	wantError(t, "no key", err, fault.Invalid)
	id := must(w.client.CreateCredentials(w.as("maintain"), &platformv1.CreateCredentialsRequest{WorkspaceId: &w.ws, Body: login("a", "quay.io", "pässword")}))(t).GetCredentialsId()
	_, err = w.client.GetCredentialsKeys(w.as("launch"), &platformv1.GetCredentialsKeysRequest{WorkspaceId: &w.ws, CredentialsId: id, PairingId: "none"})
	wantError(t, "no pairing", err, fault.NotFound)
	for version := range int32(3) {
		packet := must(w.client.GetCredentialsKeys(w.as("launch"), &platformv1.GetCredentialsKeysRequest{WorkspaceId: &w.ws, CredentialsId: id, PairingId: pair.GetPairingId(), Version: version}))(t).GetKeys()
		if got, want := unpack(t, key, packet), `{"userName":"robot","password":"pässword","registry":"quay.io"}`; got != want {
			t.Errorf("version %d: got %s", version, got)
		}
	}
}

// operatorsFile returns an htpasswd file with the operator ops, whose password is pw.
func operatorsFile(t *testing.T) string {
	t.Helper()
	hash := must(bcrypt.GenerateFromPassword([]byte("pw"), bcrypt.MinCost))(t)
	path := filepath.Join(t.TempDir(), "operators")
	if err := os.WriteFile(path, []byte("ops:"+string(hash)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func asOperator(t *testing.T) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Basic "+b64("ops:pw"))
}

func newRSA(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	return must(rsa.GenerateKey(rand.Reader, 2048))(t)
}

// pairWith creates a pairing with a key.
func pairWith(t *testing.T, key *rsa.PrivateKey) *platformv1.CreatePairingRequest {
	t.Helper()
	der := must(x509.MarshalPKIXPublicKey(&key.PublicKey))(t)
	return &platformv1.CreatePairingRequest{Pairing: &platformv1.PairingSpec{PublicKey: base64.StdEncoding.EncodeToString(der)}}
}

// unpack decrypts a key packet as a paired service does.
func unpack(t *testing.T, key *rsa.PrivateKey, packet string) string {
	t.Helper()
	parts := strings.Split(packet, `\`)
	if len(parts) != 4 || parts[1] != "P" {
		t.Fatalf("the packet is %q", packet)
	}
	session := must(base64.StdEncoding.DecodeString(parts[2]))(t)
	data := must(base64.StdEncoding.DecodeString(parts[3]))(t)
	if parts[0] == "2" {
		block := must(aes.NewCipher(must(rsa.DecryptOAEP(sha256.New(), nil, key, session, nil))(t)))(t)
		return string(must(must(cipher.NewGCM(block))(t).Open(nil, data[:12], data[12:], nil))(t))
	}
	block := must(aes.NewCipher(must(rsa.DecryptPKCS1v15(nil, key, session))(t)))(t)
	for i := 0; i < len(data); i += 16 {
		block.Decrypt(data[i:], data[i:])
	}
	return string(data[:len(data)-int(data[len(data)-1])])
}
