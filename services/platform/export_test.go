package platform

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"slices"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// HasRule says whether somebody thought of who may make a call.
func (s *Service) HasRule(call string) bool {
	_, ok := s.rules[call]
	return ok
}

// IsForPeople says whether a call has a REST door: its handler begins with admit.
func IsForPeople(call string) bool {
	return slices.Contains(forPeople(), "/"+platformv1.PlatformService_ServiceDesc.ServiceName+"/"+call)
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

// LookUps are the questions that find whose a token is, with one parameter.
func LookUps() map[string]string {
	return map[string]string{"token": tokenQuery, "session": sessionQuery}
}

// Path is the file of the master keys.
func (k *Keys) Path() string { return k.path }
