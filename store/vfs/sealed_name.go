package vfs

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

const (
	// sealSuffix ends the names of sealed files, so that programs without the key know them.
	sealSuffix = ".sealed"
	// nameTagBytes is the length of the keyed hash in a sealed name.
	nameTagBytes = 16
	// namePad hides a part of the length of a name: it is padded to a multiple.
	namePad = 8
)

// nameText is case-insensitive, as some file systems are.
var nameText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// nameCipher encrypts names: the first part of a sealed name is a keyed hash of the plain name
// (HMAC-SHA-256), the second is the plain name, encrypted with AES-256 in counter mode from
// that hash on. Equal names give equal sealed names, so that a file is found by its name.
type nameCipher struct {
	hashKey []byte
	block   cipher.Block
}

func newNameCipher(key [SealKeyBytes]byte) *nameCipher {
	block, err := aes.NewCipher(derive(key, nil, "llmrun sealed names: encryption"))
	if err != nil {
		panic(err) // the key has a valid length
	}
	return &nameCipher{derive(key, nil, "llmrun sealed names: hash"), block}
}

// derive returns a key for one purpose.
func derive(key [SealKeyBytes]byte, salt []byte, purpose string) []byte {
	derived, err := hkdf.Key(sha256.New, key[:], salt, purpose, SealKeyBytes)
	if err != nil {
		panic(err) // the length is valid
	}
	return derived
}

// seal returns the name on the disk of a file.
func (c *nameCipher) seal(base string) string {
	padded := make([]byte, (len(base)+namePad)/namePad*namePad) // at least one zero ends the name
	copy(padded, base)
	sealed := append(c.tag(padded), padded...)
	cipher.NewCTR(c.block, sealed[:nameTagBytes]).XORKeyStream(sealed[nameTagBytes:], padded)
	return nameText.EncodeToString(sealed) + sealSuffix
}

// open returns the plain name; ok is false for names that are not sealed with this key.
func (c *nameCipher) open(name string) (base string, ok bool) {
	text, ok := strings.CutSuffix(name, sealSuffix)
	sealed, err := nameText.DecodeString(text)
	if !ok || err != nil || len(sealed) <= nameTagBytes {
		return "", false
	}
	padded := make([]byte, len(sealed)-nameTagBytes)
	cipher.NewCTR(c.block, sealed[:nameTagBytes]).XORKeyStream(padded, sealed[nameTagBytes:])
	plain, _, ended := bytes.Cut(padded, []byte{0})
	return string(plain), ended && hmac.Equal(sealed[:nameTagBytes], c.tag(padded))
}

func (c *nameCipher) tag(padded []byte) []byte {
	h := hmac.New(sha256.New, c.hashKey)
	h.Write(padded)
	return h.Sum(nil)[:nameTagBytes:nameTagBytes]
}

// IsSealedName reports whether the last element of a path is the name of a sealed file.
func IsSealedName(name string) bool { return strings.HasSuffix(name, sealSuffix) }
