package platform

import (
	"context"
	"crypto/rand"
	"crypto/rsa"

	"slipway.dev/services/platform/orgs"
)

// Requirements are the calls that the table of people lists, and how often.
func Requirements() map[string]int {
	times := map[string]int{}
	for _, rule := range people() {
		for _, call := range rule.calls {
			times[call]++
		}
	}
	return times
}

// NamesItsScope says whether admit finds in a request where the call acts, if the
// call asks for a role anywhere.
func NamesItsScope(call string, req any) bool {
	need := requirements()[call].Need
	_, ok := scopeOf(req, need)
	return ok || need == orgs.Need{}
}

// Sweep does at once what Run does from time to time.
func (s *Service) Sweep(ctx context.Context) error { return s.sweep(ctx) }

// Unpack reads a key packet.
func Unpack(key *rsa.PrivateKey, packet string) ([]byte, error) { return unpack(key, packet) }

// PacketsForTests answers a key, and what makes packets for it.
func PacketsForTests() (*rsa.PrivateKey, func(version int, plain string) string) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key, func(version int, plain string) string {
		packet, err := pack(&key.PublicKey, version, []byte(plain))
		if err != nil {
			panic(err)
		}
		return packet
	}
}
