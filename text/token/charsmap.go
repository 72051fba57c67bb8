package token

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// charsmap is SentencePiece's precompiled normalization table: a double-array trie that
// maps character sequences to replacement texts.
//
// A unit of the array holds a label (bits 0-7), a flag for a value below it (bit 8) and
// an offset (bits 10-30, shifted by 8 if bit 9 is set). A unit with bit 31 holds a
// value: an offset into the replacement texts.
type charsmap struct {
	units []uint32
	texts []byte // replacement texts, each terminated by a zero byte
}

// newCharsmap decodes a table. It validates every unit that holds a value, so lookups
// need no check of the texts.
func newCharsmap(field string, raw []byte) (*charsmap, error) {
	if len(raw) < 4 {
		return nil, malformed(field, "a character map needs at least 4 bytes, not %d", len(raw))
	}
	if len(raw) > maxCharsmap {
		return nil, malformed(field, "a character map of %d bytes exceeds the limit of %d", len(raw), maxCharsmap)
	}
	size := uint64(binary.LittleEndian.Uint32(raw))
	if size%4 != 0 || size == 0 || size+4 > uint64(len(raw)) {
		return nil, malformed(field, "the trie of the character map has %d bytes; the size must be a positive multiple of 4 and at most %d", size, len(raw)-4)
	}
	m := &charsmap{units: make([]uint32, size/4), texts: raw[4+size:]}
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(raw[4+4*i:])
	}
	if n := len(m.texts); n > 0 && m.texts[n-1] != 0 {
		return nil, malformed(field, "the last replacement text has no terminating zero")
	}
	if !utf8.Valid(m.texts) {
		return nil, malformed(field, "the replacement texts are not valid UTF-8")
	}
	for rest := m.texts; len(rest) > 0; {
		end := bytes.IndexByte(rest, 0)
		if end > maxReplacement {
			return nil, malformed(field, "a replacement text of %d bytes exceeds the limit of %d", end, maxReplacement)
		}
		rest = rest[end+1:]
	}
	for i, unit := range m.units {
		if unit&charsmapValue != 0 && uint64(unit&^charsmapValue) >= uint64(len(m.texts)) {
			return nil, malformed(field, "unit %d of the trie points past the replacement texts", i)
		}
	}
	return m, nil
}

// maxCharsmap is the maximum size of a character map in bytes. Published maps have less
// than 400 KiB.
const maxCharsmap = 4 << 20

// maxReplacement is the maximum length of a replacement in bytes. The normal forms of Unicode need at most 33 bytes.
const maxReplacement = 255

// charsmapValue marks a unit that holds a value.
const charsmapValue = 1 << 31

// charsmapOffset decodes the offset of a unit to its children.
func charsmapOffset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

// longest returns the replacement of the longest sequence at the start of text and the
// length of that sequence. The length is 0 if no sequence matches.
func (m *charsmap) longest(text string) (replacement []byte, length int) {
	node := charsmapOffset(m.units[0])
	for i := range len(text) {
		c := text[i]
		if c == 0 {
			break
		}
		node ^= uint32(c)
		if int(node) >= len(m.units) || m.units[node]&(charsmapValue|0xFF) != uint32(c) {
			break
		}
		unit := m.units[node]
		node ^= charsmapOffset(unit)
		if int(node) >= len(m.units) {
			break
		}
		if unit>>8&1 != 0 && m.units[node]&charsmapValue != 0 {
			rest := m.texts[m.units[node]&^charsmapValue:]
			replacement, length = rest[:bytes.IndexByte(rest, 0)], i+1
		}
	}
	return replacement, length
}

// normalize replaces the longest matching sequence at each position and copies all
// other characters.
func (m *charsmap) normalize(meter *meter, text string) string {
	b := metered{m: meter, stage: "normalizer.Precompiled"}
	b.room(len(text))
	for text != "" && meter.err == nil {
		replacement, length := m.longest(text)
		if length == 0 {
			_, length = utf8.DecodeRuneInString(text)
			b.writeString(text[:length])
		} else {
			_, _ = b.Write(replacement) // b fails only with meter
		}
		text = text[length:]
	}
	return b.text()
}
