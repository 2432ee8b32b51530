// Command lint checks deploy/ without a cluster. It builds each overlay of k8s/, validates it
// with the schemas of the Kubernetes release and of the used custom resources (generated from
// the sources of their Go modules), and scores it with kube-score. Exceptions are in
// kube-score.txt, each with a reason. Pods must meet the restricted Pod Security Standard. The
// chart of helm/ must render the same objects as the overlays. The compose file is loaded like
// docker compose loads it.
//
// Usage: lint DIR, where DIR is deploy/.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	kustomize   = "sigs.k8s.io/kustomize/kustomize/v5@v5.8.1"
	kubeconform = "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0"
	kubeScore   = "github.com/zegl/kube-score/cmd/kube-score@v1.20.0"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: lint DIR")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, out io.Writer) error {
	work, err := os.MkdirTemp("", "k8s-lint-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	services, err := checkCompose(ctx, filepath.Join(dir, "compose.yaml"))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "compose.yaml: %d services\n", services)
	dir = filepath.Join(dir, "k8s")
	schemas := filepath.Join(work, "schemas")
	n, err := makeSchemas(ctx, schemas)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d schemas\n", n)
	exceptions, err := readExceptions(filepath.Join(dir, "..", "lint", "kube-score.txt"))
	if err != nil {
		return err
	}
	overlays, err := filepath.Glob(filepath.Join(dir, "overlays", "*", "kustomization.yaml"))
	if err != nil || len(overlays) == 0 {
		return errors.Join(err, fmt.Errorf("no overlays in %s", dir))
	}
	var problems []error
	for _, o := range overlays {
		overlay := filepath.Dir(o)
		if err := check(ctx, overlay, schemas, exceptions, out); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", filepath.Base(overlay), err))
		}
	}
	problems = append(problems, checkChart(ctx, filepath.Dir(dir), schemas, out))
	return errors.Join(problems...)
}

// check builds one overlay and runs all checks on it.
func check(ctx context.Context, overlay, schemas string, exceptions []exception, out io.Writer) error {
	manifests, err := tool(ctx, nil, kustomize, "build", overlay)
	if err != nil {
		return err
	}
	summary, invalid := tool(ctx, manifests, kubeconform, "-strict", "-summary", "-schema-location",
		schemas+"/{{.ResourceKind}}{{.KindSuffix}}.json", "-")
	args := []string{"score", "--output-format", "ci", "--ignore-container-cpu-limit", "--exit-one-on-warning", "--kubernetes-version", "v1.36"}
	for _, e := range exceptions {
		if e.overlay == "*" || e.overlay == filepath.Base(overlay) {
			args = append(args, "--ignore-test", e.test)
		}
	}
	report, poor := tool(ctx, manifests, kubeScore, append(args, "-")...)
	if poor != nil {
		for line := range strings.Lines(string(report)) {
			if !strings.HasPrefix(line, "[OK]") && !strings.HasPrefix(line, "[SKIPPED]") {
				fmt.Fprint(out, line)
			}
		}
	}
	pods, insecure := checkPods(manifests)
	fmt.Fprintf(out, "%s: %d kinds of pods, %s", filepath.Base(overlay), pods, summary)
	return errors.Join(invalid, poor, insecure)
}

// An exception is a check of kube-score that does not apply to an overlay; "*" means all
// overlays.
type exception struct{ overlay, test string }

// readExceptions parses lines of `overlay test reason`; the reason is required.
func readExceptions(path string) ([]exception, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []exception
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || strings.HasPrefix(f[0], "#"):
		case len(f) < 4:
			return nil, fmt.Errorf("%s: lines have the form `overlay test reason`: %q", path, strings.TrimSpace(line))
		default:
			out = append(out, exception{f[0], f[1]})
		}
	}
	return out, nil
}

// tool runs a pinned Go program and returns its standard output. The error contains its
// standard error.
func tool(ctx context.Context, stdin []byte, pkg string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", pkg}, args...)...)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	cmd.Stdin = bytes.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.Bytes(), fmt.Errorf("%s: %w\n%s", pkg, err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}
