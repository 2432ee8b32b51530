package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"slipway.dev/services/internal/testkit"
)

// TestCompromisedRole calls all services with the certificate of one role. In particular,
// builders must not be able to submit builds as other users and then request their logins.
func TestCompromisedRole(t *testing.T) {
	t.Parallel()
	if !testkit.Real() {
		t.Skip("needs real servers")
	}
	p := processPerRole(t, common(t, nil, settings{"build_repository": "127.0.0.1:1/builds"}))
	build, container, platform := p.addresses["build-1"], p.addresses["container-1"], p.addresses["platform"]
	for _, c := range []struct {
		certificate, room, call string
		may                     bool
	}{
		{"builder", build, "slipway.build.v1.WorkService/TakeJob", true},
		{"builder", build, "slipway.build.v1.BuildService/SubmitBuild", false},
		{"builder", build, "slipway.build.v1.BuildService/CancelBuild", false},
		{"builder", build, "slipway.build.v1.BuildService/ListBuilds", false},
		{"builder", container, "slipway.container.v1.ContainerService/ResolveToken", false},
		{"builder", container, "slipway.container.v1.ContainerService/SubmitContainerToken", false},
		{"builder", platform, "slipway.platform.v1.AccessService/Authorize", false},
		{"builder", platform, "slipway.platform.v1.AccessService/GetCredentials", false},
		{"builder", platform, "slipway.platform.v1.IdentityService/CreateToken", false},
		{"registry", container, "slipway.container.v1.ContainerService/ResolveToken", true},
		{"registry", build, "slipway.build.v1.BuildService/SubmitBuild", false},
		{"registry", build, "slipway.build.v1.WorkService/TakeJob", false},
		{"gateway", platform, "slipway.platform.v1.IdentityService/GetServiceInfo", true},
		{"gateway", platform, "slipway.platform.v1.AccessService/GetCredentials", false},
		{"gateway", build, "slipway.build.v1.WorkService/GetBuildCredentials", false},
		{"metrics", platform, "slipway.platform.v1.AccessService/GetCredentials", false},
		{"container", build, "slipway.build.v1.BuildService/SubmitBuild", true},
		{"", build, "slipway.build.v1.BuildService/SubmitBuild", false},
		{"builder", build, "grpc.reflection.v1.ServerReflection/ServerReflectionInfo", false},
	} {
		err := p.invokeAs(t, c.certificate, c.room, "/"+c.call)
		refused := status.Code(err) == codes.PermissionDenied || status.Code(err) == codes.Unimplemented && strings.HasPrefix(c.call, "grpc.reflection.")
		if refused == c.may {
			t.Errorf("%q calls %s: %v", c.certificate, c.call, err)
		}
	}
}

// invokeAs makes a call with an empty request and the certificate of one role, claiming all
// roles.
func (p *program) invokeAs(t *testing.T, role, addr, call string) error {
	t.Helper()
	files := p.authority.certificate(t, role)
	cert, err := tls.LoadX509KeyPair(files["rpc_cert_file"], files["rpc_key_file"])
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(files["rpc_ca_file"])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: roots, Certificates: []tls.Certificate{cert},
	})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, claim := range []string{"platform", "container", "build", "builder", "inspect", "metrics", "registry", "gateway"} {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-slipway-role", claim)
	}
	return conn.Invoke(ctx, call, &emptypb.Empty{}, &emptypb.Empty{})
}
