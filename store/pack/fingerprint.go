package pack

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store/vfs"
)

// Fingerprint identifies the source of a pack. It hashes samples of the files instead of
// gigabytes, so it does not protect against an adversary: see FORMAT.md.
type Fingerprint [sha256.Size]byte

// String returns the first 16 hexadecimal digits, which suffice for file names.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:8]) }

const (
	headBytes   = 1 << 20 // hashed at the start of each file, mostly metadata
	tailBytes   = 64 << 10
	sampleCount = 32
	sampleBytes = 4096
	// maxWholeBytes is the size up to which a .json file is hashed completely.
	maxWholeBytes = 256 << 20
)

// FingerprintOf returns the fingerprint and the total length of the files of a model. The
// order of paths does not matter.
func FingerprintOf(fsys vfs.FS, paths []string) (f Fingerprint, total int64, err error) {
	h := sha256.New()
	h.Write(binary.LittleEndian.AppendUint32(nil, tiled.LayoutVersion))
	paths = slices.Clone(paths)
	slices.SortFunc(paths, func(a, b string) int { return strings.Compare(baseName(a), baseName(b)) })
	for _, path := range paths {
		size, err := hashFile(h, fsys, path)
		if err != nil {
			return f, 0, err
		}
		total += size
	}
	h.Sum(f[:0])
	return f, total, nil
}

func baseName(path string) string {
	_, base := vfs.Split(path)
	return base
}

// hashFile adds the name, length and samples of a file to h.
func hashFile(h hash.Hash, fsys vfs.FS, path string) (size int64, err error) {
	file, err := fsys.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if size, err = file.Size(); err != nil {
		return 0, err
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
		return size, add(0, size)
	}
	if err := add(0, headBytes); err != nil {
		return 0, err
	}
	between := size - headBytes - tailBytes
	for i := range int64(sampleCount) {
		if err := add(headBytes+between/sampleCount*i, sampleBytes); err != nil {
			return 0, err
		}
	}
	return size, add(size-tailBytes, tailBytes)
}
