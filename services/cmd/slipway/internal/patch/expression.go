package patch

import (
	"strings"

	"slipway.dev/services/cmd/slipway/internal/usage"
)

// A bound is a package and the version that images must have at least.
type bound struct{ name, below string }

// parseBound parses PACKAGE<VERSION, or the two arguments PACKAGE VERSION.
func parseBound(args []string) (bound, error) {
	var out bound
	switch len(args) {
	case 1:
		out.name, out.below, _ = strings.Cut(args[0], "<")
	case 2:
		out.name, out.below = args[0], args[1]
	}
	out.name, out.below = strings.TrimSpace(out.name), strings.TrimSpace(out.below)
	switch {
	case strings.HasPrefix(out.below, "="):
		return out, usage.Errorf("%q: only < is supported, which excludes the version itself: 'openssl<3.0.14'", strings.Join(args, " "))
	case out.name == "" || out.below == "" || strings.ContainsAny(out.name, " \t<>=!~,|[]*") || strings.ContainsAny(out.below, " \t<>=~,|[]*"):
		return out, usage.Errorf("%q is not a package and a version, such as 'openssl<3.0.14' or openssl 3.0.14 (quote the <, which a shell would read)", strings.Join(args, " "))
	}
	return out, nil
}

// spec returns the specification of the versions that are not outdated.
func (b bound) spec() string { return b.name + ">=" + b.below }

func (b bound) String() string { return b.name + "<" + b.below }
