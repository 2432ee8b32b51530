// Package sshagent signs with a key that an SSH agent has. An agent can use keys of a PKCS#11 token
// (ssh-add -s), of a TPM, of a smart card or of a key management service, which never leave it.
//
// The protocol is draft-ietf-sshm-ssh-agent. The agent signs the SHA-256 of a message, as ECDSA with
// the curve P-256 requires (RFC 5656).
package sshagent

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"slipway.dev/services/internal/limits"
)

// A Key is a key of an agent. It is a crypto.MessageSigner. It is safe for concurrent use.
type Key struct {
	socket string
	public *ecdsa.PublicKey
	ssh    ssh.PublicKey
	// turns has as many places as there may be connections.
	turns chan struct{}
}

// New returns the key of the agent at a Unix socket with a public key. It does not connect.
func New(socket string, public *ecdsa.PublicKey) (*Key, error) {
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	return &Key{socket: socket, public: public, ssh: key, turns: make(chan struct{}, limits.SigningConnections)}, nil
}

// Public returns the public key, an *ecdsa.PublicKey.
func (k *Key) Public() crypto.PublicKey { return k.public }

// Sign returns an error: an agent signs messages only.
func (k *Key) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return nil, errors.New("an SSH agent signs messages, not digests")
}

// SignMessage returns the signature of a message in ASN.1. It waits at most limits.SigningWait.
func (k *Key) SignMessage(_ io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	if opts.HashFunc() != crypto.SHA256 {
		return nil, errors.New("an SSH agent signs with SHA-256 only")
	}
	ctx, cancel := context.WithTimeout(context.Background(), limits.SigningWait)
	defer cancel()
	select {
	case k.turns <- struct{}{}:
		defer func() { <-k.turns }()
	case <-ctx.Done():
		return nil, errors.New("the SSH agent is busy with other signatures")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", k.socket)
	if err != nil {
		return nil, fmt.Errorf("the SSH agent cannot be reached: %w", err)
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	signature, err := agent.NewClient(conn).Sign(k.ssh, message)
	if err != nil {
		return nil, fmt.Errorf("the SSH agent at %s did not sign with the key %s: %w", k.socket, ssh.FingerprintSHA256(k.ssh), err)
	}
	return toASN1(signature)
}

// toASN1 converts a signature of SSH.
func toASN1(s *ssh.Signature) ([]byte, error) {
	if s.Format != ssh.KeyAlgoECDSA256 {
		return nil, fmt.Errorf("the SSH agent returned a signature of the type %.50q instead of %s", s.Format, ssh.KeyAlgoECDSA256)
	}
	var rs struct{ R, S *big.Int }
	if err := ssh.Unmarshal(s.Blob, &rs); err != nil {
		return nil, fmt.Errorf("the SSH agent returned a malformed signature: %w", err)
	}
	return asn1.Marshal(rs)
}

// Wait returns when the agent accepts connections, or an error after limits.SigningWait: it may be
// starting at the same time.
func (k *Key) Wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, limits.SigningWait)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", k.socket)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the SSH agent cannot be reached: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
