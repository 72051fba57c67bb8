package graph

import "encoding/binary"

// message is a protocol buffer message that is being written. Fields are
// written in the order of the calls, so the same calls give the same bytes.
type message []byte

// The kinds of fields that ONNX uses.
const (
	wireVarint = 0
	wireBytes  = 2
)

func (m *message) tag(field, wire int) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3|uint64(wire))
}

func (m *message) integer(field int, v int64) {
	m.tag(field, wireVarint)
	*m = binary.AppendUvarint(*m, uint64(v))
}

func (m *message) bytes(field int, b []byte) {
	m.tag(field, wireBytes)
	*m = binary.AppendUvarint(*m, uint64(len(b)))
	*m = append(*m, b...)
}

func (m *message) text(field int, s string) { m.bytes(field, []byte(s)) }

// message writes a field that is a message itself.
func (m *message) message(field int, write func(m *message)) {
	var inner message
	write(&inner)
	m.bytes(field, inner)
}
