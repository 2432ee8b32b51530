package testkit

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// softHSM is the PKCS#11 module of the Debian package softhsm2.
const softHSM = "/usr/lib/softhsm/libsofthsm2.so"

// TokenAgent returns the socket of OpenSSH's agent, which runs until the test ends. It signs with a
// private key, in PEM with PKCS#8, that was imported into a PKCS#11 token.
func TokenAgent(t testing.TB, key []byte) (socket string) {
	t.Helper()
	if !Real() {
		t.Skip("needs OpenSSH and SoftHSM: SLIPWAY_TEST_REAL is not set")
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	socket = at("agent")
	env := append(os.Environ(), "SOFTHSM2_CONF="+at("softhsm2.conf"), "SSH_AUTH_SOCK="+socket,
		"SSH_ASKPASS="+at("pin"), "SSH_ASKPASS_REQUIRE=force")
	for name, content := range map[string]string{
		"softhsm2.conf": "directories.tokendir = " + dir + "\nobjectstore.backend = file\n", "key.pem": string(key), "pin": "#!/bin/sh\necho 123456\n",
	} {
		if err := os.WriteFile(at(name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	run := func(program string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
	}
	run("softhsm2-util", "--init-token", "--free", "--label", "images", "--pin", "123456", "--so-pin", "12345678")
	run("softhsm2-util", "--import", at("key.pem"), "--token", "images", "--label", "images", "--id", "01", "--pin", "123456")
	agent := exec.Command("ssh-agent", "-D", "-a", socket)
	agent.Env = env
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(agent.Process.Signal(syscall.SIGTERM), agent.Wait()) })
	Until(t, "the agent to listen", func() error {
		_, err := os.Stat(socket)
		return err
	})
	run("ssh-add", "-s", softHSM)
	return socket
}
