package pack

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/store/vfs"
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

const (
	headBytes   = 1 << 20 // hashed at the start of each file, mostly metadata
	tailBytes   = 64 << 10
	sampleCount = 32
	sampleBytes = 4096
	// maxWholeBytes is the size up to which a .json file is hashed completely.
	maxWholeBytes = 256 << 20
)

// sampledTiling is the tiling version of the programs that wrote sampled fingerprints.
const sampledTiling = 1

// SampledFingerprint returns the fingerprint that programs of 2026 up to November stored in
// packs and sessions. It hashes the names of the files and samples of the content, so files
// with the same fingerprint may differ: use it only to find the model of an old session.
func SampledFingerprint(fsys vfs.FS, paths []string) (f Fingerprint, err error) {
	h := sha256.New()
	h.Write(binary.LittleEndian.AppendUint32(nil, sampledTiling))
	paths = slices.Clone(paths)
	slices.SortFunc(paths, func(a, b string) int { return strings.Compare(baseName(a), baseName(b)) })
	for _, path := range paths {
		if err := hashSamples(h, fsys, path); err != nil {
			return f, err
		}
	}
	h.Sum(f[:0])
	return f, nil
}

func baseName(path string) string {
	_, base := vfs.Split(path)
	return base
}

// hashSamples adds the name, length and samples of a file to h.
func hashSamples(h hash.Hash, fsys vfs.FS, path string) (err error) {
	file, err := fsys.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := file.Size()
	if err != nil {
		return err
	}
	name := baseName(path)
	h.Write(binary.LittleEndian.AppendUint64([]byte(name+"\x00"), uint64(size)))
	var buffer []byte
	add := func(off, n int64) error {
		n = min(n, size-off)
		buffer = slices.Grow(buffer[:0], int(n))[:n]
		if _, err := file.ReadAt(buffer, off); err != nil {
			return err
		}
		h.Write(buffer)
		return nil
	}
	if size <= headBytes+tailBytes || strings.HasSuffix(name, ".json") && size <= maxWholeBytes {
		return add(0, size)
	}
	if err := add(0, headBytes); err != nil {
		return err
	}
	between := size - headBytes - tailBytes
	for i := range int64(sampleCount) {
		if err := add(headBytes+between/sampleCount*i, sampleBytes); err != nil {
			return err
		}
	}
	return add(size-tailBytes, tailBytes)
}
