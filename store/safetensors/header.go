package safetensors

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

const (
	lengthBytes = 8
	// maxHeaderBytes is the limit that the format sets.
	maxHeaderBytes = 100_000_000
	// maxRank is far beyond what a network uses.
	maxRank      = 8
	metadataName = "__metadata__"
	offsetsName  = "data_offsets"
	// minEntryBytes is the shortest description of a tensor.
	minEntryBytes = len(`"":{"dtype":"F4","shape":[],"data_offsets":[0,0]}`)
)

// entry is one tensor of a header.
type entry struct {
	name       string
	off        int64 // of the entry in the file, for messages
	dtypeName  string
	dtype      dtype
	shape      []int
	begin, end int64 // in the data section
}

// header is what a file says about itself.
type header struct {
	path    string
	entries []entry
	data    int64 // offset of the data section
}

func (h *header) refuse(e entry, kind error, reason string, args ...any) error {
	return &store.FormatError{
		Path: h.path, Off: e.off, Field: fmt.Sprintf("tensor %q", e.name),
		Reason: fmt.Sprintf(reason, args...), Kind: kind,
	}
}

// readHeader reads and checks a file's header against its size.
func readHeader(file vfs.File) (*header, error) {
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	text, err := headerText(file, size)
	if err != nil {
		return nil, err
	}
	h := &header{path: file.Name(), data: lengthBytes + int64(len(text))}
	if err := h.parse(text); err != nil {
		return nil, err
	}
	return h, h.checkLayout(size - h.data)
}

// headerText returns the JSON of a file with the given size.
func headerText(file vfs.File, size int64) (string, error) {
	refuse := func(kind error, reason string, args ...any) error {
		return &store.FormatError{
			Path: file.Name(), Off: 0, Field: "header length", Reason: fmt.Sprintf(reason, args...),
			Hint: "the download may be incomplete, or this is no safetensors file", Kind: kind,
		}
	}
	if size < lengthBytes {
		return "", refuse(store.ErrTruncated, "the file has only %d bytes", size)
	}
	var length [lengthBytes]byte
	if _, err := file.ReadAt(length[:], 0); err != nil {
		return "", err
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeaderBytes {
		return "", refuse(store.ErrFormat, "%d bytes, at most %d are allowed", n, maxHeaderBytes)
	}
	if n > uint64(size-lengthBytes) {
		return "", refuse(store.ErrTruncated, "%d bytes, the file has %d left", n, size-lengthBytes)
	}
	text := make([]byte, n)
	if _, err := file.ReadAt(text, lengthBytes); err != nil {
		return "", err
	}
	return string(text), nil
}

// parse reads the header's JSON.
func (h *header) parse(text string) error {
	s := &scanner{path: h.path, base: lengthBytes, text: text}
	if !utf8.ValidString(text) {
		s.fail("it is not valid UTF-8")
	}
	if text == "" || text[0] != '{' {
		s.fail("it does not begin with '{'")
	}
	n := min(strings.Count(text, offsetsName), len(text)/minEntryBytes)
	h.entries = make([]entry, 0, n)
	seen := make(map[string]struct{}, n)
	s.object(func(name string) {
		if _, twice := seen[name]; twice {
			s.fail("%q occurs twice", name)
			return
		}
		seen[name] = struct{}{}
		if name == metadataName {
			s.object(func(string) { s.str() }) // strings by definition; none concerns the weights
			return
		}
		h.entries = append(h.entries, s.entry(name))
	})
	for s.err == nil && s.pos < len(text) {
		if text[s.pos] != ' ' {
			s.fail("%q behind the closing brace, only spaces may follow", text[s.pos])
		}
		s.pos++
	}
	return s.err
}

// entry reads the description of one tensor.
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
		s.fail("tensor %q: dtype, shape and data_offsets must all be there", name)
	}
	return e
}

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

// checkLayout compares entries with each other and with the bytes of the data
// section: they must fill it without overlap, gap or rest, each being as long
// as its shape says.
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
			return h.refuse(e, store.ErrFormat, "its bytes from %d on overlap another tensor's, which end at %d", e.begin, filled)
		}
		if e.begin > filled {
			return h.refuse(e, store.ErrFormat, "%d bytes before it belong to no tensor", e.begin-filled)
		}
		filled = e.end
	}
	if filled > dataBytes {
		return &store.FormatError{
			Path: h.path, Off: h.data + dataBytes, Field: "data section", Reason: fmt.Sprintf("has %d bytes, the header describes %d", dataBytes, filled),
			Hint: "the download may be incomplete", Kind: store.ErrTruncated,
		}
	}
	if filled < dataBytes {
		return &store.FormatError{
			Path: h.path, Off: h.data + filled, Field: "data section", Reason: fmt.Sprintf("%d bytes behind the last tensor", dataBytes-filled), Kind: store.ErrFormat,
		}
	}
	return nil
}

// checkEntry checks an entry by itself and looks up its format.
func (h *header) checkEntry(e *entry) error {
	d, ok := dtypes[e.dtypeName]
	if !ok {
		return h.refuse(*e, store.ErrUnsupported, "unknown dtype %q", e.dtypeName)
	}
	e.dtype = d
	size, ok := d.sizeOf(e.shape)
	switch {
	case !ok:
		return h.refuse(*e, store.ErrFormat, "the size of %v elements of %s is not a number of bytes that fits", e.shape, e.dtypeName)
	case e.end < e.begin:
		return h.refuse(*e, store.ErrFormat, "data_offsets %d, %d descend", e.begin, e.end)
	case e.end-e.begin != size:
		return h.refuse(*e, store.ErrFormat, "shape %v of %s takes %d bytes, data_offsets give %d", e.shape, e.dtypeName, size, e.end-e.begin)
	case !d.typ.Valid() && !d.auxiliary:
		return h.refuse(*e, store.ErrUnsupported, "dtype %s is not supported: convert the weights to BF16, F16 or F32", e.dtypeName)
	}
	return nil
}
