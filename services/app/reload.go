package app

import (
	"errors"
	"sync"
	"sync/atomic"

	"slipway.dev/services/internal/config"
)

// live holds the settings in effect while the process runs. Those that are not marked with reload
// never change.
type live struct {
	mu    sync.Mutex
	cfg   atomic.Pointer[config.Config]
	hooks []func(config.Config) (apply func(), err error)
}

func newLive(cfg config.Config) *live {
	l := &live{}
	l.cfg.Store(&cfg)
	return l
}

// settings returns the settings in effect. They must not be modified.
func (l *live) settings() *config.Config { return l.cfg.Load() }

// onReload registers a function that prepares the use of new settings. All settings are used, or
// none: apply is only called if no function returned an error.
func (l *live) onReload(prepare func(config.Config) (apply func(), err error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hooks = append(l.hooks, prepare)
}

// replace applies the settings of next that may change while the process runs.
func (l *live) replace(next config.Config) (applied, restart []config.Change, err error) {
	if err := next.Validate(); err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	cfg, applied, restart := l.settings().Reload(next)
	var errs []error
	var apply []func()
	for _, prepare := range l.hooks {
		f, err := prepare(cfg)
		errs, apply = append(errs, err), append(apply, f)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	for _, f := range apply {
		f()
	}
	l.cfg.Store(&cfg)
	return applied, restart, nil
}

// Reload applies the settings of next that may change while the process runs. It logs the changes, and
// those that need a restart. err is the error of reading next. If err is not nil, or if any setting is
// invalid, Reload applies nothing and logs the error.
func (a *App) Reload(next config.Config, err error) {
	var applied, restart []config.Change
	if err == nil {
		err = checkRoles(next, a.roles)
	}
	if err == nil {
		applied, restart, err = a.live.replace(next)
	}
	if err != nil {
		a.log.Error("The settings were not reloaded: the earlier ones stay in effect", "err", err)
		return
	}
	for _, c := range applied {
		a.log.Info("A setting has changed", "setting", c.Key, "from", c.Old, "to", c.New)
	}
	for _, c := range restart {
		a.log.Warn("A setting has changed and takes effect after a restart", "setting", c.Key, "from", c.Old, "to", c.New)
	}
	a.log.Info("The settings were reloaded", "applied", len(applied), "after a restart", len(restart))
}
