package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/llmrun/llmrun/store"
)

// Metadata holds the key-value pairs of a file. It is immutable. A getter returns ok false
// if the key is absent, and an error that names the key if it holds another kind of value.
type Metadata struct {
	path    string
	bytes   int64 // of keys and values in memory
	entries []entry
	byKey   map[string]int32 // index into entries
}

// entry is a key with its value. Numbers are stored as the raw bits in the file.
type entry struct {
	key  string
	off  int64 // offset of the value in the file
	kind kind
	elem kind   // kind of an array's elements
	bits uint64 // raw bits of a number or bool
	ref  any    // string, []byte of an array of numbers, *StringList, or skippedArray
}

const (
	// minEntryBytes is the size of the shortest entry: key length, a one-byte key, kind, a
	// one-byte value.
	minEntryBytes = stringLengthBytes + 1 + 4 + 1
	// maxKeyBytes is the limit of the format.
	maxKeyBytes = 1<<16 - 1
	// maxKeys limits the memory of the keys. Models have fewer than a hundred.
	maxKeys = 1 << 17
	// maxElements limits an array. The largest vocabularies have half a million merges.
	maxElements = 1 << 22
)

// skippedArray is the length of an array whose elements were not read.
type skippedArray int

// tokenizerPrefix is the prefix of the keys of the tokenizer.
const tokenizerPrefix = "tokenizer."

// keyCost bounds the memory of a key besides its text: its entry and its place in the map.
const keyCost = 192

// metadata reads n keys.
func (r *reader) metadata(n int) *Metadata {
	if !r.reserve(keyCost * int64(n)) {
		return nil
	}
	m := &Metadata{
		path: r.file.Name(), entries: make([]entry, 0, n), byKey: make(map[string]int32, n),
	}
	for i := range n {
		key := r.key()
		if _, duplicate := m.byKey[key]; duplicate {
			r.fail(keyField(key), "the key occurs twice")
		}
		e := entry{key: key, kind: kind(r.u32(keyField(key)))}
		e.off = r.off
		r.value(&e)
		if r.err != nil {
			return nil
		}
		m.byKey[key] = int32(i)
		m.entries = append(m.entries, e)
	}
	m.bytes = r.counted
	return m
}

// keyField returns the field of a key for messages.
func keyField(key string) field { return field{"key", key} }

// key reads the name of the next key.
func (r *reader) key() string {
	f := field{what: "name of a key"}
	length := r.u64(f)
	switch {
	case r.err != nil:
	case length == 0:
		r.fail(f, "is empty")
	case length > uint64(r.left()):
		r.truncated(f, length)
	case length > maxKeyBytes:
		r.fail(f, "has %d bytes, at most %d are allowed", length, maxKeyBytes)
	}
	return string(r.bytes(f, length))
}

// value reads the value of e, whose kind is set.
func (r *reader) value(e *entry) {
	f := keyField(e.key)
	switch {
	case r.err != nil:
	case e.kind >= numKinds:
		r.fail(f, "unknown %v", e.kind)
	case e.kind == kindString:
		e.ref = r.str(f)
	case e.kind == kindArray:
		r.array(e)
	default:
		if b := r.take(f, kindBytes[e.kind]); b != nil {
			e.bits = loadBits(b)
		}
		if e.kind == kindBool && e.bits > 1 {
			r.fail(f, "%d is not a bool", e.bits)
		}
	}
}

// array reads the elements of e. It rejects nested arrays: no model has them, and the file
// would choose the recursion depth.
func (r *reader) array(e *entry) {
	f := keyField(e.key)
	e.elem = kind(r.u32(f))
	if r.err != nil {
		return
	}
	switch {
	case e.elem >= numKinds:
		r.fail(f, "array of unknown %v", e.elem)
	case e.elem == kindArray:
		r.setError(&store.FormatError{Field: f.String(), Reason: "an array of arrays", Kind: store.ErrUnsupported})
	case e.elem == kindString:
		n := r.count(f, stringLengthBytes, maxElements)
		switch {
		case r.err != nil:
		case r.skips(e):
			for range n {
				r.skip(f, r.u64(f))
			}
			e.ref = skippedArray(n)
		default:
			e.ref = r.stringList(f, n)
		}
	default:
		width := kindBytes[e.elem]
		n := r.count(f, int64(width), maxElements)
		if r.skips(e) {
			r.skip(f, uint64(n)*uint64(width))
			e.ref = skippedArray(n)
			return
		}
		e.ref = r.bytes(f, uint64(n)*uint64(width))
	}
}

// skips reports whether the elements of an array are not read.
func (r *reader) skips(e *entry) bool { return r.lean && strings.HasPrefix(e.key, tokenizerPrefix) }

// loadBits returns a little-endian number of 1 to 8 bytes, zero-extended.
func loadBits(b []byte) uint64 {
	switch len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	default:
		return binary.LittleEndian.Uint64(b)
	}
}

// asInt interprets the raw bits of an integer. ok is false for a uint64 that overflows
// int64.
func asInt(k kind, bits uint64) (v int64, ok bool) {
	switch k {
	case kindInt8:
		return int64(int8(bits)), true
	case kindInt16:
		return int64(int16(bits)), true
	case kindInt32:
		return int64(int32(bits)), true
	case kindUint64:
		return int64(bits), bits <= math.MaxInt64
	default:
		return int64(bits), true
	}
}

// asFloat interprets the raw bits of a floating-point number.
func asFloat(k kind, bits uint64) float64 {
	if k == kindFloat32 {
		return float64(math.Float32frombits(uint32(bits)))
	}
	return math.Float64frombits(bits)
}

// kind is the type of a metadata value. The constants are the numbers in the file.
type kind uint32

const (
	kindUint8 kind = iota
	kindInt8
	kindUint16
	kindInt16
	kindUint32
	kindInt32
	kindFloat32
	kindBool
	kindString
	kindArray
	kindUint64
	kindInt64
	kindFloat64
	numKinds
)

var kindNames = [numKinds]string{
	"uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array", "uint64", "int64", "float64",
}

// kindBytes is the size of a value of each fixed-size kind, 0 for the other kinds.
var kindBytes = [numKinds]int{
	kindUint8: 1, kindInt8: 1, kindUint16: 2, kindInt16: 2, kindUint32: 4, kindInt32: 4, kindFloat32: 4,
	kindBool: 1, kindUint64: 8, kindInt64: 8, kindFloat64: 8,
}

func (k kind) String() string {
	if k >= numKinds {
		return fmt.Sprintf("kind %d", uint32(k))
	}
	return kindNames[k]
}

func (k kind) signed() bool {
	return k == kindInt8 || k == kindInt16 || k == kindInt32 || k == kindInt64
}

func (k kind) unsigned() bool {
	return k == kindUint8 || k == kindUint16 || k == kindUint32 || k == kindUint64
}

func (k kind) integer() bool { return k.signed() || k.unsigned() }

func (k kind) float() bool { return k == kindFloat32 || k == kindFloat64 }
