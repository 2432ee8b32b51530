package app

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// platformURLs is a sorted set of the platform_url of each replica, by the time in seconds
	// at which a replica last wrote it.
	platformURLs = "app:platform-urls"
	// announceEvery is the interval at which a replica writes its platform_url, and forgetAfter the
	// time after which an entry is deleted.
	announceEvery = time.Minute
	forgetAfter   = 3 * announceEvery
)

// watchReplicas warns while replicas that share a Redis differ in platform_url. The address of
// the platform is part of a user's identity, so limits count a user separately for each address.
func (e *env) watchReplicas(context.Context) (parts, error) {
	if e.redis == nil || e.cfg.RedisURL == "" || e.cfg.PlatformURL == "" {
		return parts{}, nil
	}
	return parts{run: []func(context.Context) error{func(ctx context.Context) error {
		tick := time.NewTicker(announceEvery)
		defer tick.Stop()
		var warned []string
		for {
			if others := e.otherPlatformURLs(ctx, time.Now()); !slices.Equal(others, warned) {
				if warned = others; len(others) > 0 {
					e.log.WarnContext(ctx, "Other replicas have another platform_url: limits count each user once for each of them; set the same one everywhere",
						"platform_url", e.cfg.PlatformURL, "others", others)
				}
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	}}}, nil
}

// otherPlatformURLs writes this replica's platform_url and returns those of others, in order.
// It returns none while Redis does not respond.
func (e *env) otherPlatformURLs(ctx context.Context, now time.Time) []string {
	own := strings.TrimRight(e.cfg.PlatformURL, "/")
	var all *redis.StringSliceCmd
	_, err := e.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAdd(ctx, platformURLs, redis.Z{Score: float64(now.Unix()), Member: own})
		p.ZRemRangeByScore(ctx, platformURLs, "-inf", strconv.FormatInt(now.Add(-forgetAfter).Unix(), 10))
		all = p.ZRange(ctx, platformURLs, 0, 9)
		return nil
	})
	if err != nil {
		return nil // the check of Redis reports it
	}
	others := slices.DeleteFunc(all.Val(), func(u string) bool { return u == own })
	slices.Sort(others)
	return others
}
