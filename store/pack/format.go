package pack

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/crc"
)

const (
	// Version is the version of the format, see FORMAT.md. planesVersion is that of packs with planes,
	// which differ in nothing else.
	Version       = 2
	planesVersion = 3
	// Suffix is the suffix of the file names of packs.
	Suffix = ".pack"
	// BlockBytes is the size of a checksummed block. Reads that begin and end at block
	// boundaries of a section need no copy.
	BlockBytes = 64 << 10
	// Align is the alignment of tensors in a section: a cache line.
	Align = 64

	// pageBytes is the alignment of extents, which direct I/O requires.
	pageBytes   = 4096
	headerBytes = pageBytes
	footerBytes = 64
	// maxIndexBytes limits the index. The index of the largest models has 3 MiB.
	maxIndexBytes = 256 << 20

	headerMagic = "LLMRPACK"
	footerMagic = "LLMREND."
)

const checksumSeed = 0x6c6c6d72756e5043

func checksum(p []byte) uint64 { return store.Sum64(checksumSeed, p) }

// blockChecksum returns the CRC-32C of a block, which every read verifies. Header, index
// and footer, which are read once, have 64-bit checksums.
func blockChecksum(p []byte) uint32 { return crc.Update(0, p) }

// alignUp rounds n up to a multiple of unit. n must be far from overflow.
func alignUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// blockCount returns the number of blocks, and of checksums, of an extent.
func blockCount(size int64) int64 { return (size + BlockBytes - 1) / BlockBytes }

// encodeHeader returns the header, which is the same in every pack of a version.
func encodeHeader(version uint32) []byte {
	h := make([]byte, 0, headerBytes)
	h = append(h, headerMagic...)
	h = binary.LittleEndian.AppendUint32(h, version)
	h = binary.LittleEndian.AppendUint32(h, BlockBytes)
	h = binary.LittleEndian.AppendUint64(h, checksum(h))
	return h[:headerBytes]
}

// checkHeader rejects a file that is not a pack or has another version, and returns its version.
func checkHeader(path string, h []byte) (version uint32, err error) {
	formatError := func(off int64, field, reason, hint string, kind error) error {
		return &store.FormatError{Path: path, Off: off, Field: field, Reason: reason, Hint: hint, Kind: kind}
	}
	if string(h[:8]) != headerMagic {
		return 0, formatError(0, "magic", fmt.Sprintf("%q is not %q", h[:8], headerMagic), "the file is not a pack", store.ErrFormat)
	}
	version = binary.LittleEndian.Uint32(h[8:])
	if version != Version && version != planesVersion {
		return 0, formatError(8, "version", fmt.Sprintf("%d is unknown; this program reads %d and %d", version, Version, planesVersion), "import the model again with this program", store.ErrUnsupported)
	}
	if !bytes.Equal(h, encodeHeader(version)) {
		return 0, formatError(0, "header", "is damaged", "import the model again", store.ErrFormat)
	}
	return version, nil
}

// footer locates the index.
type footer struct {
	index, length int64  // offset and length of the index
	sum           uint64 // checksum of the index
	file          int64  // length of the whole file
}

// encode returns the footer in the form of FORMAT.md.
func (f footer) encode() []byte {
	b := make([]byte, 0, footerBytes)
	for _, v := range []uint64{uint64(f.index), uint64(f.length), f.sum, uint64(f.file), 0, 0} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint64(b, checksum(b))
	return append(b, footerMagic...)
}

// decodeFooter checks the footer of a file of size bytes.
func decodeFooter(path string, b []byte, size int64) (f footer, err error) {
	formatError := func(reason string, kind error) (footer, error) {
		return footer{}, &store.FormatError{
			Path: path, Off: size - footerBytes, Field: "footer", Reason: reason,
			Hint: "the file may be truncated; import the model again", Kind: kind,
		}
	}
	if string(b[56:]) != footerMagic {
		return formatError("is missing", store.ErrTruncated)
	}
	number := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	if number(6) != checksum(b[:48]) || number(4)|number(5) != 0 {
		return formatError("is damaged", store.ErrFormat)
	}
	end := uint64(size - footerBytes)
	switch {
	case number(3) != uint64(size):
		return formatError(fmt.Sprintf("the file was written with %d bytes and has %d", number(3), size), store.ErrTruncated)
	case number(0) < headerBytes || number(0)%pageBytes != 0 || number(0) > end || number(1) != end-number(0):
		return formatError(fmt.Sprintf("the index, %d bytes at %d, does not end before the footer", number(1), number(0)), store.ErrFormat)
	case number(1) > maxIndexBytes:
		return formatError(fmt.Sprintf("the index has %d bytes; this program reads at most %d", number(1), maxIndexBytes), store.ErrUnsupported)
	}
	return footer{int64(number(0)), int64(number(1)), number(2), size}, nil
}
