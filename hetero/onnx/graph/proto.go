package graph

import "encoding/binary"

// message encodes a protocol buffer message. Fields are written in the order of the
// calls, so the output is deterministic.
type message []byte

// The wire types that ONNX uses.
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

// message writes an embedded message.
func (m *message) message(field int, write func(m *message)) {
	var inner message
	write(&inner)
	m.bytes(field, inner)
}
