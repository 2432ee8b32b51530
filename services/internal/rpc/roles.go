package rpc

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"slices"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// roleURI is the prefix of the URIs that name roles in certificates.
const roleURI = "spiffe://slipway/"

type rolesKey struct{}

// RolesFrom returns the roles of the calling process, or nil outside a call.
//
// A process declares its roles itself. With mTLS, only the declared roles that its certificate
// names (a URI spiffe://slipway/ROLE for each) are returned. With a shared secret, and within
// one process, all declared roles are returned: a process with the secret can claim any role.
// In these cases the rules separate correctly working roles, but do not stop a compromised one.
func RolesFrom(ctx context.Context) []string {
	roles, _ := ctx.Value(rolesKey{}).([]string)
	return roles
}

// roles returns the roles that the caller declares and, with mTLS, its certificate names.
func (s *Server) roles(ctx context.Context) []string {
	md, _ := metadata.FromIncomingContext(ctx)
	declared := md.Get(keyRole)
	if s.o.TLS == nil {
		return declared
	}
	named := namedRoles(ctx)
	return slices.DeleteFunc(slices.Clone(declared), func(role string) bool { return !slices.Contains(named, role) })
}

// namedRoles returns the roles that the caller's certificate names.
func namedRoles(ctx context.Context) []string { return rolesOf(certificate(ctx)) }

// CertificateFrom returns the SHA-256 of the public key in the caller's certificate,
// "sha256:" and 64 hex digits. It does not change when the certificate is renewed for the
// same key. It is "" if the caller has no verified certificate.
func CertificateFrom(ctx context.Context) string {
	cert := certificate(ctx)
	if cert == nil {
		return ""
	}
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// certificate returns the caller's verified certificate, or nil.
func certificate(ctx context.Context) *x509.Certificate {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return nil
	}
	return info.State.VerifiedChains[0][0]
}

func rolesOf(cert *x509.Certificate) []string {
	if cert == nil {
		return nil
	}
	var roles []string
	for _, u := range cert.URIs {
		if role, ok := strings.CutPrefix(u.String(), roleURI); ok {
			roles = append(roles, role)
		}
	}
	return roles
}
