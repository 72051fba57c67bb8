package index

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The kinds of records.
const (
	noteRecord = iota + 1
	removalRecord
	vectorRecord
	encoderRecord
)

// appendNote appends the content of a note's record.
func appendNote(b []byte, n *Note) []byte {
	b = appendText(b, n.Path)
	b = append(b, n.Hash[:]...)
	b = appendText(b, n.Title)
	b = binary.AppendUvarint(b, uint64(len(n.Tags)))
	for _, tag := range n.Tags {
		b = appendText(b, tag)
	}
	b = binary.AppendUvarint(b, uint64(len(n.Passages)))
	end := 0
	for i := range n.Passages {
		p := &n.Passages[i]
		b = binary.AppendUvarint(b, uint64(p.Start-end))
		b = binary.AppendUvarint(b, uint64(p.End-p.Start))
		b = binary.AppendUvarint(b, uint64(p.Words))
		end = p.End
		b = append(b, p.Key[:]...)
		b = binary.AppendUvarint(b, uint64(len(p.Terms)))
		last := uint64(0)
		for _, t := range p.Terms {
			b = binary.AppendUvarint(b, t.Hash-last)
			b = binary.AppendUvarint(b, uint64(t.Times-1))
			last = t.Hash
		}
	}
	return b
}

// Encoder is the model whose vectors an index has. The zero value is none.
type Encoder struct {
	Identity string // of the model with all that its vectors follow from
	Name     string // by which the program that uses the index opens it, such as a path
	Settings string // of that program
}

// appendEncoder appends the content of an encoder's record.
func appendEncoder(b []byte, e Encoder) []byte {
	return appendText(appendText(appendText(b, e.Identity), e.Name), e.Settings)
}

// decodeEncoder reads an encoder's record.
func decodeEncoder(content []byte) (Encoder, error) {
	d := decoder{b: content}
	e := Encoder{d.text(), d.text(), d.text()}
	return e, d.end()
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// A decoder reads the content of a record. After an error it returns zeros.
type decoder struct {
	b   []byte
	err error
}

var errRecord = errors.New("the record ends too early or holds an impossible number")

// number reads a number of at most most.
func (d *decoder) number(most uint64) uint64 {
	x, n := binary.Uvarint(d.b)
	if n <= 0 || x > most {
		d.b, d.err = nil, errRecord
		return 0
	}
	d.b = d.b[n:]
	return x
}

// count reads the number of things that follow, of which each takes at least size bytes.
func (d *decoder) count(size int) int { return int(d.number(uint64(len(d.b) / size))) }

// take returns the next bytes.
func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		d.b, d.err = nil, errRecord
		return make([]byte, n)
	}
	part := d.b[:n]
	d.b = d.b[n:]
	return part
}

func (d *decoder) text() string { return string(d.take(d.count(1))) }

// end returns the error of reading a whole record.
func (d *decoder) end() error {
	if d.err == nil && len(d.b) > 0 {
		return fmt.Errorf("%d bytes follow the record's content", len(d.b))
	}
	return d.err
}

// maxOffset is the end of the largest note.
const maxOffset = MaxNote

// decodeNote reads a note's record. visit is called with each passage, whose Terms are valid until it returns.
func decodeNote(content []byte, terms []Term, visit func(n *Note, p *Passage)) (n Note, err error) {
	d := decoder{b: content}
	n.Path = d.text()
	copy(n.Hash[:], d.take(len(n.Hash)))
	n.Title = d.text()
	for range d.count(1) {
		n.Tags = append(n.Tags, d.text())
	}
	end := 0
	for range d.count(4 + KeyBytes) {
		var p Passage
		p.Start = end + int(d.number(uint64(maxOffset-end)))
		p.End = p.Start + int(d.number(uint64(maxOffset-p.Start)))
		p.Words = int(d.number(maxOffset))
		end = p.End
		copy(p.Key[:], d.take(KeyBytes))
		terms = terms[:0]
		last := uint64(0)
		for range d.count(2) {
			last += d.number(1<<termBits - 1 - last)
			terms = append(terms, Term{last, int(d.number(maxOffset)) + 1})
		}
		p.Terms = terms
		if d.err != nil {
			break
		}
		visit(&n, &p)
	}
	return n, d.end()
}
