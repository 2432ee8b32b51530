package sshagent_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh/agent"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/attest/sshagent"
	"slipway.dev/services/internal/testkit"
)

// serve starts an agent at a Unix socket.
func serve(t *testing.T, a agent.Agent) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = agent.ServeAgent(a, conn) // ends with the connection
			}()
		}
	}()
	return socket
}

func newKey(t *testing.T) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	raw, err := attest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := attest.ParseKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	return key, raw
}

// signs checks that an agent signs for a key.
func signs(t *testing.T, socket string, public *ecdsa.PublicKey) {
	t.Helper()
	k, err := sshagent.New(socket, public)
	if err != nil {
		t.Fatal(err)
	}
	message := []byte("a statement")
	signature, err := crypto.SignMessage(k, nil, message, crypto.SHA256)
	if sum := sha256.Sum256(message); err != nil || !ecdsa.VerifyASN1(public, sum[:], signature) {
		t.Errorf("the signature is %x, %v", signature, err)
	}
	if s, err := attest.NewSigner(k); err != nil || s.IsDeterministic() {
		t.Errorf("the signer is %v, %v", s, err)
	}
}

func TestSign(t *testing.T) {
	t.Parallel()
	key, _ := newKey(t)
	other, _ := newKey(t)
	ring := agent.NewKeyring()
	for _, k := range []*ecdsa.PrivateKey{other, key} {
		if err := ring.Add(agent.AddedKey{PrivateKey: k}); err != nil {
			t.Fatal(err)
		}
	}
	socket := serve(t, ring)
	signs(t, socket, &key.PublicKey)
	if err := ring.RemoveAll(); err != nil {
		t.Fatal(err)
	}
	k, err := sshagent.New(socket, &key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := attest.NewSigner(k); err == nil || !strings.Contains(err.Error(), "did not sign with the key SHA256:") {
		t.Errorf("without the key: %v", err)
	}
	if k, err = sshagent.New(filepath.Join(t.TempDir(), "none"), &key.PublicKey); err != nil {
		t.Fatal(err)
	}
	if _, err := crypto.SignMessage(k, nil, nil, crypto.SHA256); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without an agent: %v", err)
	}
}

// TestToken signs with OpenSSH's agent and a key in a PKCS#11 token.
func TestToken(t *testing.T) {
	t.Parallel()
	key, raw := newKey(t)
	signs(t, testkit.TokenAgent(t, raw), &key.PublicKey)
}
