package app

import (
	"fmt"
	"time"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/conda/channel"
	"slipway.dev/services/container/conda"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/policy"
	"slipway.dev/services/internal/policy/enforce"
)

// PolicyRules reads the operator's rules of the settings, with the files of keys.
func PolicyRules(c config.Config) (*policy.Rules, error) {
	settings, err := policySettings(c)
	if err != nil {
		return nil, err
	}
	if _, err := policyChannels(c); err != nil {
		return nil, err
	}
	return policy.New(settings, readKeys)
}

// policySettings returns the settings of rules with the default images.
func policySettings(c config.Config) (policy.Settings, error) {
	images, err := conda.Defaults{Mamba: c.CondaMambaImage, Base: c.CondaBaseImage}.Qualified()
	settings := c.Policy()
	settings.Defaults = []string{images.Base, images.Mamba}
	return settings, err
}

// imageRules returns the rules about images that workers get with each build; nil if there are none.
func (e *env) imageRules() (*buildv1.ImageRules, error) {
	if _, err := e.policy(); err != nil { // with the files of keys
		return nil, err
	}
	settings, err := policySettings(e.cfg)
	if err != nil {
		return nil, err
	}
	return enforce.ImageRules(settings, enforce.Mode(e.cfg.PolicyMode), readKeys)
}

// resolver returns the addresses of channels.
func resolver(names *channel.Names) policy.Resolver {
	return func(name string) ([]string, error) {
		found, _, err := names.Expand(name)
		var out []string
		for _, c := range found {
			out = append(out, c.URL)
		}
		return out, err
	}
}

// policyChannels returns the names of channels, if all entries of policy_channels can be resolved.
func policyChannels(c config.Config) (*channel.Names, error) {
	names, err := channel.NewNames(c.CondaChannelAlias, c.CondaChannels, c.CondaDefaults...)
	if err != nil {
		return nil, err
	}
	for _, name := range c.PolicyChannels {
		if name == policy.PyPI || name == policy.CRAN {
			continue
		}
		if _, err := resolver(names)(name); err != nil {
			return nil, fmt.Errorf("policy_channels: %w", err)
		}
	}
	return names, nil
}

// newPolicy returns what applies the operator's rules. A process has one, since its metrics can be
// registered only once.
func (e *env) newPolicy() (*enforce.Enforcer, error) {
	rules := &policy.Rules{}
	if e.plays("container") || e.plays("build") || e.plays("registry") { // workers get the rules with each build
		var err error
		if rules, err = PolicyRules(e.cfg); err != nil {
			return nil, err
		}
	}
	names, err := policyChannels(e.cfg)
	if err != nil {
		return nil, err
	}
	e.live.onReload(func(cfg config.Config) (func(), error) {
		next, err := policyChannels(cfg)
		return func() { names.Replace(next) }, err
	})
	return enforce.New(enforce.Options{
		Rules: rules, Mode: enforce.Mode(e.cfg.PolicyMode), Resolve: resolver(names), Registries: e.net.client,
		Metrics: e.reg, Log: e.log.With("service", "policy"), Now: time.Now,
	}), nil
}

// solverAge returns the minimum age of packages that the solver applies: with the policy_mode warn it
// applies none, and younger packages are only reported.
func (e *env) solverAge() time.Duration {
	if enforce.Mode(e.cfg.PolicyMode) == enforce.Warn {
		return 0
	}
	return e.cfg.CondaMinAge
}
