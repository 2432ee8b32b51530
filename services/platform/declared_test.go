package platform_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	openapiv1 "slipway.dev/proto/gen/slipway/openapi/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/platform/api"
)

// TestDeclaredNames checks that the form of names that the OpenAPI document declares is the one
// that is enforced.
func TestDeclaredNames(t *testing.T) {
	t.Parallel()
	for _, m := range []proto.Message{&platformv1.OrganizationSpec{}, &platformv1.WorkspaceSpec{}, &platformv1.ValidateOrganizationNameRequest{}, &platformv1.ValidateWorkspaceNameRequest{}} {
		options := m.ProtoReflect().Descriptor().Fields().ByName("name").Options()
		pattern, _ := proto.GetExtension(options, openapiv1.E_Pattern).(string)
		least, _ := proto.GetExtension(options, openapiv1.E_MinLength).(int32)
		most, _ := proto.GetExtension(options, openapiv1.E_MaxLength).(int32)
		form := regexp.MustCompile(pattern)
		for _, name := range []string{
			"", "a", "ab", "a-b", "a--b", "-ab", "ab_", "a_b-c", "a b", "é2", "A1", strings.Repeat("a", 40), strings.Repeat("a", 41),
		} {
			n := utf8.RuneCountInString(name)
			declared := pattern != "" && form.MatchString(name) && n >= int(least) && n <= int(most)
			if err := api.CheckName(name); (err == nil) != declared {
				t.Errorf("%T, %q: declared as valid: %t; enforced: %v", m, name, declared, err)
			}
		}
	}
}

// TestDeclaredScopes checks that the OpenAPI document declares the scopes that tokens can have.
func TestDeclaredScopes(t *testing.T) {
	t.Parallel()
	options := (&platformv1.TokenSpec{}).ProtoReflect().Descriptor().Fields().ByName("scopes").Options()
	declared, _ := proto.GetExtension(options, openapiv1.E_Values).([]string)
	most, _ := proto.GetExtension(options, openapiv1.E_MaxItems).(int32)
	var enforced []string
	for _, scope := range rpc.Scopes() {
		enforced = append(enforced, string(scope))
	}
	if !slices.Equal(declared, enforced) || int(most) != limits.TokenScopes || len(enforced) != limits.TokenScopes {
		t.Errorf("declared are %d of %q; enforced %d of %q", most, declared, limits.TokenScopes, enforced)
	}
}
