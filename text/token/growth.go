package token

import (
	"bytes"

	"golang.org/x/text/unicode/norm"
)

// A tokenizer file chooses replacements and the order in which they apply. A few
// replacements in a row can grow a text exponentially: ten that each double it make a
// kilobyte a megabyte. Every stage that rewrites text therefore has a growth, and the
// file is refused if the product of the growths exceeds maxGrowth.

// maxGrowth is the maximum growth of a text from its input to the model. Real files
// reach 1089: a normal form (11), lower case (1.5), a character map (11), and "▁" both for
// each space and before the text (6). No real text grows as much.
const maxGrowth = 2048

// grower is a stage that rewrites text.
type grower interface {
	// growth returns the maximum length of the result of the stage for a text of one or
	// more bytes, divided by the length of that text. It is at least 1.
	growth() float64
}

// checkGrowth refuses stages that together can grow a text more than maxGrowth times.
// Stages that do not implement grower only split text.
func checkGrowth[S any](field string, total float64, stages ...S) (float64, error) {
	for _, stage := range stages {
		if g, ok := any(stage).(grower); ok {
			total *= g.growth()
		}
	}
	if total > maxGrowth {
		return total, unsupported(field, "replacements that can make a text more than %d times as long", maxGrowth)
	}
	return total, nil
}

// ratio returns the growth of a stage that replaces parts of at least from bytes with to
// bytes.
func ratio(to, from int) float64 { return max(1, float64(to)/float64(from)) }

func (ns normalizers) growth() float64 {
	total := 1.0
	for _, n := range ns {
		total *= n.growth()
	}
	return total
}

func (p prepend) growth() float64 { return 1 + float64(len(p)) }

// growth assumes that a regular expression matches single bytes.
func (r *replace) growth() float64 {
	if l, ok := r.match.(literal); ok {
		return ratio(len(r.with), len(l))
	}
	return ratio(len(r.with), 1)
}

// growth returns the factors that Unicode guarantees for text in UTF-8.
func (f form) growth() float64 {
	if norm.Form(f) == norm.NFC || norm.Form(f) == norm.NFD {
		return 3
	}
	return 11
}

// growth is that of U+023A, whose lower case takes three bytes instead of two.
func (lowercase) growth() float64 { return 1.5 }

func (strip) growth() float64 { return 1 }

// growth counts U+FFFD for each invalid byte.
func (stripAccents) growth() float64 { return 3 }

// growth counts "▁" for each space and one before the text.
func (spaceEscaper) growth() float64 { return 2 * float64(len(metaSymbol)) }

func (c *metaspace) growth() float64 { return 2 * float64(len(c.symbol)) }

func (byteLevelLetters) growth() float64 { return 2 }
func (spacePrefix) growth() float64      { return 2 }

// growth compares each replacement with the shortest sequence that leads to it. It walks
// the trie breadth first, so that it visits each unit once and by its shortest sequence.
func (m *charsmap) growth() float64 {
	most := 1.0
	seen := make([]bool, len(m.units))
	level := []uint32{charsmapOffset(m.units[0])} // offsets to the children of the nodes of a level
	for depth := 1; len(level) > 0; depth++ {
		var next []uint32
		for _, children := range level {
			for c := uint32(1); c < 256; c++ {
				at := children ^ c
				if int(at) >= len(m.units) || seen[at] || m.units[at]&(charsmapValue|0xFF) != c {
					continue
				}
				seen[at] = true
				leaf := at ^ charsmapOffset(m.units[at])
				if int(leaf) >= len(m.units) {
					continue
				}
				next = append(next, leaf)
				if m.units[at]>>8&1 != 0 && m.units[leaf]&charsmapValue != 0 {
					text := m.texts[m.units[leaf]&^charsmapValue:]
					most = max(most, ratio(bytes.IndexByte(text, 0), depth))
				}
			}
		}
		level = next
	}
	return most
}
