package pack

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
)

// Fingerprint identifies the content of a model's files: see FORMAT.md.
type Fingerprint [sha256.Size]byte

// String returns the first 16 hexadecimal digits, which suffice for file names.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:8]) }

// SourceFile is a file of a model.
type SourceFile struct {
	// Role is the name of a file that readers find by its name, such as config.json. It is ""
	// for files of weights, whose names do not change the model.
	Role string
	Size int64
	Sum  [sha256.Size]byte // SHA-256 of the content
}

// fingerprintMark begins the bytes that are hashed.
const fingerprintMark = "LLMRSRC1"

// FingerprintOf returns the fingerprint of a model with these files, in any order.
func FingerprintOf(files []SourceFile) (f Fingerprint) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b SourceFile) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), bytes.Compare(a.Sum[:], b.Sum[:]))
	})
	h := sha256.New()
	h.Write([]byte(fingerprintMark))
	for _, file := range files {
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(file.Role))))
		h.Write([]byte(file.Role))
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(file.Size)))
		h.Write(file.Sum[:])
	}
	h.Sum(f[:0])
	return f
}
