// Package e2e tests the whole program from outside: the built binary, through
// its public APIs, with real clients. Every scenario runs in every shape there
// is: one process on embedded defaults always; with SLIPWAY_TEST_REAL
// (`make e2e`) also one process per role, two of some, on PostgreSQL,
// redis-server and nats-server, with mTLS between roles. With SLIPWAY_TEST_RACE
// (`make e2e RACE=1`) programs run under the race detector, except where a scenario
// has run so in one process already, or holds memory and time against a bound.
package e2e
