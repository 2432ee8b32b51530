package federation

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// pack returns a key packet (gateway/contract/platform.md#key-packet): the version, "P", the
// encrypted session key and the encrypted data, joined by backslashes.
func pack(to *rsa.PublicKey, version int, plain []byte) (string, error) {
	size, encryptKey := 16, func(key []byte) ([]byte, error) {
		// Existing services only support version 1.
		return rsa.EncryptPKCS1v15(rand.Reader, to, key)
	}
	if version == 2 {
		size, encryptKey = 32, func(key []byte) ([]byte, error) { return rsa.EncryptOAEP(sha256.New(), rand.Reader, to, key, nil) }
	}
	key := make([]byte, size)
	_, _ = rand.Read(key) // never fails
	session, err := encryptKey(key)
	if err != nil {
		return "", fmt.Errorf("encrypting a session key: %w", err)
	}
	data, err := encrypt(key, version, plain)
	if err != nil {
		return "", fmt.Errorf("encrypting a key packet: %w", err)
	}
	b64 := base64.StdEncoding.EncodeToString
	return strings.Join([]string{strconv.Itoa(version), "P", b64(session), b64(data)}, `\`), nil
}

// encrypt encrypts the data of a packet with its session key.
func encrypt(key []byte, version int, plain []byte) ([]byte, error) {
	if version != 2 {
		return encryptECB(key, plain)
	}
	aead, err := gcm(key)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, plain, nil), nil
}

var errPacket = errors.New("not a key packet for this key")

// unpack decrypts a key packet of either version with the paired service's private key.
func unpack(key *rsa.PrivateKey, packet string) ([]byte, error) {
	parts := strings.Split(packet, `\`)
	if len(parts) != 4 || parts[1] != "P" {
		return nil, errPacket
	}
	encryptedKey, err1 := base64.StdEncoding.DecodeString(parts[2])
	data, err2 := base64.StdEncoding.DecodeString(parts[3])
	if err1 != nil || err2 != nil {
		return nil, errPacket
	}
	switch parts[0] {
	case "1":
		session, err := rsa.DecryptPKCS1v15(nil, key, encryptedKey)
		if err != nil || len(session) != 16 {
			return nil, errPacket
		}
		return decryptECB(session, data)
	case "2":
		session, err := rsa.DecryptOAEP(sha256.New(), nil, key, encryptedKey, nil)
		if err != nil || len(session) != 32 {
			return nil, errPacket
		}
		aead, err := gcm(session)
		if err != nil {
			return nil, err
		}
		return aead.Open(nil, nil, data, nil)
	}
	return nil, errPacket
}

// decryptECB decrypts the result of encryptECB and checks the padding.
func decryptECB(key, data []byte) ([]byte, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	size := block.BlockSize()
	if len(data) == 0 || len(data)%size != 0 {
		return nil, errPacket
	}
	out := make([]byte, len(data))
	for i := 0; i < len(data); i += size {
		block.Decrypt(out[i:], data[i:])
	}
	n := int(out[len(out)-1])
	if n < 1 || n > size || !bytes.Equal(out[len(out)-n:], bytes.Repeat([]byte{byte(n)}, n)) {
		return nil, errPacket
	}
	return out[:len(out)-n], nil
}

// encryptECB encrypts with AES-ECB and PKCS#5 padding, as version 1 of the packet requires. Each
// key must be used only once.
func encryptECB(key, plain []byte) ([]byte, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	n := block.BlockSize() - len(plain)%block.BlockSize()
	out := append(bytes.Clone(plain), bytes.Repeat([]byte{byte(n)}, n)...)
	for i := 0; i < len(out); i += block.BlockSize() {
		block.Encrypt(out[i:], out[i:])
	}
	return out, nil
}

// gcm returns AES-256-GCM that prepends the nonce to the ciphertext.
func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
