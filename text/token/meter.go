package token

import (
	"strings"
	"unicode/utf8"
)

// The encoder takes memory for what the stages make of a text, for the ids, and for the
// work on a long word. A meter counts these bytes before they are allocated.
const (
	// maxTextGrowth is the maximum size of the texts that exist at a time, divided by the
	// length of the input. Compatibility forms make a text up to 11 times as long, and "▁"
	// for its spaces a little more. Two texts exist while one becomes the next, and buffers
	// grow by doubling.
	maxTextGrowth = 64
	// textSlack is added to the limit, for prefixes of short texts.
	textSlack = 64 << 10
	// idCost is the memory of an id: in its block, and in the slice that joins the blocks.
	idCost = 8
	// wordCost is the memory for each symbol that is merged: itself and its copies, neighbors,
	// positions and pushed positions, and the buckets of ranks.
	wordCost = 64
	// longWord is the length in bytes from which words are counted.
	longWord = 1 << 10
	// meterStep is the granularity in bytes at which the meter reserves.
	meterStep = 1 << 20
)

// meter counts the memory that the encoding of one text takes. After a refusal err is set,
// and the stages make no more text.
type meter struct {
	input   int   // bytes of the input
	limit   int64 // maximum bytes of text
	granted int64 // bytes that are reserved
	reserve func(bytes int64) error

	live int64 // bytes of text that stages have made and still use
	work int64 // bytes of working memory for a word
	done int64 // bytes of text that the model has encoded
	ids  int64 // ids so far
	err  error
}

// newMeter returns a meter for an input of n bytes. Its text may become growth times as
// long.
func newMeter(n, growth int, o EncodeOptions) *meter {
	return &meter{input: n, limit: int64(n)*int64(growth) + textSlack, granted: o.Granted, reserve: o.Reserve}
}

// hold counts n bytes of text that a stage is about to make. If it returns false, the
// stage makes none and returns "".
func (m *meter) hold(stage string, n int) bool {
	if m.err != nil {
		return false
	}
	if m.live+m.done+int64(n) > m.limit {
		return m.refuse(stage)
	}
	if !m.take(m.live + int64(n) + m.work + idCost*m.ids) {
		return false
	}
	m.live += int64(n)
	return true
}

// word counts a word that the model is about to encode. n is the number of ids so far.
func (m *meter) word(length, n int, by model) bool {
	if m.err != nil {
		return false
	}
	m.ids, m.done = int64(n), m.done+int64(length)
	if m.done > m.limit {
		return m.refuse("pre_tokenizer")
	}
	if length <= longWord {
		return m.works(0)
	}
	return m.works(by.memory(length))
}

// works counts the working memory for a word.
func (m *meter) works(bytes int64) bool {
	m.work = bytes
	return m.err == nil && m.take(m.live+m.work+idCost*m.ids)
}

// take reserves what need exceeds the reservation by.
func (m *meter) take(need int64) bool {
	if need <= m.granted || m.reserve == nil {
		return true
	}
	more := (need - m.granted + meterStep - 1) / meterStep * meterStep
	if m.err = m.reserve(more); m.err != nil {
		return false
	}
	m.granted += more
	return true
}

// replaced forgets the text that a stage has replaced. before is live before the stage,
// and kept the bytes of the text that the stage has read. It returns the bytes of the text
// that the stage has made.
func (m *meter) replaced(before, kept int64) int64 {
	if made := m.live - before; made > 0 {
		m.live -= kept
		return made
	}
	return kept // the stage made no new text
}

// refuse records that a stage makes too much text.
func (m *meter) refuse(stage string) bool {
	m.err = unsupported(stage, "a stage that makes more than %d bytes of a text of %d bytes", m.limit, m.input)
	return false
}

// metered builds the text of a stage. It counts its buffer before the buffer grows.
type metered struct {
	m     *meter
	stage string
	b     strings.Builder
}

// room makes room for n more bytes.
func (w *metered) room(n int) bool {
	old := w.b.Cap()
	if n <= old-w.b.Len() {
		return w.m.err == nil
	}
	if !w.m.hold(w.stage, 2*old+n) {
		return false
	}
	w.b.Grow(n) // to twice its capacity and n
	w.m.live -= int64(old)
	return true
}

func (w *metered) writeString(s string) {
	if w.room(len(s)) {
		w.b.WriteString(s)
	}
}

func (w *metered) writeRune(r rune) {
	if w.room(utf8.UTFMax) {
		w.b.WriteRune(r)
	}
}

func (w *metered) writeByte(b byte) {
	if w.room(1) {
		w.b.WriteByte(b)
	}
}

// Write implements io.Writer for the normal forms.
func (w *metered) Write(b []byte) (int, error) {
	if !w.room(len(b)) {
		return 0, w.m.err
	}
	return w.b.Write(b)
}

// text returns the text, or "" if it was refused.
func (w *metered) text() string {
	if w.m.err != nil {
		return ""
	}
	return w.b.String()
}
