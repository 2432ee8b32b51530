// Package kv connects to Redis by URL: one server, a sentinel group or a
// cluster. It knows nothing of what is kept there; each room owns a prefix.
package kv

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Dialer opens a connection to an in-process server.
type Dialer func() (net.Conn, error)

// Connect returns a client for one of
//
//	redis://[user:password@]host:port[/db]           rediss:// for TLS
//	redis+sentinel://[user:password@]host:port,host:port/MASTER[/db]
//	redis+cluster://[user:password@]host:port,host:port
//
// It does not wait for the server: what needs Redis says so when it is used. A
// command gives up after half a second, so that a Redis that hangs slows nobody
// for long. The caller closes it.
func Connect(rawURL string) (redis.UniversalClient, error) {
	o, err := options(rawURL)
	if err != nil {
		return nil, err
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = 500*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond
	o.MaxRetries = 1
	o.DialerRetries = 1 // limits are open meanwhile; nobody waits for a Redis that is down
	o.DisableIdentity = true
	o.Protocol = 2 // RESP3 looks for push messages before every reply; nobody here asks for any
	return redis.NewUniversalClient(o), nil
}

// Local returns a client of an in-process server.
func Local(dial Dialer) redis.UniversalClient {
	return redis.NewClient(&redis.Options{
		Dialer:          func(context.Context, string, string) (net.Conn, error) { return dial() },
		DisableIdentity: true,
		Protocol:        2,
		PoolSize:        16,
	})
}

func options(rawURL string) (*redis.UniversalOptions, error) {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return nil, fmt.Errorf("redis_url has no scheme; it must be redis://, rediss://, redis+sentinel:// or redis+cluster://")
	}
	switch scheme {
	case "redis", "rediss":
		o, err := redis.ParseURL(rawURL)
		if err != nil {
			return nil, fmt.Errorf("redis_url: %w", redact(err, rawURL))
		}
		return &redis.UniversalOptions{
			Addrs: []string{o.Addr}, Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLSConfig,
		}, nil
	case "redis+sentinel", "redis+cluster", "rediss+sentinel", "rediss+cluster":
		return several(scheme, rest)
	}
	return nil, fmt.Errorf("redis_url has the scheme %q; it must be redis, rediss, redis+sentinel or redis+cluster", scheme)
}

func several(scheme, rest string) (*redis.UniversalOptions, error) {
	o := &redis.UniversalOptions{}
	if strings.HasPrefix(scheme, "rediss") {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		user, err := url.Parse("redis://" + rest[:at] + "@host")
		if err != nil {
			return nil, fmt.Errorf("redis_url: the user and password are not URL-encoded")
		}
		o.Username = user.User.Username()
		o.Password, _ = user.User.Password()
		rest = rest[at+1:]
	}
	hosts, path, _ := strings.Cut(rest, "/")
	o.Addrs = strings.Split(hosts, ",")
	if strings.HasSuffix(scheme, "cluster") {
		o.IsClusterMode = true
		return o, nil
	}
	master, db, _ := strings.Cut(path, "/")
	if master == "" {
		return nil, fmt.Errorf("redis_url: a sentinel URL ends in the master's name, …host:port/MASTER")
	}
	o.MasterName = master
	if db != "" {
		if _, err := fmt.Sscanf(db, "%d", &o.DB); err != nil {
			return nil, fmt.Errorf("redis_url: the database must be a number, not %q", db)
		}
	}
	return o, nil
}

// redact keeps a password out of a parse error that quotes the URL, or what it takes for
// a part of it.
func redact(err error, rawURL string) error {
	if errors.As(err, new(*url.Error)) {
		return errors.New("it is malformed; in a user name or password, % # / ? @ and the like must be URL-encoded")
	}
	return fmt.Errorf("%s", strings.ReplaceAll(err.Error(), rawURL, "the URL"))
}
