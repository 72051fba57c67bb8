package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
)

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
