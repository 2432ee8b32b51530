package policy

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// Names of channels that are no Conda channels: the package indexes of Python and R.
const (
	PyPI = "pypi"
	CRAN = "cran"
)

// A Resolver returns the addresses of the channels that a name or a URL represents, as for a request.
type Resolver func(name string) ([]string, error)

// A Package is a package of a lock.
type Package struct {
	Name, Version string
	// License is the licence as the channel states it; "" if unknown.
	License string
	// Channel is the name or address of its channel, or PyPI.
	Channel string
	// Created is when the package was built; zero if unknown.
	Created time.Time
	// Locked reports whether a lock in a request states all this. A lock must state what the rules
	// need.
	Locked bool
}

func (p Package) String() string { return fault.Quote(p.Name + " " + p.Version) }

// checkChannel checks the form of an entry of policy_channels.
func checkChannel(text string) error {
	text = strings.TrimSpace(text)
	u, err := url.Parse(text)
	if err != nil || text == "" || len(text) > limits.PolicyEntry || strings.ContainsAny(text, " *") ||
		strings.Contains(text, "://") && (u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "oci") {
		return fmt.Errorf("%q must be the name of a channel such as conda-forge, its URL, %s or %s", fault.Quote(text), PyPI, CRAN)
	}
	return nil
}

// HasChannels reports whether policy_channels is set.
func (r *Rules) HasChannels() bool { return len(r.channels) > 0 }

// Channels returns the violations of policy_channels by channels, which are names or URLs. The
// entries of the rule are resolved like the channels. A channel that cannot be resolved is not
// allowed.
func (r *Rules) Channels(field string, channels []string, resolve Resolver) []Violation {
	if !r.HasChannels() {
		return nil
	}
	isAllowed := r.channelTest(resolve)
	var refused []string
	for _, name := range channels {
		if !isAllowed(name) && !slices.Contains(refused, name) {
			refused = append(refused, name)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	for i := range refused {
		refused[i] = fault.Quote(refused[i])
	}
	what := "The channel " + refused[0] + " is"
	if len(refused) > 1 {
		what = "The channels " + shown(refused) + " are"
	}
	return []Violation{{Channels, prefix(field) + fmt.Sprintf("%s not allowed here (%s): allowed are %s. Set the channels of the request to these, or ask the operator to allow the channel", what, Channels, shown(r.channels))}}
}

// channelTest returns a function that reports whether a channel is allowed.
func (r *Rules) channelTest(resolve Resolver) func(name string) bool {
	allowed := map[string]bool{}
	for _, text := range r.channels {
		if text == PyPI || text == CRAN {
			allowed[text] = true
			continue
		}
		urls, err := resolve(text)
		if err != nil {
			continue // the settings are checked when the process starts
		}
		for _, u := range urls {
			allowed[u] = true
		}
	}
	return func(name string) bool {
		if name == PyPI || name == CRAN {
			return allowed[name]
		}
		urls, err := resolve(name)
		return err == nil && !slices.ContainsFunc(urls, func(u string) bool { return !allowed[u] })
	}
}

// Steps returns the violations by packages that are installed in build steps, where the installer and
// not this service selects them. channels are those of the request. isLock reports whether the packages
// are those of a lock.
func (r *Rules) Steps(field string, channels []string, isLock bool, resolve Resolver) []Violation {
	why := func(rule Rule) Violation {
		return Violation{rule, prefix(field) + fmt.Sprintf("The packages of this request would be installed in build steps, where their channels, ages and licenses cannot be checked (%s). Leave out packages.condaOpts.mambaImage and buildTemplate, and request packages that this server solves", rule)}
	}
	var out []Violation
	if r.HasChannels() {
		isAllowed := r.channelTest(resolve)
		for _, name := range channels {
			if isLock || !isAllowed(name) || !isSameInSteps(name, resolve) {
				out = append(out, why(Channels))
				break
			}
		}
		if isLock && len(out) == 0 {
			out = append(out, why(Channels))
		}
	}
	if r.minAge > 0 {
		out = append(out, why(Age))
	}
	if len(r.licenses) > 0 {
		out = append(out, why(Licenses))
	}
	return out
}

// isSameInSteps reports whether the installer resolves a channel like this service does.
func isSameInSteps(name string, resolve Resolver) bool {
	if name == PyPI || name == CRAN || name == "nodefaults" || strings.Contains(name, "://") {
		return true
	}
	urls, err := resolve(name)
	return err == nil && len(urls) == 1 && urls[0] == "https://conda.anaconda.org/"+name
}

// HasPackages reports whether packages must be known to evaluate the rules. isLock reports whether
// they are those of a lock in a request or of a stored one, and not of this service's solver: the solver
// applies policy_channels and, if solverAges is set, conda_min_age itself.
func (r *Rules) HasPackages(isLock, solverAges bool) bool {
	return len(r.licenses) > 0 || isLock && r.HasChannels() || r.minAge > 0 && (isLock || !solverAges)
}

// clockSkew is how much the clocks of two machines may differ.
const clockSkew = time.Hour

// Packages returns the violations of the rules about packages.
func (r *Rules) Packages(field string, packages []Package, now time.Time, resolve Resolver) []Violation {
	out := r.channelsOf(field, packages, resolve)
	var young, refused []string
	known := map[string]string{} // the entries that refuse licences
	for _, p := range packages {
		if r.minAge > 0 && p.Created.IsZero() && p.Locked {
			young = append(young, p.String()+" (the lock does not state when it was built)")
		}
		if r.minAge > 0 && !p.Created.IsZero() && now.Add(clockSkew).Sub(p.Created) < r.minAge {
			young = append(young, fmt.Sprintf("%s (built %s)", p, p.Created.UTC().Format(time.DateOnly)))
		}
		if len(r.licenses) == 0 {
			continue
		}
		if p.License == "" && p.Locked {
			refused = append(refused, p.String()+" has no license in the lock")
			continue
		}
		entry, ok := known[p.License]
		if !ok {
			entry = r.refusal(p.License)
			known[p.License] = entry
		}
		if entry != "" {
			refused = append(refused, fmt.Sprintf("%s has the license %s, refused by %s", p, licenseText(p.License), entry))
		}
	}
	if len(young) > 0 {
		out = append(out, Violation{Age, prefix(field) + fmt.Sprintf("Packages must be at least %s old here (%s), and these are not: %s. Request earlier versions, or ask the operator", age(r.minAge), Age, shown(young))})
	}
	if len(refused) > 0 {
		out = append(out, Violation{Licenses, prefix(field) + fmt.Sprintf("Packages with some licenses are refused here (%s): %s. Request other packages, or ask the operator", Licenses, shown(refused))})
	}
	return out
}

// channelsOf returns the violations of policy_channels by packages.
func (r *Rules) channelsOf(field string, packages []Package, resolve Resolver) []Violation {
	var names []string
	seen := map[string]bool{}
	for _, p := range packages {
		if !seen[p.Channel] {
			seen[p.Channel] = true
			names = append(names, p.Channel)
		}
	}
	return r.Channels(field, names, resolve)
}

func licenseText(license string) string {
	if license == "" {
		return "(unknown)"
	}
	return fault.Quote(license)
}

// age formats an age, in days if it is a whole number of days.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%d days", d/day)
	}
	return d.String()
}
