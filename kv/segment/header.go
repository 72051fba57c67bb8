package segment

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/llmrun/llmrun/store"
)

const (
	// Version is the format version of segments, see FORMAT.md.
	Version = 2
	// MaxPages is the maximum number of pages of each layer in a segment.
	MaxPages = 16

	// pageAlign is the alignment that direct reads require.
	pageAlign = 4096

	magic         = "LLMRKVCH"
	fixedBytes    = 104 // size of a header before its tables
	checksumBytes = 8

	// Limits of a layout, far beyond any model.
	maxLayers     = 4096
	maxPageTokens = 1 << 14
	maxPageBytes  = 1 << 30
)

// Layout describes the pages of a cache.
type Layout struct {
	PageTokens int
	PageBytes  []int  // [layer] size of a page; 0 for a layer without KV
	Format     uint32 // number of the cache's KV format
}

func (l Layout) check() error {
	if l.PageTokens < 1 || l.PageTokens > maxPageTokens || len(l.PageBytes) == 0 || len(l.PageBytes) > maxLayers {
		return fmt.Errorf("segment: layout of %d layers and %d tokens per page is out of range", len(l.PageBytes), l.PageTokens)
	}
	for i, n := range l.PageBytes {
		if n < 0 || n > maxPageBytes {
			return fmt.Errorf("segment: layout: layer %d: page size of %d bytes is out of range", i, n)
		}
	}
	return nil
}

func (l Layout) encode(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(l.PageBytes)))
	b = binary.LittleEndian.AppendUint32(b, uint32(l.PageTokens))
	b = binary.LittleEndian.AppendUint32(b, l.Format)
	for _, n := range l.PageBytes {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return b
}

func (l Layout) equal(o Layout) bool {
	return l.PageTokens == o.PageTokens && l.Format == o.Format && slices.Equal(l.PageBytes, o.PageBytes)
}

// header is the header of a segment file.
type header struct {
	id, parent, key ID
	layout          Layout
	start           int // tokens before the segment
	pages           int
	tokens          []int32  // [pages*PageTokens]
	checksums       []uint64 // [layers*pages] layer by layer
}

// headerBytes returns the size of a header with its tables, which is the offset of
// the first layer. The caller has checked that layers and pages are in range.
func headerBytes(layers, pages, pageTokens int) int64 {
	n := fixedBytes + 4*int64(layers) + 4*int64(pages)*int64(pageTokens) + 8*int64(layers)*int64(pages) + checksumBytes
	return alignUp(n)
}

// alignUp rounds n up to a multiple of pageAlign. n is far below the overflow.
func alignUp(n int64) int64 { return (n + pageAlign - 1) / pageAlign * pageAlign }

// bytes returns the size of the header.
func (h *header) bytes() int64 {
	return headerBytes(len(h.layout.PageBytes), h.pages, h.layout.PageTokens)
}

// run returns the range of a layer's pages in the file.
func (h *header) run(layer int) (off, size int64) {
	off = h.bytes()
	for _, n := range h.layout.PageBytes[:layer] {
		off += alignUp(int64(n) * int64(h.pages))
	}
	return off, int64(h.layout.PageBytes[layer]) * int64(h.pages)
}

// fileBytes returns the size of the whole file, a multiple of pageAlign.
func (h *header) fileBytes() int64 {
	last := len(h.layout.PageBytes) - 1
	off, size := h.run(last)
	return off + alignUp(size)
}

// checksum returns the stored checksum of a page.
func (h *header) checksum(layer, page int) uint64 { return h.checksums[layer*h.pages+page] }

// encode returns the bytes of the header.
func (h *header) encode() []byte {
	b := make([]byte, 0, h.bytes())
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint32(b, Version)
	b = binary.LittleEndian.AppendUint32(b, uint32(h.bytes()))
	for _, id := range []ID{h.id, h.parent, h.key} {
		b = append(b, id[:]...)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(h.fileBytes()))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.start))
	b = binary.LittleEndian.AppendUint32(b, uint32(h.pages))
	b = append(b, make([]byte, 8)...)
	b = h.layout.encode(b) // 12 bytes, then the table of layers
	b = appendTokens(b, h.tokens)
	for _, s := range h.checksums {
		b = binary.LittleEndian.AppendUint64(b, s)
	}
	b = binary.LittleEndian.AppendUint64(b, store.Sum64(checksumSeed, b))
	return b[:cap(b)] // zeros fill the rest
}

// prefix holds the sizes from the first bytes of a header.
type prefix struct {
	layers, pages, pageTokens int
	bytes                     int64 // size of the header
	file                      int64 // size of the file according to the header
}

// decodePrefix checks the sizes that determine the length of the header against the
// file size. It allocates nothing.
func decodePrefix(path string, b []byte, size int64) (p prefix, err error) {
	refuse := refuser(path)
	if string(b[:8]) != magic {
		return p, refuse(0, "magic", store.ErrFormat, "%q is not %q", b[:8], magic)
	}
	number := func(at int) uint64 { return uint64(binary.LittleEndian.Uint32(b[at:])) }
	if v := number(8); v != Version {
		// Segments of other versions have other names. A file of this name with another
		// version is damaged and may be replaced.
		return p, refuse(8, "version", store.ErrFormat, "%d is unknown, this program reads %d", v, Version)
	}
	file, start := binary.LittleEndian.Uint64(b[64:]), binary.LittleEndian.Uint64(b[72:])
	pages, layers, tokens := number(80), number(92), number(96)
	switch {
	case pages < 1 || pages > MaxPages:
		return p, refuse(80, "pages", store.ErrFormat, "%d is not from 1 to %d", pages, MaxPages)
	case layers < 1 || layers > maxLayers:
		return p, refuse(92, "layers", store.ErrFormat, "%d is not from 1 to %d", layers, maxLayers)
	case tokens < 1 || tokens > maxPageTokens:
		return p, refuse(96, "tokens of a page", store.ErrFormat, "%d is not from 1 to %d", tokens, maxPageTokens)
	case start > math.MaxInt32 || start%tokens != 0:
		return p, refuse(72, "start", store.ErrFormat, "%d tokens are not whole pages of %d", start, tokens)
	case file != uint64(size):
		return p, refuse(64, "length", store.ErrTruncated, "the file has %[2]d bytes instead of %[1]d", file, size)
	}
	p = prefix{int(layers), int(pages), int(tokens), 0, size}
	if p.bytes = headerBytes(p.layers, p.pages, p.pageTokens); p.bytes != int64(number(12)) || p.bytes > size {
		return p, refuse(12, "header", store.ErrFormat, "%d bytes do not match %d layers and %d pages in a file of %d bytes", number(12), layers, pages, size)
	}
	return p, nil
}

// decodeHeader decodes a header whose prefix is valid.
func decodeHeader(path string, b []byte, p prefix) (*header, error) {
	refuse := refuser(path)
	end := fixedBytes + 4*p.layers + 4*p.pages*p.pageTokens + 8*p.layers*p.pages
	if binary.LittleEndian.Uint64(b[end:]) != store.Sum64(checksumSeed, b[:end]) {
		return nil, refuse(int64(end), "header", store.ErrFormat, "the checksum does not match: the file is damaged")
	}
	for i, v := range b[end+checksumBytes:] {
		if v != 0 {
			return nil, refuse(int64(end+checksumBytes+i), "header", store.ErrFormat, "padding is %#x instead of zero", v)
		}
	}
	h := &header{start: int(binary.LittleEndian.Uint64(b[72:])), pages: p.pages}
	copy(h.id[:], b[16:])
	copy(h.parent[:], b[32:])
	copy(h.key[:], b[48:])
	h.layout = Layout{PageTokens: p.pageTokens, Format: binary.LittleEndian.Uint32(b[100:])}
	rest := b[fixedBytes:]
	total := p.bytes
	for i := range p.layers {
		n := binary.LittleEndian.Uint32(rest[4*i:])
		if n > maxPageBytes {
			return nil, refuse(int64(fixedBytes+4*i), fmt.Sprintf("layer %d", i), store.ErrFormat, "page size of %d bytes is out of range", n)
		}
		h.layout.PageBytes = append(h.layout.PageBytes, int(n))
		total += alignUp(int64(n) * int64(p.pages))
	}
	if total != p.file {
		return nil, refuse(fixedBytes, "layers", store.ErrFormat, "the pages end at offset %d in a file of %d bytes", total, p.file)
	}
	rest = rest[4*p.layers:]
	h.tokens = make([]int32, p.pages*p.pageTokens)
	for i := range h.tokens {
		h.tokens[i] = int32(binary.LittleEndian.Uint32(rest[4*i:]))
	}
	rest = rest[4*len(h.tokens):]
	h.checksums = make([]uint64, p.layers*p.pages)
	for i := range h.checksums {
		h.checksums[i] = binary.LittleEndian.Uint64(rest[8*i:])
	}
	if want := Next(h.parent, h.tokens); h.id != want {
		return nil, refuse(16, "id", store.ErrFormat, "%v does not match the parent and the tokens, which give %v", h.id, want)
	}
	return h, nil
}

// refuser returns a function that creates the format errors of one file.
func refuser(path string) func(off int64, field string, kind error, reason string, args ...any) error {
	return func(off int64, field string, kind error, reason string, args ...any) error {
		return &store.FormatError{Path: path, Off: off, Field: field, Reason: fmt.Sprintf(reason, args...), Kind: kind}
	}
}
