package safetensors

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

const (
	lengthBytes = 8
	// maxHeaderBytes is the limit of the format.
	maxHeaderBytes = 100_000_000
	// maxRank is far above the rank of any real tensor.
	maxRank      = 8
	metadataName = "__metadata__"
	offsetsName  = "data_offsets"
	// minEntryBytes is the length of the shortest tensor description.
	minEntryBytes = len(`"":{"dtype":"F4","shape":[],"data_offsets":[0,0]}`)
)

// entry is a tensor in a header.
type entry struct {
	name       string
	off        int64 // offset of the entry in the file, for messages
	dtypeName  string
	dtype      dtype
	shape      []int
	begin, end int64 // range in the data section
}

// header is the decoded header of a file.
type header struct {
	path    string
	entries []entry
	data    int64 // offset of the data section
}

// tensorError returns a format error about e.
func (h *header) tensorError(e entry, kind error, reason string, args ...any) error {
	return &store.FormatError{
		Path: h.path, Off: e.off, Field: fmt.Sprintf("tensor %q", e.name),
		Reason: fmt.Sprintf(reason, args...), Kind: kind,
	}
}

// readHeader reads the header of a file and checks it against the size of the file.
//
// It reserves the memory with the meter of fsys.
func readHeader(fsys vfs.FS, file vfs.File) (*header, error) {
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	text, err := headerText(fsys, file, size)
	if err != nil {
		return nil, err
	}
	n := countEntries(text)
	if err := vfs.Reserve(fsys, file.Name(), tensorCost*int64(n)); err != nil {
		return nil, err
	}
	h := &header{path: file.Name(), data: lengthBytes + int64(len(text)), entries: make([]entry, 0, n)}
	if err := h.parse(text); err != nil {
		return nil, err
	}
	return h, h.checkLayout(size - h.data)
}

// headerText returns the JSON header of a file of the given size.
func headerText(fsys vfs.FS, file vfs.File, size int64) (string, error) {
	lengthError := func(kind error, reason string, args ...any) error {
		return &store.FormatError{
			Path: file.Name(), Off: 0, Field: "header length", Reason: fmt.Sprintf(reason, args...),
			Hint: "the download may be incomplete, or the file is not a safetensors file", Kind: kind,
		}
	}
	if size < lengthBytes {
		return "", lengthError(store.ErrTruncated, "the file has only %d bytes", size)
	}
	var length [lengthBytes]byte
	if _, err := file.ReadAt(length[:], 0); err != nil {
		return "", err
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeaderBytes {
		return "", lengthError(store.ErrFormat, "%d bytes; at most %d are allowed", n, maxHeaderBytes)
	}
	if n > uint64(size-lengthBytes) {
		return "", lengthError(store.ErrTruncated, "%d bytes, but the file has %d left", n, size-lengthBytes)
	}
	if err := vfs.Reserve(fsys, file.Name(), 2*int64(n)); err != nil { // the bytes, and the string
		return "", err
	}
	defer vfs.Release(fsys, int64(n))
	text := make([]byte, n)
	if _, err := file.ReadAt(text, lengthBytes); err != nil {
		return "", err
	}
	return string(text), nil
}

// tensorCost bounds the memory of a tensor besides its name, which is part of the text: its
// entries in this header and in the model, its shape, and its places in the indexes by name.
const tensorCost = 640

// countEntries bounds the number of tensors in a header.
func countEntries(text string) int {
	return min(strings.Count(text, offsetsName), len(text)/minEntryBytes)
}

// parse reads the JSON of the header.
func (h *header) parse(text string) error {
	s := &scanner{path: h.path, base: lengthBytes, text: text}
	if !utf8.ValidString(text) {
		s.fail("the text is not valid UTF-8")
	}
	if text == "" || text[0] != '{' {
		s.fail("the text does not begin with '{'")
	}
	seen := make(map[string]struct{}, cap(h.entries))
	s.object(func(name string) {
		if _, duplicate := seen[name]; duplicate {
			s.fail("%q occurs twice", name)
			return
		}
		seen[name] = struct{}{}
		if name == metadataName {
			s.object(func(string) { s.str() }) // the format allows only strings here; none concerns the weights
			return
		}
		h.entries = append(h.entries, s.entry(name))
	})
	for s.err == nil && s.pos < len(text) {
		if text[s.pos] != ' ' {
			s.fail("%q after the closing brace; only spaces may follow", text[s.pos])
		}
		s.pos++
	}
	return s.err
}

// entry reads the description of a tensor.
func (s *scanner) entry(name string) entry {
	e := entry{name: name, off: s.base + int64(s.pos)}
	var hasType, hasShape, hasOffsets bool
	once := func(has *bool, key string) {
		if *has {
			s.fail("tensor %q: %s occurs twice", name, key)
		}
		*has = true
	}
	s.object(func(key string) {
		switch key {
		case "dtype":
			once(&hasType, key)
			e.dtypeName = s.str()
		case "shape":
			once(&hasShape, key)
			e.shape = s.shape(name)
		case offsetsName:
			once(&hasOffsets, key)
			e.begin, e.end = s.offsets(name)
		default:
			s.fail("tensor %q: unknown field %q", name, key)
		}
	})
	if !hasType || !hasShape || !hasOffsets {
		s.fail("tensor %q: dtype, shape and data_offsets are all required", name)
	}
	return e
}

// shape reads the dimensions of the tensor name.
func (s *scanner) shape(name string) []int {
	shape := []int{}
	s.list('[', ']', func() {
		dim := s.count()
		switch {
		case dim > math.MaxInt:
			s.fail("tensor %q: dimension %d is too large", name, dim)
		case len(shape) == maxRank:
			s.fail("tensor %q: more than %d dimensions", name, maxRank)
		default:
			shape = append(shape, int(dim))
		}
	})
	return shape
}

// offsets reads the range of the tensor name in the data section.
func (s *scanner) offsets(name string) (begin, end int64) {
	var pair [2]int64
	n := 0
	s.list('[', ']', func() {
		if n == len(pair) {
			s.fail("tensor %q: data_offsets has more than 2 numbers", name)
			return
		}
		pair[n] = s.count()
		n++
	})
	if n != len(pair) {
		s.fail("tensor %q: data_offsets has %d numbers instead of 2", name, n)
	}
	return pair[0], pair[1]
}

// checkLayout checks that the tensors fill the data section without overlap, gap or rest,
// and that each has the length of its shape.
func (h *header) checkLayout(dataBytes int64) error {
	for i := range h.entries {
		if err := h.checkEntry(&h.entries[i]); err != nil {
			return err
		}
	}
	slices.SortFunc(h.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end))
	})
	filled := int64(0)
	for _, e := range h.entries {
		if e.begin < filled {
			return h.tensorError(e, store.ErrFormat, "its bytes from %d overlap those of another tensor, which end at %d", e.begin, filled)
		}
		if e.begin > filled {
			return h.tensorError(e, store.ErrFormat, "%d bytes before it belong to no tensor", e.begin-filled)
		}
		filled = e.end
	}
	if filled > dataBytes {
		return &store.FormatError{
			Path: h.path, Off: h.data + dataBytes, Field: "data section", Reason: fmt.Sprintf("has %d bytes, but the header describes %d", dataBytes, filled),
			Hint: "the download may be incomplete", Kind: store.ErrTruncated,
		}
	}
	if filled < dataBytes {
		return &store.FormatError{
			Path: h.path, Off: h.data + filled, Field: "data section", Reason: fmt.Sprintf("%d bytes after the last tensor", dataBytes-filled), Kind: store.ErrFormat,
		}
	}
	return nil
}

// checkEntry checks a single entry and looks up its dtype.
func (h *header) checkEntry(e *entry) error {
	d, ok := dtypes[e.dtypeName]
	if !ok {
		return h.tensorError(*e, store.ErrUnsupported, "unknown dtype %q", e.dtypeName)
	}
	e.dtype = d
	size, ok := d.sizeOf(e.shape)
	switch {
	case !ok:
		return h.tensorError(*e, store.ErrFormat, "shape %v of %s overflows or is not a whole number of bytes", e.shape, e.dtypeName)
	case e.end < e.begin:
		return h.tensorError(*e, store.ErrFormat, "data_offsets %d, %d are not ascending", e.begin, e.end)
	case e.end-e.begin != size:
		return h.tensorError(*e, store.ErrFormat, "shape %v of %s takes %d bytes, but data_offsets span %d", e.shape, e.dtypeName, size, e.end-e.begin)
	case !d.typ.Valid() && !d.auxiliary:
		return h.tensorError(*e, store.ErrUnsupported, "dtype %s is not supported: convert the weights to BF16, F16 or F32", e.dtypeName)
	}
	return nil
}

// dtype is a number format of safetensors.
type dtype struct {
	bits int
	typ  quant.Type // Invalid if the engine has no such type
	// auxiliary formats hold masks, positions and packed integers. Tensors in these formats
	// are listed separately, for callers that know their meaning. A tensor in an
	// unsupported float format makes Open reject the file.
	auxiliary bool
}

var dtypes = map[string]dtype{
	"F32": {bits: 32, typ: quant.F32}, "F16": {bits: 16, typ: quant.F16}, "BF16": {bits: 16, typ: quant.BF16},
	"F64": {bits: 64}, "C64": {bits: 64},
	"F8_E4M3": {bits: 8}, "F8_E5M2": {bits: 8}, "F8_E8M0": {bits: 8},
	"F8_E4M3FNUZ": {bits: 8}, "F8_E5M2FNUZ": {bits: 8},
	"F6_E2M3": {bits: 6}, "F6_E3M2": {bits: 6}, "F4": {bits: 4},
	"BOOL": {bits: 8, auxiliary: true},
	"I8":   {bits: 8, auxiliary: true}, "U8": {bits: 8, auxiliary: true},
	"I16": {bits: 16, auxiliary: true}, "U16": {bits: 16, auxiliary: true},
	"I32": {bits: 32, auxiliary: true}, "U32": {bits: 32, auxiliary: true},
	"I64": {bits: 64, auxiliary: true}, "U64": {bits: 64, auxiliary: true},
}

// sizeOf returns the size of a tensor in bytes. ok is false if it overflows or is not a
// whole number of bytes.
func (d dtype) sizeOf(shape []int) (size int64, ok bool) {
	total := uint64(d.bits)
	for _, dim := range shape {
		high, low := bits.Mul64(total, uint64(dim))
		if high != 0 || low > math.MaxInt64 {
			return 0, false
		}
		total = low
	}
	return int64(total / 8), total%8 == 0
}

// dtypeFor returns the name of the dtype that corresponds to t.
func dtypeFor(t quant.Type) (string, bool) {
	for name, d := range dtypes {
		if d.typ == t && t.Valid() {
			return name, true
		}
	}
	return "", false
}
