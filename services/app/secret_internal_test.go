package app

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/internal/testkit"
)

// TestRolesOnLoopback: without certificates and rpc_secret_file, a role on loopback gives no
// password to a process that only claims to be a role. Roles with the same data_dir share the
// secret in it; a role with another data_dir is not ready, and reports what to set.
func TestRolesOnLoopback(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), "127.0.0.1:"+testkit.FreePort(t)
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	settings := map[string]string{
		"DATA_DIR": dir, "PLATFORM_URL": "http://127.0.0.1:9091", "GRPC_ADDR": addr, "ADMIN_ADDR": "127.0.0.1:0",
		"DATABASE_URL": "sqlite:" + filepath.Join(t.TempDir(), "p.db"), "REDIS_URL": "redis://" + miniredis.RunT(t).Addr(),
		"ADMIN_TOKEN_FILE":         write("token", "eyJ0aWQiOjF9LjAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc="),
		"ADMIN_REGISTRY_AUTH_FILE": write("config.json", `{"auths":{"quay.io":{"username":"admin","password":"a password"}}}`),
	}
	testkit.Run(t, play(t, "platform", settings).Run)
	ask := func(conn *grpc.ClientConn, err error) (*platformv1.GetCredentialsResponse, error) {
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-slipway-role", "registry")
		return platformv1.NewAccessServiceClient(conn).GetCredentials(ctx, &platformv1.GetCredentialsRequest{
			Identity: &platformv1.Identity{Endpoint: "http://127.0.0.1:9091", UserId: 1}, Registry: "quay.io/team",
		})
	}
	got, err := ask(grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials())))
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("a process that claims to be a role is answered %v, %v", got, err)
	}
	path := filepath.Join(dir, "rpc-secret")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the secret's file is %v, %v", info, err)
	}
	if got, err = ask(rpc.Dial(addr, rpc.DialOptions{Secret: strings.TrimSpace(string(raw))})); err != nil || got.GetCredentials().GetPassword() != "a password" {
		t.Errorf("a role is answered %v, %v", got, err)
	}

	settings["PLATFORM_ADDR"], settings["GRPC_ADDR"] = addr, "127.0.0.1:"+testkit.FreePort(t)
	for where, ready := range map[string]bool{dir: true, t.TempDir(): false} {
		settings["DATA_DIR"], settings["GRPC_ADDR"] = where, "127.0.0.1:"+testkit.FreePort(t)
		conda := play(t, "conda", settings)
		testkit.Run(t, conda.Run)
		for _, c := range conda.checks() {
			if c.name != "platform" {
				continue
			}
			if err := c.ask(t.Context()); (err == nil) != ready || err != nil && !strings.Contains(err.Error(), "rpc_secret_file") {
				t.Errorf("a role with the same data_dir (%v) finds the platform %v", ready, err)
			}
		}
	}
}

// TestRoleSecret checks that roles that start concurrently share one secret, and that a
// file which others can read is rejected.
func TestRoleSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secrets := make([]string, 16)
	var all sync.WaitGroup
	for n := range secrets {
		all.Go(func() {
			var err error
			if secrets[n], err = roleSecret(config.Config{DataDir: dir}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, s := range secrets {
		if s != secrets[0] || len(s) < 26 {
			t.Errorf("the secrets are %q", secrets)
			break
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left in data_dir: %v, %v", left, err)
	}
	path := filepath.Join(dir, "rpc-secret")
	for what, spoil := range map[string]func() error{
		"open to others": func() error { return os.Chmod(path, 0o640) },
		"too short":      func() error { return os.WriteFile(path, []byte("short\n"), 0o600) },
		"a link":         func() error { return os.Symlink("/etc/hostname", path) },
		"a folder":       func() error { return os.Mkdir(path, 0o700) },
	} {
		_ = os.Remove(path)
		if _, err := roleSecret(config.Config{DataDir: dir}); err != nil {
			t.Fatal(err)
		}
		if what == "a link" || what == "a folder" {
			_ = os.Remove(path)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if secret, err := roleSecret(config.Config{DataDir: dir}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %q, %v", what, secret, err)
		}
	}
	if _, err := roleSecret(config.Config{DataDir: filepath.Join(dir, "none")}); err == nil || !strings.Contains(err.Error(), "rpc_secret_file") {
		t.Errorf("without a folder: %v", err)
	}
}
