package conda

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	"slipway.dev/services/cmd/slipway/internal/output"
	"slipway.dev/services/cmd/slipway/internal/session"
)

// explainPackage shows why a package is in an environment.
func explainPackage(cmd *cobra.Command, c *session.Client, format *output.Format, q *condav1.LockQuery, name string) error {
	var res condav1.ExplainPackageResponse
	body := &condav1.PackageQuery{Lock: q, Package: name}
	raw, err := c.Do(cmd.Context(), session.Call{Method: http.MethodPost, Path: "/v1alpha1/conda/why", Signed: true, Body: body}, &res)
	if err != nil {
		return fmt.Errorf("explaining: %w", err)
	}
	found := false
	var out strings.Builder
	for i, p := range res.GetPlatforms() {
		if i > 0 {
			out.WriteByte('\n')
		}
		found = found || p.GetPackage() != nil
		writeReasons(&out, p, name)
	}
	if format.IsDocument() {
		err = format.Print(cmd.OutOrStdout(), raw, nil)
	} else if found {
		_, err = io.WriteString(cmd.OutOrStdout(), output.PlainText(out.String()))
	}
	switch {
	case err != nil:
		return fmt.Errorf("printing the reasons: %w", err)
	case !found:
		return fmt.Errorf("%s is not in the environment", name)
	}
	return nil
}

// writeReasons writes the chains of one platform, each requirement below the package that has
// it.
func writeReasons(out *strings.Builder, p *condav1.PackageReasons, name string) {
	of := p.GetPackage()
	if of == nil {
		fmt.Fprintf(out, "%s is not in the environment for %s\n", name, p.GetPlatform())
		return
	}
	fmt.Fprintf(out, "%s %s for %s\n", of.GetName(), releaseOf(of), p.GetPlatform())
	for _, chain := range p.GetChains() {
		for depth, step := range chain.GetSteps() {
			who := "you asked for"
			if step.GetPackage() != "" {
				who = step.GetPackage() + " " + step.GetVersion() + " needs"
			}
			fmt.Fprintf(out, "%s%s %s\n", strings.Repeat("  ", min(depth+1, deepest)), who, step.GetSpec())
		}
	}
	for _, step := range p.GetConstraints() {
		fmt.Fprintf(out, "  %s %s only allows %s\n", step.GetPackage(), step.GetVersion(), step.GetSpec())
	}
}
