package orgs

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	openapiv1 "slipway.dev/proto/gen/slipway/openapi/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// TestDeclaredValues checks that the OpenAPI document declares the roles and visibilities that
// are enforced.
func TestDeclaredValues(t *testing.T) {
	t.Parallel()
	roles := slices.Clone(roleNames()[1:])
	slices.Reverse(roles)
	for _, c := range []struct {
		message  proto.Message
		field    protoreflect.Name
		enforced []string
	}{
		{&platformv1.ParticipantRole{}, "role", roles},
		{&platformv1.RoleSpec{}, "role", []string{orgRoleOwner, orgRoleMember}},
		{&platformv1.WorkspaceSpec{}, "visibility", []string{visibilityPrivate, visibilityShared}},
	} {
		declared, _ := proto.GetExtension(c.message.ProtoReflect().Descriptor().Fields().ByName(c.field).Options(), openapiv1.E_Values).([]string)
		if !slices.Equal(declared, c.enforced) {
			t.Errorf("%T declares %q, enforced are %q", c.message, declared, c.enforced)
		}
	}
}
