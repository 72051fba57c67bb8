package pack

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/crc"
)

const (
	// Version is that of the format, see FORMAT.md.
	Version = 2
	// Suffix is how names of packs end.
	Suffix = ".pack"
	// BlockBytes is the unit of checksums. Reads that begin and end at whole
	// blocks of a section need no copy.
	BlockBytes = 64 << 10
	// Align is the alignment of tensors in a section: a cache line.
	Align = 64

	// pageBytes is the alignment of extents, what direct I/O asks for.
	pageBytes   = 4096
	headerBytes = pageBytes
	footerBytes = 64
	// maxIndexBytes bounds the index; that of the largest models has 3 MiB.
	maxIndexBytes = 256 << 20

	headerMagic = "LLMRPACK"
	footerMagic = "LLMREND."
)

const checksumSeed = 0x6c6c6d72756e5043

func checksum(p []byte) uint64 { return store.Sum64(checksumSeed, p) }

// blockChecksum is the checksum of a block, which is computed each time that it is read.
// The rest of the file, which is read once, has longer ones.
func blockChecksum(p []byte) uint32 { return crc.Update(0, p) }

// alignUp rounds n, which is far from the largest number, up.
func alignUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// blockCount returns how many blocks, and sums, an extent has.
func blockCount(size int64) int64 { return (size + BlockBytes - 1) / BlockBytes }

// encodeHeader returns the first bytes of every pack.
func encodeHeader() []byte {
	h := make([]byte, 0, headerBytes)
	h = append(h, headerMagic...)
	h = binary.LittleEndian.AppendUint32(h, Version)
	h = binary.LittleEndian.AppendUint32(h, BlockBytes)
	h = binary.LittleEndian.AppendUint64(h, checksum(h))
	return h[:headerBytes]
}

// checkHeader refuses a file that is no pack, or one of another version.
func checkHeader(path string, h []byte) error {
	refuse := func(off int64, field, reason, hint string, kind error) error {
		return &store.FormatError{Path: path, Off: off, Field: field, Reason: reason, Hint: hint, Kind: kind}
	}
	if string(h[:8]) != headerMagic {
		return refuse(0, "magic", fmt.Sprintf("%q is not %q", h[:8], headerMagic), "this is no pack", store.ErrFormat)
	}
	if v := binary.LittleEndian.Uint32(h[8:]); v != Version {
		return refuse(8, "version", fmt.Sprintf("%d is unknown, %d is read", v, Version), "import the model again with this program", store.ErrUnsupported)
	}
	if !bytes.Equal(h, encodeHeader()) {
		return refuse(0, "header", "is damaged", "import the model again", store.ErrFormat)
	}
	return nil
}

// footer says where the index is.
type footer struct {
	index, length int64 // offset and length of the index
	sum           uint64
	file          int64 // length of the whole file
}

func (f footer) encode() []byte {
	b := make([]byte, 0, footerBytes)
	for _, v := range []uint64{uint64(f.index), uint64(f.length), f.sum, uint64(f.file), 0, 0} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint64(b, checksum(b))
	return append(b, footerMagic...)
}

// decodeFooter checks the last bytes of a file of size bytes.
func decodeFooter(path string, b []byte, size int64) (f footer, err error) {
	refuse := func(reason string, kind error) (footer, error) {
		return footer{}, &store.FormatError{
			Path: path, Off: size - footerBytes, Field: "footer", Reason: reason,
			Hint: "the file may have been cut off; import the model again", Kind: kind,
		}
	}
	if string(b[56:]) != footerMagic {
		return refuse("is missing", store.ErrTruncated)
	}
	number := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	if number(6) != checksum(b[:48]) || number(4)|number(5) != 0 {
		return refuse("is damaged", store.ErrFormat)
	}
	end := uint64(size - footerBytes)
	switch {
	case number(3) != uint64(size):
		return refuse(fmt.Sprintf("the file was written with %d bytes and has %d", number(3), size), store.ErrTruncated)
	case number(0) < headerBytes || number(0)%pageBytes != 0 || number(0) > end || number(1) != end-number(0):
		return refuse(fmt.Sprintf("the index, %d bytes at %d, does not end before the footer", number(1), number(0)), store.ErrFormat)
	case number(1) > maxIndexBytes:
		return refuse(fmt.Sprintf("the index has %d bytes, at most %d are read", number(1), maxIndexBytes), store.ErrUnsupported)
	}
	return footer{int64(number(0)), int64(number(1)), number(2), size}, nil
}
