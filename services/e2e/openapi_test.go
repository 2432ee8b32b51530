package e2e

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"slipway.dev/gateway/contracttest"
	"slipway.dev/proto/gen/openapi"

	"slipway.dev/services/internal/testkit"
)

// documented validates a response against the OpenAPI document of its API.
func documented(t testing.TB, method, path string, r reply) {
	t.Helper()
	face := containerDocument
	below, isPlatform := strings.CutPrefix(path, "/api/")
	if isPlatform {
		face, path = platformDocument, "/"+below
	} else if strings.HasPrefix(path, "/v2") || strings.HasPrefix(path, "/openapi") {
		return
	}
	doc, err := face()
	if err != nil {
		t.Fatal(err)
	}
	if isPlatform && r.status == http.StatusOK {
		facts, err := published()
		if err != nil {
			t.Fatal(err)
		}
		if err := facts.Check(method, path, r.body); err != nil {
			t.Error(err)
		}
	}
	if code := errorCode.FindSubmatch(r.body); r.status >= 400 && code != nil && !strings.Contains(errorCodes(), "\n| `"+string(code[1])+"` |") {
		t.Errorf("%s %s returned the code %s, which gateway/contract/errors.md does not list", method, path, code[1])
	}
	// Only errors may come from undocumented paths.
	err = doc.Check(method, path, r.status, r.header, r.body)
	if err != nil && (!errors.Is(err, contracttest.ErrUndocumented) || r.status < 400) {
		t.Error(err)
	}
}

var (
	errorCode  = regexp.MustCompile(`"code":"([^"]*)"`)
	errorCodes = sync.OnceValue(func() string {
		raw, _ := os.ReadFile("../../gateway/contract/errors.md") // without it, every code is unknown
		return string(raw)
	})
	containerDocument = sync.OnceValues(func() (*contracttest.Document, error) { return contracttest.ReadDocument(openapi.Container) })
	platformDocument  = sync.OnceValues(func() (*contracttest.Document, error) { return contracttest.ReadDocument(openapi.Platform) })
	published         = sync.OnceValues(contracttest.ReadPublished)
)

// TestDocumentsAreCurrent checks that the documents have the versions of the running program.
func TestDocumentsAreCurrent(t *testing.T) {
	t.Parallel()
	p := oneProcess(t, common(t, nil, nil))
	for path, face := range map[string]func() (*contracttest.Document, error){"/service-info": containerDocument, "/api/service-info": platformDocument} {
		info := p.call(http.MethodGet, path, nil).json(t)["serviceInfo"].(map[string]any)
		version := info["apiVersion"]
		if version == nil {
			version = info["version"]
		}
		if doc, err := face(); err != nil || doc.Info.Version != version {
			t.Errorf("%s: the document has the version %s, the program %v: %v", path, doc.Info.Version, version, err)
		}
	}
}

// generator generates clients from OpenAPI documents.
const generator = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2"

// TestGeneratedClients generates clients from the documents and calls both APIs with them (see
// client/client_test.go). It compiles the generator first.
func TestGeneratedClients(t *testing.T) {
	t.Parallel()
	if !testkit.Real() {
		t.Skip("`make e2e` generates the clients")
	}
	up := testkit.NewRegistry(t, testkit.Basic)
	image := up.Push(t, "library/tool:v1", testkit.Index(t, true, "amd64", "arm64"))
	clients := generateClients(t)
	// With workers, which the calls about builds need.
	eachCopyShape(t, []string{up.Host}, settings{"master_key_file": newMasterKey(t)}, func(t *testing.T, p *program) {
		goRun(t, clients, []string{
			"SERVER=" + p.url, "TOKEN=" + p.token, "IMAGE=" + image,
			"REGISTRY=" + up.Host, "USERNAME=" + testkit.User, "PASSWORD=" + testkit.Password,
		}, "test", "-count=1", ".")
	})
}

// generateClients returns a copy of the module client with the generated code.
func generateClients(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("client")); err != nil {
		t.Fatal(err)
	}
	for name, document := range map[string][]byte{"container": openapi.Container, "platform": openapi.Platform} {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, name), 0o755), os.WriteFile(filepath.Join(dir, name+".json"), document, 0o644)); err != nil {
			t.Fatal(err)
		}
		goRun(t, dir, nil, "run", generator, "-config", name+".yml", name+".json")
	}
	return dir
}

// goRun runs the go command in another module.
func goRun(t *testing.T, dir string, environ []string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "GOWORK=off"), environ...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
