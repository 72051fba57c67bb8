package vfs

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// ErrKeyFile is wrapped by the errors of [ReadKeyFile] about a file that holds no usable key.
var ErrKeyFile = errors.New("not a usable key file")

// keyFileMost is more than any form of a key takes.
const keyFileMost = 1 << 10

// ReadKeyFile reads a key of 32 bytes for [Sealed]: 32 bytes as they are, or 64 hexadecimal
// digits or base64 on one line. It refuses files that other users may read or change, that are
// links, and keys that are obviously not random.
func ReadKeyFile(name string) (key [SealKeyBytes]byte, err error) {
	refuse := func(reason string, args ...any) ([SealKeyBytes]byte, error) {
		return [SealKeyBytes]byte{}, wrap("use", name, noOffset, fmt.Errorf("%w: %s", ErrKeyFile, fmt.Sprintf(reason, args...)))
	}
	data, err := ReadFile(OSOwn(), name, keyFileMost)
	switch {
	case errors.Is(err, ErrNotRegular):
		return refuse("it is a directory, a link or a device; name the file itself")
	case errors.Is(err, ErrTooLarge):
		return refuse("it is longer than %d bytes; %s", keyFileMost, keyForms)
	case err != nil:
		return key, err
	}
	if err := checkKeyAccess(name); err != nil {
		return refuse("%v", err)
	}
	decoded, ok := decodeKey(data)
	if !ok {
		return refuse("it has %d bytes; %s", len(data), keyForms)
	}
	copy(key[:], decoded)
	if weakKey(decoded) {
		return refuse("its bytes are text or repeat, so they are not random; %s", keyForms)
	}
	return key, nil
}

// keyForms says how to make a key.
const keyForms = "a key is 32 random bytes, or 64 hexadecimal digits, or base64; make one with: head -c 32 /dev/urandom > FILE; chmod 600 FILE"

// decodeKey returns the 32 bytes of a key file.
func decodeKey(data []byte) (key []byte, ok bool) {
	if len(data) == SealKeyBytes {
		return data, true
	}
	text := strings.TrimSpace(string(data))
	decoders := []func(string) ([]byte, error){
		hex.DecodeString, base64.StdEncoding.DecodeString, base64.RawStdEncoding.DecodeString,
		base64.URLEncoding.DecodeString, base64.RawURLEncoding.DecodeString,
	}
	for _, decode := range decoders {
		if key, err := decode(text); err == nil && len(key) == SealKeyBytes {
			return key, true
		}
	}
	return nil, false
}

// weakKey reports whether a key is text, such as a password or half of a hexadecimal key, or has
// fewer than 8 different bytes. Neither happens to random bytes.
func weakKey(key []byte) bool {
	text := true
	different := map[byte]bool{}
	for _, c := range key {
		text = text && (c >= ' ' && c <= '~' || c == '\n' || c == '\r' || c == '\t')
		different[c] = true
	}
	return text || len(different) < 8
}
