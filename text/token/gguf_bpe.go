package token

import "strings"

// buildBPE builds a byte-level BPE tokenizer.
func (s *ggufSource) buildBPE() *Tokenizer {
	name := s.stringValue(keyPre)
	pre, ok := prePatterns[name]
	if !ok {
		s.fail(unsupported(keyPre, "pre-tokenizer %q", name))
		return nil
	}
	words, err := pre.splitters()
	s.fail(err)
	m := &bpeModel{vocab: s.vocab, byteLevel: true, unknown: -1, ignoreMerges: pre.ignoreMerges}
	for b := range m.bytes {
		m.bytes[b] = s.vocab.lookupPlain(string(byteLetter[b]))
	}
	m.merges = s.readMerges()
	t := &Tokenizer{family: "BPE", preTokenizer: words, model: m, decoding: decodeRules{byteLevel: true}}
	return s.finish(t, -1, -1, pre.addBOS, false)
}

// readMerges reads the list of merges. Each entry has the form "left right".
func (s *ggufSource) readMerges() *mergeTable {
	list, ok, err := s.meta.Strings(keyMerges)
	s.fail(err)
	if s.err == nil && !ok {
		s.fail(s.meta.Errorf(keyMerges, "is missing"))
	}
	if s.err != nil {
		return nil
	}
	table := newMergeTable(list.Len())
	joined := make([]byte, 0, 256)
	for rank, line := range list.All() {
		left, right, ok := splitMerge(line)
		if !ok {
			s.fail(s.meta.Errorf(keyMerges, "entry %d %q does not consist of two pieces", rank, line))
			return nil
		}
		joined = append(append(joined[:0], left...), right...)
		a, b, result := s.vocab.lookup(left), s.vocab.lookup(right), s.vocab.lookup(string(joined))
		if a < 0 || b < 0 || result < 0 {
			s.fail(s.meta.Errorf(keyMerges, "entry %d %q: one of the two pieces or their concatenation is not in the vocabulary", rank, line))
			return nil
		}
		table.put(a, b, merge{rank: int32(rank), id: result}, false)
	}
	return table
}

// splitMerge splits a merge at its first space, ignoring a space at the start of the
// left piece.
func splitMerge(line string) (left, right string, ok bool) {
	if line == "" {
		return "", "", false
	}
	i := strings.IndexByte(line[1:], ' ') + 1
	if i == 0 || i+1 == len(line) {
		return "", "", false
	}
	return line[:i], line[i+1:], true
}
