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
