package gguf

import (
	"encoding/binary"
	"math"

	"github.com/llmrun/llmrun/store"
)

// Metadata is the key-value part of a file, immutable once read. Getters
// return ok false for a key that is absent and an error that names the key for
// one that holds another kind of value.
type Metadata struct {
	path    string
	entries []entry
	byKey   map[string]int32 // index into entries
}

// entry is one key with its value. Numbers are kept as the file stores them.
type entry struct {
	key  string
	off  int64 // of the value in the file
	kind kind
	elem kind   // of an array's elements
	bits uint64 // a number or bool, raw
	ref  any    // string, raw bytes of an array of numbers, or *StringList
}

const (
	// minEntryBytes: key length, a one-byte key, kind, a one-byte value.
	minEntryBytes = stringLengthBytes + 1 + 4 + 1
	// maxKeyBytes is the longest key that the format allows.
	maxKeyBytes = 1<<16 - 1
)

// metadata reads n keys.
func (r *reader) metadata(n int) *Metadata {
	m := &Metadata{
		path: r.file.Name(), entries: make([]entry, 0, n), byKey: make(map[string]int32, n),
	}
	for i := range n {
		key := r.key()
		if _, twice := m.byKey[key]; twice {
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
	return m
}

// keyField names a key in messages.
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

// array reads the elements of e. Arrays of arrays are refused: no model has
// them, and their depth would be the file's to choose.
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
		r.refuse(&store.FormatError{Field: f.String(), Reason: "an array of arrays", Kind: store.ErrUnsupported})
	case e.elem == kindString:
		n := r.count(f, stringLengthBytes)
		if r.err == nil {
			e.ref = r.stringList(f, n)
		}
	default:
		width := kindBytes[e.elem]
		n := r.count(f, int64(width))
		e.ref = r.bytes(f, uint64(n)*uint64(width))
	}
}

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

// asInt interprets raw bits of an integer kind. ok is false for a uint64 that
// an int64 cannot hold.
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

// asFloat interprets raw bits of a float kind.
func asFloat(k kind, bits uint64) float64 {
	if k == kindFloat32 {
		return float64(math.Float32frombits(uint32(bits)))
	}
	return math.Float64frombits(bits)
}
