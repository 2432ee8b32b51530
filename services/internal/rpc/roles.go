package rpc

import (
	"context"
	"crypto/x509"
	"slices"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// roleURI is what a certificate calls a role, before its name.
const roleURI = "spiffe://slipway/"

type rolesKey struct{}

// RolesFrom are the roles that the calling process plays; none outside a call.
//
// Which roles it plays it says itself. Over mTLS it is believed about those that
// its certificate names (a URI spiffe://slipway/ROLE for each). With a shared
// secret, or on loopback without either, and within one process it is believed:
// who has the secret can be any part, so rules keep parts apart that work as they
// should and not one that was taken over.
func RolesFrom(ctx context.Context) []string {
	roles, _ := ctx.Value(rolesKey{}).([]string)
	return roles
}

// roles are those that a caller says it plays, and may.
func (s *Server) roles(ctx context.Context) []string {
	md, _ := metadata.FromIncomingContext(ctx)
	said := md.Get(keyRole)
	if s.o.TLS == nil {
		return said
	}
	named := namedRoles(ctx)
	return slices.DeleteFunc(slices.Clone(said), func(role string) bool { return !slices.Contains(named, role) })
}

// namedRoles are those that the caller's certificate names.
func namedRoles(ctx context.Context) []string {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return nil
	}
	return rolesOf(info.State.VerifiedChains[0][0])
}

func rolesOf(cert *x509.Certificate) []string {
	var roles []string
	for _, u := range cert.URIs {
		if role, ok := strings.CutPrefix(u.String(), roleURI); ok {
			roles = append(roles, role)
		}
	}
	return roles
}
