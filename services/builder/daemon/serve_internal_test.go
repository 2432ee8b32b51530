package daemon

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"slipway.dev/services/internal/testkit"
	"slipway.dev/services/internal/upstream"
)

// TestOperatorsFlags checks that flags which would start steps without slipway-runc are
// rejected.
func TestOperatorsFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--tlscert=/a --tlskey=/b --debug": "", "--oci-worker-binary=runc": "--oci-worker-binary", "--config=/x": "--config",
		"--containerd-worker=true": "--containerd-worker", "--oci-worker=false": "--oci-worker", "-addr=x": "--name=value", "more": "--name=value",
		"--allow-insecure-entitlement=security.insecure": "--allow-insecure-entitlement", "--tlscert /a": "--name=value",
	} {
		err := checkArgs(strings.Fields(args))
		if got := errorText(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	for text, want := range map[string]string{
		"# mine\n[registry.\"a.b\"]\n  mirrors = [\n    \"c\",\n  ]\n[[worker.oci.gcpolicy]]\n  all = true\n": "", "": "",
		"insecure-entitlements = [\"x\"]": "begin with a table", "[dns]\n [worker.oci]\n  binary = \"runc\"": "[worker.oci]",
		"[dns]\n[ worker.containerd ]": "worker.containerd", "[\"worker\".oci]": "worker", "[dns]\nnameservers = [\"1.1.1.1\"]\n[proxy]": "[proxy]",
	} {
		err := checkMore(text)
		if got := errorText(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestServeEnds checks that Serve returns an error if buildkitd ends by itself and none if
// it was asked to stop, and checks the required settings.
func TestServeEnds(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for name, c := range map[string]struct{ script, want string }{
		"by itself": {"echo 'buildkitd: the disk is full' >&2; exit 1", "the disk is full"},
		"stopped":   {"trap 'exit 1' TERM; cp \"$2\" seen; env >env; echo >ready; while :; do sleep 0.05; done", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, script := range map[string]string{"buildkitd": "cd " + dir + "; " + c.script, "runc": "echo runc version 1.3.3", "slipway-runc": "exit 1"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			egress, err := upstream.NewEgress(nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ready := pipe(t, filepath.Join(dir, "ready"))
			go func() {
				if _, err := ready.Read(make([]byte, 1)); err == nil {
					cancel()
				}
			}()
			err = Serve(ctx, ServeOptions{
				Root: filepath.Join(dir, "root"), Run: filepath.Join(dir, "run"), Addresses: []string{"unix://" + dir + "/b.sock"}, Cache: 1 << 30,
				Egress: egress, StepEgress: egress, Plain: []string{"images.local:5000"}, Stderr: t.Output(), Log: testkit.Log(t),
			})
			if got := errorText(err); !strings.Contains(got, c.want) || c.want == "" && err != nil {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if c.want != "" {
				return
			}
			seen, err := os.ReadFile(filepath.Join(dir, "seen"))
			if err != nil {
				t.Fatal(err)
			}
			env, err := os.ReadFile(filepath.Join(dir, "env"))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{
				`"dev.slipway.steps" = "isolated"`, `binary = "` + dir + `/slipway-runc"`, `networkMode = "host"`, "[registry.\"images.local:5000\"]\n  http = true",
				"maxUsedSpace = 1073741824", "noProcessSandbox = true", "SLIPWAY_STEP_SOCKET=" + dir, "BUILDKIT_STEP_LOG_MAX_SIZE=", "HTTPS_PROXY=http://127.0.0.1:",
			} {
				if !strings.Contains(string(seen)+string(env), want) {
					t.Errorf("%q is missing in\n%s\n%s", want, seen, env)
				}
			}
		})
	}
}

// pipe creates a named pipe for other processes to write to. It is removed with the test.
func pipe(t *testing.T, path string) *os.File {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0) // opening it for reading only would wait for a writer
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}
