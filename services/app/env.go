package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"
	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/builder/daemon"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/disk"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/policy/enforce"
	"slipway.dev/services/internal/ratelimit"
	"slipway.dev/services/internal/sqldb"
)

// An env is what the roles of a process share. New fills it in the order of its steps, and
// roles only read it. Stores that no role of the process needs are nil.
type env struct {
	cfg     config.Config
	version Build
	log     *slog.Logger
	reg     *collected
	// roles are the roles that this process plays.
	roles []role

	db    *sqldb.DB
	redis redis.UniversalClient
	nats  *nats.Conn
	// images is the embedded image store; nil if images are stored elsewhere.
	images *imageStore
	net    network
	// disks watches the disks of data_dir and blob_cache.
	disks *disk.Watch
	// trial is the trial of build steps in this process; nil if no build daemon is to run here.
	trial *daemon.Trial
	// conns are the connections to the roles that the roles of this process call, by name.
	conns map[string]grpc.ClientConnInterface

	// allChecks returns the checks of the process. It is complete when all roles have started.
	allChecks func() []check

	// certificates are those of the settings.
	certificates *certificates

	// turns divides the processors among everything that the process decodes and parses.
	turns fairshare.Turns

	// keychain and limiter create their value at the first call: processes without a role
	// that needs it neither subscribe to changes nor register metrics.
	keychain func() (*caller.Keychain, error)
	limiter  func() *ratelimit.Limiter
	// policy likewise.
	policy func() (*enforce.Enforcer, error)

	// live are the settings that change while the process runs.
	live *live

	// closers release what the process opened, in reverse order.
	closers []func() error
}

func newEnv(cfg config.Config, roles []role, version Build, log *slog.Logger, reg *collected) *env {
	e := &env{cfg: cfg, roles: roles, version: version, log: log, reg: reg, conns: map[string]grpc.ClientConnInterface{}}
	e.live, e.certificates = newLive(cfg), newCertificates()
	if level := levelOf(log); level != nil {
		e.live.onReload(func(cfg config.Config) (func(), error) {
			var next slog.Level
			err := next.UnmarshalText([]byte(cfg.LogLevel))
			return func() { level.Set(next) }, err
		})
	}
	e.turns = fairshare.NewTurns(limits.TurnsWaiting, limits.TurnWait)
	reg.MustRegister(e.turns)
	e.keychain = sync.OnceValues(e.newKeychain)
	e.limiter = sync.OnceValue(e.newLimiter)
	e.policy = sync.OnceValues(e.newPolicy)
	return e
}

// plays reports whether this process plays a role.
func (e *env) plays(name string) bool {
	return slices.ContainsFunc(e.roles, func(r role) bool { return r.name == name })
}

// isWhole reports whether this process plays all roles.
func (e *env) isWhole() bool { return len(e.roles) == len(roles()) }

// needs reports whether any role of this process needs what pick selects.
func (e *env) needs(pick func(requirements) bool) bool {
	return slices.ContainsFunc(e.roles, func(r role) bool { return pick(r.need) })
}

// names returns the names of the roles of this process.
func (e *env) names() []string {
	names := make([]string, len(e.roles))
	for i, r := range e.roles {
		names[i] = r.name
	}
	return names
}

// dir returns the path of a folder in data_dir.
func (e *env) dir(name string) string { return filepath.Join(e.cfg.DataDir, name) }

// publicHost returns the host of public_url.
func (e *env) publicHost() string {
	public, err := url.Parse(e.cfg.PublicURL)
	if err != nil {
		return "" // config.Validate has parsed it
	}
	return public.Host
}

// onClose registers a function that close calls, before those registered earlier.
func (e *env) onClose(f func() error) { e.closers = append(e.closers, f) }

// close releases everything that was opened.
func (e *env) close() error {
	var problems []error
	for _, f := range slices.Backward(e.closers) {
		problems = append(problems, f())
	}
	e.closers = nil
	return errors.Join(problems...)
}

// platform returns the client of the platform, which every role that calls it requires.
func (e *env) platform() platformv1.AccessServiceClient {
	return platformv1.NewAccessServiceClient(e.conns["platform"])
}

// builds returns the client of the build service; nil if none is configured.
func (e *env) builds() buildv1.BuildServiceClient {
	if e.conns["build"] == nil {
		return nil
	}
	return buildv1.NewBuildServiceClient(e.conns["build"])
}

// containers returns the client of the container service; nil if none is configured.
func (e *env) containers() containerv1.ContainerServiceClient {
	if e.conns["container"] == nil {
		return nil
	}
	return containerv1.NewContainerServiceClient(e.conns["container"])
}

// conda returns the client of the Conda service; nil if none is configured.
func (e *env) conda() condav1.CondaServiceClient {
	if e.conns["conda"] == nil {
		return nil
	}
	return condav1.NewCondaServiceClient(e.conns["conda"])
}

// scans returns the client of the inspect service, which scans images; nil if none is configured.
func (e *env) scans() inspectv1.InspectServiceClient {
	if e.conns["inspect"] == nil {
		return nil
	}
	return inspectv1.NewInspectServiceClient(e.conns["inspect"])
}

// newKeychain returns the keychain of registry logins. It drops a user's logins when the
// platform reports a change of that user's rights.
func (e *env) newKeychain() (*caller.Keychain, error) {
	logins, err := caller.ReadAuthFile(e.cfg.RegistryAuthFile)
	if err != nil {
		return nil, fmt.Errorf("registry_auth_file: %w", err)
	}
	keys := caller.NewKeychain(logins, e.platform())
	if e.nats != nil {
		changes, err := e.nats.Subscribe(caller.ChangedSubject, func(m *nats.Msg) { keys.Forget(string(m.Data)) })
		if err != nil {
			return nil, fmt.Errorf("listening for changes of rights: %w", err)
		}
		e.onClose(changes.Unsubscribe)
	}
	if e.cfg.UpstreamCache {
		keys = keys.WithSharedLogins()
	}
	return keys.WithBuildRepository(e.own()), nil
}

// newLimiter returns the rate limiter. A process has one, since its metrics can be
// registered only once.
func (e *env) newLimiter() *ratelimit.Limiter {
	l := ratelimit.New(e.redis, e.reg, e.log)
	e.onClose(func() error { l.Close(); return nil })
	l.SetLimits(limitsOf(e.cfg))
	charges := slices.ContainsFunc([]string{"build", "conda", "container", "inspect", "registry"}, e.plays) // the roles that may read limits
	if e.conns["platform"] != nil && charges {
		e.followLimits(l)
	} else {
		l.SetOwn(ratelimit.Own{}) // there are none to wait for
	}
	e.live.onReload(func(cfg config.Config) (func(), error) {
		return func() { l.SetLimits(limitsOf(cfg)) }, nil
	})
	return l
}

// followLimits gives the limiter the limits of single organisations, workspaces and users, which
// the platform stores.
func (e *env) followLimits(l *ratelimit.Limiter) {
	changed := make(chan struct{}, 1)
	if e.nats != nil {
		changes, err := e.nats.Subscribe(caller.LimitsSubject, func(*nats.Msg) {
			select {
			case changed <- struct{}{}:
			default: // it is about to read them
			}
		})
		if err != nil {
			e.log.Warn("Changes of limits are not listened for; they apply within half a minute", "err", err)
		} else {
			e.onClose(changes.Unsubscribe)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		caller.LimitsFollower{Platform: e.platform(), Limiter: l, Changed: changed, Log: e.log}.Run(ctx)
	}()
	e.onClose(func() error { cancel(); <-done; return nil })
}

func limitsOf(cfg config.Config) ratelimit.Limits {
	return ratelimit.Limits{
		ratelimit.Pulls:    {User: cfg.LimitPullsUser, Anonymous: cfg.LimitPullsAnonymous},
		ratelimit.Requests: {User: cfg.LimitRequestsUser, Anonymous: cfg.LimitRequestsAnonymous},
		ratelimit.Searches: {User: cfg.LimitSearchesUser, Anonymous: cfg.LimitSearchesAnonymous},
		ratelimit.Builds:   {User: cfg.LimitBuildsUser, Anonymous: cfg.LimitBuildsAnonymous, Organization: cfg.LimitBuildsOrganization},
		ratelimit.Calls:    {User: cfg.LimitPlatform, Anonymous: cfg.LimitPlatform},
	}
}

// tokenMemory returns the memory limit of the embedded Redis; 0 for an external Redis, which
// has a limit of its own.
func (e *env) tokenMemory() int64 {
	if e.cfg.RedisURL != "" {
		return 0
	}
	return int64(e.cfg.TokenMemory)
}

// store returns the host of the embedded store; "" if images are stored elsewhere.
func (e *env) store() string {
	if !e.hasStore() {
		return ""
	}
	return e.cfg.StoreAddr
}

// own returns the place for built images: the embedded store or build_repository. The zero
// value means that there is none.
func (e *env) own() caller.BuildRepository {
	if e.hasStore() {
		own := caller.BuildRepository{Host: e.cfg.StoreAddr, Public: e.publicHost(), Repository: StoreRepository}
		if e.images != nil {
			own.Login, own.IssueLogin = e.images.login, e.images.Grant
		}
		return own
	}
	host, repository, _ := strings.Cut(e.cfg.BuildRepository, "/")
	return caller.BuildRepository{Host: host, Repository: repository}
}
