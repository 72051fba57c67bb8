package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"reflect"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// KV is a key to write. Value is an integer of fixed width, a float32, a float64, a bool, a
// string, or a slice of these.
type KV struct {
	Key   string
	Value any
}

// TensorData is a tensor to write. Its bytes come from Data or, if Data is nil, from the
// reader From, which must yield exactly the size of Type and Shape.
type TensorData struct {
	Name  string
	Type  quant.Type
	Shape []int // outermost dimension first
	Data  []byte
	From  io.Reader
}

// writeVersion is the GGUF version that Write produces.
const writeVersion = 3

// Write writes a file atomically. The key general.alignment sets the alignment; the default
// is 32.
func Write(fsys vfs.FS, path string, keys []KV, tensors []TensorData) error {
	err := vfs.WriteAtomic(fsys, path, func(w io.Writer) error {
		return encode(w, keys, tensors)
	})
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// encode writes the whole file to w.
func encode(w io.Writer, keys []KV, tensors []TensorData) error {
	alignment := int64(defaultAlignment)
	var encoded []byte
	var err error
	for _, kv := range keys {
		if encoded, err = appendKV(encoded, kv); err != nil {
			return err
		}
		if n, ok := kv.Value.(uint32); ok && kv.Key == alignmentKey && n > 0 {
			alignment = int64(n)
		}
	}
	return encodeFile(w, len(keys), encoded, alignment, tensors)
}

// encodeFile writes a file with encoded keys.
func encodeFile(w io.Writer, keyCount int, keys []byte, alignment int64, tensors []TensorData) error {
	head := append([]byte{}, Magic...)
	head = binary.LittleEndian.AppendUint32(head, writeVersion)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(tensors)))
	head = binary.LittleEndian.AppendUint64(head, uint64(keyCount))
	head = append(head, keys...)
	offset := int64(0)
	for _, t := range tensors {
		size, err := t.size()
		if err != nil {
			return err
		}
		head = appendTensor(head, t, offset)
		offset += size + padding(size, alignment)
	}
	head = append(head, make([]byte, padding(int64(len(head)), alignment))...)
	if _, err := w.Write(head); err != nil {
		return err
	}
	for _, t := range tensors {
		if err := t.copyTo(w, alignment); err != nil {
			return err
		}
	}
	return nil
}

// padding returns the number of bytes from n to the next multiple of alignment.
func padding(n, alignment int64) int64 { return (alignment - n%alignment) % alignment }

// size checks the tensor and returns its length in bytes.
func (t TensorData) size() (int64, error) {
	size, fits, err := store.Bytes(t.Type, t.Shape)
	switch {
	case err != nil:
		return 0, fmt.Errorf("tensor %q: %w", t.Name, err)
	case !t.Type.InGGUF():
		return 0, fmt.Errorf("tensor %q: GGUF has no tensor type %v", t.Name, t.Type)
	case !fits:
		return 0, fmt.Errorf("tensor %q: shape %v is out of range", t.Name, t.Shape)
	case t.Data != nil && int64(len(t.Data)) != size:
		return 0, fmt.Errorf("tensor %q: %d bytes given, shape %v of %v takes %d", t.Name, len(t.Data), t.Shape, t.Type, size)
	}
	return size, nil
}

// copyTo writes the tensor's bytes and the padding after them.
func (t TensorData) copyTo(w io.Writer, alignment int64) error {
	size, err := t.size()
	if err != nil {
		return err
	}
	from := t.From
	if t.Data != nil {
		from = bytes.NewReader(t.Data)
	}
	if from == nil {
		return fmt.Errorf("tensor %q: neither Data nor From is given", t.Name)
	}
	if _, err := io.CopyN(w, from, size); err != nil {
		return fmt.Errorf("tensor %q: copying its %d bytes: %w", t.Name, size, err)
	}
	_, err = w.Write(make([]byte, padding(size, alignment)))
	return err
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// appendTensor appends an entry of the tensor table.
func appendTensor(b []byte, t TensorData, offset int64) []byte {
	b = appendString(b, t.Name)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(t.Shape)))
	for i := len(t.Shape) - 1; i >= 0; i-- {
		b = binary.LittleEndian.AppendUint64(b, uint64(t.Shape[i]))
	}
	b = binary.LittleEndian.AppendUint32(b, t.Type.ID())
	return binary.LittleEndian.AppendUint64(b, uint64(offset))
}

// appendKV appends a key with its value: a scalar, or a slice of scalars as an array.
func appendKV(b []byte, kv KV) ([]byte, error) {
	b = appendString(b, kv.Key)
	if k, raw, ok := scalar(kv.Value); ok {
		b = binary.LittleEndian.AppendUint32(b, uint32(k))
		return append(b, raw...), nil
	}
	values := reflect.ValueOf(kv.Value)
	elem, ok := elemKind(values)
	if !ok {
		return nil, fmt.Errorf("key %q: GGUF cannot store a value of type %T", kv.Key, kv.Value)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(kindArray))
	b = binary.LittleEndian.AppendUint32(b, uint32(elem))
	b = binary.LittleEndian.AppendUint64(b, uint64(values.Len()))
	for i := range values.Len() {
		_, raw, _ := scalar(values.Index(i).Interface())
		b = append(b, raw...)
	}
	return b, nil
}

// elemKind returns the kind of the elements of a slice. ok is false if values is not a slice
// of scalars.
func elemKind(values reflect.Value) (elem kind, ok bool) {
	if values.Kind() != reflect.Slice {
		return 0, false
	}
	elem, _, ok = scalar(reflect.Zero(values.Type().Elem()).Interface())
	return elem, ok
}

// scalar returns the encoding of a value that is not a slice. ok is false if GGUF has no
// kind for its type.
func scalar(value any) (k kind, raw []byte, ok bool) {
	le := binary.LittleEndian
	switch v := value.(type) {
	case uint8:
		return kindUint8, []byte{v}, true
	case int8:
		return kindInt8, []byte{byte(v)}, true
	case uint16:
		return kindUint16, le.AppendUint16(nil, v), true
	case int16:
		return kindInt16, le.AppendUint16(nil, uint16(v)), true
	case uint32:
		return kindUint32, le.AppendUint32(nil, v), true
	case int32:
		return kindInt32, le.AppendUint32(nil, uint32(v)), true
	case uint64:
		return kindUint64, le.AppendUint64(nil, v), true
	case int64:
		return kindInt64, le.AppendUint64(nil, uint64(v)), true
	case float32:
		return kindFloat32, le.AppendUint32(nil, math.Float32bits(v)), true
	case float64:
		return kindFloat64, le.AppendUint64(nil, math.Float64bits(v)), true
	case bool:
		if v {
			return kindBool, []byte{1}, true
		}
		return kindBool, []byte{0}, true
	case string:
		return kindString, appendString(nil, v), true
	}
	return 0, nil, false
}

// WriteCopy writes a file with all keys of m, bit for bit, and the given tensors. It omits
// the keys that describe shards, because the copy is a single file.
func WriteCopy(w io.Writer, m *Metadata, tensors []TensorData) error {
	alignment, err := m.alignment()
	if err != nil {
		return err
	}
	var keys []byte
	count := 0
	for i := range m.entries {
		e := &m.entries[i]
		if e.key == splitNoKey || e.key == splitCountKey || e.key == splitTensorsKey {
			continue
		}
		if keys, err = appendEntry(keys, e); err != nil {
			return err
		}
		count++
	}
	return encodeFile(w, count, keys, alignment, tensors)
}

// appendEntry encodes a key in the form in which it was read.
func appendEntry(b []byte, e *entry) ([]byte, error) {
	le := binary.LittleEndian
	b = le.AppendUint32(appendString(b, e.key), uint32(e.kind))
	switch v := e.ref.(type) {
	case nil:
		return append(b, le.AppendUint64(nil, e.bits)[:kindBytes[e.kind]]...), nil
	case string:
		return appendString(b, v), nil
	case []byte:
		b = le.AppendUint64(le.AppendUint32(b, uint32(e.elem)), uint64(len(v)/kindBytes[e.elem]))
		return append(b, v...), nil
	case *StringList:
		b = le.AppendUint64(le.AppendUint32(b, uint32(e.elem)), uint64(v.Len()))
		for _, s := range v.All() {
			b = appendString(b, s)
		}
		return b, nil
	}
	return nil, fmt.Errorf("key %q: %s cannot be copied", e.key, e.describe())
}
