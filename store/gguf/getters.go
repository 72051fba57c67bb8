package gguf

import (
	"fmt"

	"github.com/llmrun/llmrun/store"
)

// Path returns the path of the file.
func (m *Metadata) Path() string { return m.path }

// Memory returns how many bytes of memory the keys and values take.
func (m *Metadata) Memory() int64 { return m.bytes }

// Keys returns all keys in file order.
func (m *Metadata) Keys() []string {
	keys := make([]string, len(m.entries))
	for i, e := range m.entries {
		keys[i] = e.key
	}
	return keys
}

// Has reports whether key is present.
func (m *Metadata) Has(key string) bool {
	_, ok := m.byKey[key]
	return ok
}

// IsArray reports whether key holds an array. Some keys hold one number for all layers in
// one file and one number per layer in another.
func (m *Metadata) IsArray(key string) bool {
	e := m.find(key)
	return e != nil && e.kind == kindArray
}

// Kind describes what key holds, such as "uint32" or "array of string". It returns "" if
// key is absent.
func (m *Metadata) Kind(key string) string {
	e := m.find(key)
	if e == nil {
		return ""
	}
	return e.describe()
}

// describe returns the kind of the entry in words, for messages.
func (e *entry) describe() string {
	if e.kind == kindArray {
		return "array of " + e.elem.String()
	}
	return e.kind.String()
}

// find returns the entry of key, or nil.
func (m *Metadata) find(key string) *entry {
	if i, ok := m.byKey[key]; ok {
		return &m.entries[i]
	}
	return nil
}

// Errorf returns a format error about key. Packages that interpret the metadata use it to
// reject a value.
func (m *Metadata) Errorf(key, reason string, args ...any) error {
	off := int64(store.NoOffset)
	if e := m.find(key); e != nil {
		off = e.off
	}
	return &store.FormatError{
		Path: m.path, Off: off, Field: keyField(key).String(), Reason: fmt.Sprintf(reason, args...), Kind: store.ErrFormat,
	}
}

func (m *Metadata) wrongKind(e *entry, want string) error {
	return m.Errorf(e.key, "holds %s where %s is expected", e.describe(), want)
}

// String returns a string value.
func (m *Metadata) String(key string) (value string, ok bool, err error) {
	e := m.find(key)
	if e == nil {
		return "", false, nil
	}
	if e.kind != kindString {
		return "", false, m.wrongKind(e, "a string")
	}
	return e.ref.(string), true, nil
}

// Bool returns a boolean value.
func (m *Metadata) Bool(key string) (value, ok bool, err error) {
	e := m.find(key)
	if e == nil {
		return false, false, nil
	}
	if e.kind != kindBool {
		return false, false, m.wrongKind(e, "a bool")
	}
	return e.bits != 0, true, nil
}

// Int returns an integer of any width.
func (m *Metadata) Int(key string) (value int64, ok bool, err error) {
	e := m.find(key)
	if e == nil {
		return 0, false, nil
	}
	if !e.kind.integer() {
		return 0, false, m.wrongKind(e, "an integer")
	}
	value, fits := asInt(e.kind, e.bits)
	if !fits {
		return 0, false, m.Errorf(key, "%d is too large", e.bits)
	}
	return value, true, nil
}

// Uint returns a non-negative integer of any width.
func (m *Metadata) Uint(key string) (value uint64, ok bool, err error) {
	e := m.find(key)
	if e == nil {
		return 0, false, nil
	}
	if e.kind == kindUint64 {
		return e.bits, true, nil
	}
	signed, ok, err := m.Int(key)
	if err != nil {
		return 0, false, err
	}
	if signed < 0 {
		return 0, false, m.Errorf(key, "%d is negative", signed)
	}
	return uint64(signed), ok, nil
}

// Float returns a floating-point number of either width. It may be NaN or infinite; the
// caller decides what it accepts.
func (m *Metadata) Float(key string) (value float64, ok bool, err error) {
	e := m.find(key)
	if e == nil {
		return 0, false, nil
	}
	if !e.kind.float() {
		return 0, false, m.wrongKind(e, "a float")
	}
	return asFloat(e.kind, e.bits), true, nil
}

// Strings returns an array of strings.
func (m *Metadata) Strings(key string) (values StringList, ok bool, err error) {
	e := m.findRead(key)
	if e == nil {
		return StringList{}, false, nil
	}
	if e.kind != kindArray || e.elem != kindString {
		return StringList{}, false, m.wrongKind(e, "an array of strings")
	}
	return *e.ref.(*StringList), true, nil
}

// Len returns the length of the array that key holds. ok is false if key is absent or does
// not hold an array.
func (m *Metadata) Len(key string) (n int, ok bool) {
	e := m.find(key)
	if e == nil || e.kind != kindArray {
		return 0, false
	}
	switch v := e.ref.(type) {
	case skippedArray:
		return int(v), true
	case *StringList:
		return v.Len(), true
	}
	return len(e.ref.([]byte)) / kindBytes[e.elem], true
}

// findRead returns the entry of an array, or nil if the key is absent or its elements were skipped.
func (m *Metadata) findRead(key string) *entry {
	e := m.find(key)
	if e != nil {
		if _, skipped := e.ref.(skippedArray); skipped {
			return nil
		}
	}
	return e
}

// Ints returns an array of integers of any width.
func (m *Metadata) Ints(key string) (values []int64, ok bool, err error) {
	raw, e, err := m.rawArray(key, kind.integer, "an array of integers")
	if e == nil || err != nil {
		return nil, false, err
	}
	width := kindBytes[e.elem]
	values = make([]int64, len(raw)/width)
	for i := range values {
		v, fits := asInt(e.elem, loadBits(raw[i*width:(i+1)*width]))
		if !fits {
			return nil, false, m.Errorf(key, "element %d is too large", i)
		}
		values[i] = v
	}
	return values, true, nil
}

// Floats returns an array of floating-point numbers. It rounds float64 to float32.
func (m *Metadata) Floats(key string) (values []float32, ok bool, err error) {
	raw, e, err := m.rawArray(key, kind.float, "an array of floats")
	if e == nil || err != nil {
		return nil, false, err
	}
	width := kindBytes[e.elem]
	values = make([]float32, len(raw)/width)
	for i := range values {
		values[i] = float32(asFloat(e.elem, loadBits(raw[i*width:(i+1)*width])))
	}
	return values, true, nil
}

// Bools returns an array of booleans.
func (m *Metadata) Bools(key string) (values []bool, ok bool, err error) {
	isBool := func(k kind) bool { return k == kindBool }
	raw, e, err := m.rawArray(key, isBool, "an array of bools")
	if e == nil || err != nil {
		return nil, false, err
	}
	values = make([]bool, len(raw))
	for i, b := range raw {
		if b > 1 {
			return nil, false, m.Errorf(key, "element %d: %d is not a bool", i, b)
		}
		values[i] = b == 1
	}
	return values, true, nil
}

// Bytes returns an array of uint8 or int8 as raw bytes. The Metadata owns the memory:
// callers must not change it.
func (m *Metadata) Bytes(key string) (value []byte, ok bool, err error) {
	isByte := func(k kind) bool { return k == kindUint8 || k == kindInt8 }
	raw, e, err := m.rawArray(key, isByte, "an array of bytes")
	return raw, e != nil && err == nil, err
}

// rawArray returns the raw bytes of an array whose element kind the predicate accepts. The
// entry is nil if key is absent.
func (m *Metadata) rawArray(key string, accepts func(kind) bool, want string) ([]byte, *entry, error) {
	e := m.findRead(key)
	if e == nil {
		return nil, nil, nil
	}
	if e.kind != kindArray || !accepts(e.elem) {
		return nil, nil, m.wrongKind(e, want)
	}
	return e.ref.([]byte), e, nil
}
