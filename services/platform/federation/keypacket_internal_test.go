package federation

import (
	"crypto/rand"
	"crypto/rsa"
	"testing"
)

func FuzzKeyPacket(f *testing.F) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		f.Fatal(err)
	}
	for version, plain := range map[int]string{1: "x", 2: "{}"} {
		packet, err := pack(&key.PublicKey, version, []byte(plain))
		if err != nil {
			f.Fatal(err)
		}
		if got, err := unpack(key, packet); err != nil || string(got) != plain {
			f.Errorf("version %d: got %q, %v", version, got, err)
		}
		f.Add(packet)
	}
	f.Add(`1\P\\`)
	f.Fuzz(func(t *testing.T, packet string) {
		plain, err := unpack(key, packet)
		if err != nil && plain != nil {
			t.Errorf("got %q with %v", plain, err)
		}
	})
}
