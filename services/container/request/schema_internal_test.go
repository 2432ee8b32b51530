package request

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	openapiv1 "slipway.dev/proto/gen/slipway/openapi/v1"

	"slipway.dev/services/internal/limits"
)

// fieldAt returns the field of a container request at a path such as "packages.type".
func fieldAt(t *testing.T, path string) protoreflect.FieldDescriptor {
	t.Helper()
	m := (&containerv1.ContainerRequest{}).ProtoReflect().Descriptor()
	var field protoreflect.FieldDescriptor
	for name := range strings.SplitSeq(path, ".") {
		if field = m.Fields().ByJSONName(name); field == nil {
			t.Fatalf("there is no field %s", path)
		}
		m = field.Message()
	}
	return field
}

// TestDocumentedSizes checks that the OpenAPI document declares the length of each string and
// list that is enforced.
func TestDocumentedSizes(t *testing.T) {
	t.Parallel()
	empty := &containerv1.ContainerRequest{}
	all := append(texts(empty), sized{field: "containerConfig.layers.location", most: limits.LayerLocation})
	for _, f := range encodedFiles(empty) {
		all = append(all, sized{field: f.field, most: limits.Encoded})
	}
	for _, s := range all {
		if s.field == "buildContext.location" {
			continue // a layer, too
		}
		if declared := proto.GetExtension(fieldAt(t, s.field).Options(), openapiv1.E_MaxLength); fmt.Sprint(declared) != fmt.Sprint(s.most) {
			t.Errorf("%s: the proto declares %v characters, enforced are %d", s.field, declared, s.most)
		}
	}
	for _, l := range append(lists(empty), counted{field: "containerConfig.layers", most: limits.Layers}) {
		if declared := proto.GetExtension(fieldAt(t, l.field).Options(), openapiv1.E_MaxItems); fmt.Sprint(declared) != fmt.Sprint(l.most) {
			t.Errorf("%s: the proto declares %v elements, enforced are %d", l.field, declared, l.most)
		}
	}
}

// TestDocumentedValues checks that the OpenAPI document declares each closed set that is
// enforced, and that every value of a set that it declares is accepted.
func TestDocumentedValues(t *testing.T) {
	t.Parallel()
	enforced := map[string][]string{"packages.type": {"CONDA", "CRAN"}, "scanLevels": {"LOW", "MEDIUM", "HIGH", "CRITICAL", levelUnknown}}
	for _, s := range closedSets(&containerv1.ContainerRequest{}) {
		enforced[s.field] = s.allowed
	}
	each((&containerv1.ContainerRequest{}).ProtoReflect().Descriptor(), nil, func(path []protoreflect.FieldDescriptor) {
		var names []string
		for _, fd := range path {
			names = append(names, fd.JSONName())
		}
		name := strings.Join(names, ".")
		declared, _ := proto.GetExtension(path[len(path)-1].Options(), openapiv1.E_Values).([]string)
		if !slices.Equal(declared, enforced[name]) {
			t.Errorf("%s: the proto declares %q, enforced are %q", name, declared, enforced[name])
		}
		delete(enforced, name)
	})
	for name := range enforced {
		t.Errorf("there is no field %s", name)
	}
	for mode, level := range map[string]string{modeGzip: "9", modeZstd: "22"} {
		_, most := levelsOf(mode)
		declared, _ := proto.GetExtension(fieldAt(t, "buildCompression.level").Options(), openapiv1.E_Maximum).(int32)
		if fmt.Sprint(most) != level || most > declared {
			t.Errorf("the proto declares levels up to %d, %s takes %d", declared, mode, most)
		}
	}
}

// TestDocumentedForms checks that strings of the forms that the OpenAPI document declares are
// accepted, and some others are not.
func TestDocumentedForms(t *testing.T) {
	t.Parallel()
	sum := "sha256:" + strings.Repeat("0a", 32)
	for field, cases := range map[string]struct{ good, bad []string }{
		"containerPlatform": {
			[]string{"linux/amd64", "amd64", "x86_64", "linux/x86_64", "arm64", "aarch64", "linux/arm64/v8", "arm64/v8", "linux/amd64,linux/arm64", "amd64,aarch64"},
			[]string{"linux/s390x", "windows/amd64", "linux/arm64/v9", "linux/amd64,", "linux"},
		},
		"containerConfig.env":               {[]string{"A=b", "A=", "A=b=c"}, []string{"A", "=b"}},
		"containerConfig.layers.gzipDigest": {[]string{sum, "sha256:" + strings.Repeat("0A", 32)}, []string{"sha256:0a", "md5:" + sum}},
	} {
		pattern, _ := proto.GetExtension(fieldAt(t, field).Options(), openapiv1.E_Pattern).(string)
		form := regexp.MustCompile(pattern)
		for i, text := range slices.Concat(cases.good, cases.bad) {
			r := &containerv1.ContainerRequest{ContainerFile: "RlJPTSBhCg=="}
			switch field {
			case "containerPlatform":
				r.ContainerPlatform = text
			case "containerConfig.env":
				r.ContainerConfig = &containerv1.ContainerConfig{Env: []string{text}}
			default:
				r.ContainerConfig = &containerv1.ContainerConfig{Layers: []*containerv1.Layer{{Location: "https://a.example/b", GzipDigest: text, TarDigest: sum, GzipSize: proto.Int64(1)}}}
			}
			_, err := Parse(r, ownsNothing)
			if good := i < len(cases.good); pattern == "" || form.MatchString(text) != good || (err == nil) != good {
				t.Errorf("%s %q: the declared form %s matches: %t; enforced: %v", field, text, pattern, form.MatchString(text), err)
			}
		}
	}
}
