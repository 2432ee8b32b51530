package conda_test

import (
	"regexp"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	openapiv1 "slipway.dev/proto/gen/slipway/openapi/v1"

	"slipway.dev/services/conda/lockfile"
	"slipway.dev/services/internal/oci"
)

// TestDeclaredLocks checks that the OpenAPI document declares the formats of locks and the
// platforms that are enforced.
func TestDeclaredLocks(t *testing.T) {
	t.Parallel()
	options := func(m proto.Message, name protoreflect.Name) proto.Message {
		return m.ProtoReflect().Descriptor().Fields().ByName(name).Options()
	}
	for _, m := range []proto.Message{&condav1.LockQuery{}, &buildv1.GetBuildLockRequest{}} {
		declared, _ := proto.GetExtension(options(m, "format"), openapiv1.E_Values).([]string)
		for _, format := range append(slices.Clone(declared), "xml") {
			if err := lockfile.Format(format).Check(); (err == nil) != (format != "xml") || len(declared) != 4 {
				t.Errorf("%T, %s: %v", m, format, err)
			}
		}
	}
	pattern, _ := proto.GetExtension(options(&condav1.LockQuery{}, "platforms"), openapiv1.E_Pattern).(string)
	for _, text := range []string{"linux/amd64", "x86_64", "aarch64", "linux/arm64/v8", "arm64"} {
		p, err := oci.ParsePlatform(text)
		if err != nil || p.Variant != "" || pattern == "" || !regexp.MustCompile(pattern).MatchString(text) {
			t.Errorf("%s: %v, %v", text, p, err)
		}
	}
}
