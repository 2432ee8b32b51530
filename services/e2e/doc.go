// Package e2e tests the whole program from outside: the built binary, through its public APIs,
// with real clients. Every scenario runs in each shape: always as one process with embedded
// defaults; with SLIPWAY_TEST_REAL (`make e2e`) also as one process per role, with two
// processes of some roles, on PostgreSQL, redis-server and nats-server, with mTLS between
// roles. With SLIPWAY_TEST_RACE (`make e2e RACE=1`, not in CI) the programs run under the race detector,
// except in scenarios that have already run under it in one process, or that measure memory or
// time.
package e2e
