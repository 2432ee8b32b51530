// Package kv connects to Redis by URL: a single server, a Sentinel group or a cluster. Each
// service owns a key prefix, which this package does not know.
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

// A Dialer opens a connection to an in-process server.
type Dialer func() (net.Conn, error)

// Connect returns a client for one of
//
//	redis://[user:password@]host:port[/db]           rediss:// for TLS
//	redis+sentinel://[user:password@]host:port,host:port/MASTER[/db]
//	redis+cluster://[user:password@]host:port,host:port
//
// Connect does not wait for the server. Commands time out after half a second, so that an
// unresponsive Redis does not block callers for long. The caller must close the client.
func Connect(rawURL string) (redis.UniversalClient, error) {
	o, err := options(rawURL)
	if err != nil {
		return nil, err
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = 500*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond
	o.MaxRetries = 1
	o.DialerRetries = 1 // a server that is down must not delay callers: limits are not enforced without Redis
	o.DisableIdentity = true
	o.Protocol = 2 // with RESP3 the client checks for push messages, which are not used here, before each reply
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
		return multiServerOptions(scheme, rest)
	}
	return nil, fmt.Errorf("redis_url has the scheme %q; it must be redis, rediss, redis+sentinel or redis+cluster", scheme)
}

func multiServerOptions(scheme, rest string) (*redis.UniversalOptions, error) {
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

// redact removes the password from a parse error that quotes the URL or parts of it.
func redact(err error, rawURL string) error {
	if errors.As(err, new(*url.Error)) {
		return errors.New("it is malformed; in a user name or password, % # / ? @ and the like must be URL-encoded")
	}
	return fmt.Errorf("%s", strings.ReplaceAll(err.Error(), rawURL, "the URL"))
}
