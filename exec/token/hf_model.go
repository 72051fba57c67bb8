package token

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// hfModel is the "model" part: two lists that may be large, and options.
type hfModel struct {
	pieces  []hfPiece
	merges  [][2][]byte
	options struct {
		Type         string
		UnkToken     *string  `json:"unk_token"`
		UnkID        *int32   `json:"unk_id"`
		Prefix       *string  `json:"continuing_subword_prefix"`
		Suffix       *string  `json:"end_of_word_suffix"`
		Dropout      *float64 `json:"dropout"`
		FuseUnk      bool     `json:"fuse_unk"`
		ByteFallback bool     `json:"byte_fallback"`
		IgnoreMerges bool     `json:"ignore_merges"`
	}
}

type hfPiece struct {
	text  []byte
	id    int32
	score float64
}

// read reads the part; its options are decoded once they are all known.
func (m *hfModel) read(r *jsonReader) {
	options := []byte{'{'}
	seen := map[string]bool{}
	r.object(func(key []byte) {
		name := string(key)
		if seen[name] {
			r.fail("the key " + shorten(name) + " occurs twice")
		}
		seen[name] = true
		switch name {
		case "vocab":
			m.readVocab(r)
		case "merges":
			r.array(func() { m.merges = append(m.merges, readMerge(r)) })
		default:
			value := r.raw()
			if len(options) > 1 {
				options = append(options, ',')
			}
			options = append(strconv.AppendQuote(options, name), ':')
			options = append(options, value...)
		}
	})
	if r.err != nil {
		return
	}
	if err := json.Unmarshal(append(options, '}'), &m.options); err != nil {
		r.fail("model: " + err.Error())
	}
}

// readVocab reads {"piece": id} (BPE) or [["piece", score]] (Unigram).
func (m *hfModel) readVocab(r *jsonReader) {
	if r.next() == '{' {
		r.object(func(key []byte) {
			m.pieces = append(m.pieces, hfPiece{text: key, id: r.id()})
		})
		return
	}
	r.array(func() {
		p := hfPiece{id: int32(len(m.pieces))}
		field := 0
		r.array(func() {
			switch field {
			case 0:
				p.text = r.str()
			case 1:
				p.score = r.float()
			default:
				r.fail("expected a piece and its score")
			}
			field++
		})
		if r.err == nil && field != 2 {
			r.fail("expected a piece and its score")
		}
		m.pieces = append(m.pieces, p)
	})
}

func (r *jsonReader) float() float64 {
	text := r.number()
	v, err := strconv.ParseFloat(string(text), 64)
	if r.err == nil && err != nil {
		r.fail(string(text) + " is not a score")
	}
	return v
}

// readMerge reads "left right" or ["left", "right"].
func readMerge(r *jsonReader) (pair [2][]byte) {
	if r.next() == '"' {
		line := r.str()
		left, right, ok := bytes.Cut(line, []byte{' '})
		if r.err == nil && (!ok || bytes.IndexByte(right, ' ') >= 0) {
			r.fail("the merge " + strconv.Quote(shorten(string(line))) + " is not two pieces")
		}
		return [2][]byte{left, right}
	}
	n := 0
	r.array(func() {
		text := r.str()
		if n < 2 {
			pair[n] = text
		}
		n++
	})
	if r.err == nil && n != 2 {
		r.fail("a merge of " + strconv.Itoa(n) + " pieces")
	}
	return pair
}

// maxHoles is how many ids a description may skip: enough for every family
// that reserves some, and too few to make a small file a large vocabulary.
const maxHoles = 1 << 16

// layOut returns the pieces by id, with room for the added tokens.
func (m *hfModel) layOut(s *hfSource, added []hfAdded) (kinds []kind, texts [][]byte) {
	last := int64(-1)
	for _, p := range m.pieces {
		last = max(last, int64(p.id))
	}
	for i, a := range added {
		if a.ID == nil || *a.ID < 0 || a.Content == "" {
			s.fail(malformed("added_tokens", "entry %d has no id or no content", i))
			return nil, nil
		}
		last = max(last, int64(*a.ID))
	}
	if last >= int64(len(m.pieces)+len(added)+maxHoles) {
		s.fail(malformed("model.vocab", "the id %d is far beyond the %d tokens", last, len(m.pieces)+len(added)))
		return nil, nil
	}
	kinds, texts = make([]kind, last+1), make([][]byte, last+1)
	for _, p := range m.pieces {
		if kinds[p.id] != kindHole {
			s.fail(malformed("model.vocab", "id %d is both %q and %q", p.id, texts[p.id], p.text))
			return nil, nil
		}
		kinds[p.id], texts[p.id] = kindNormal, p.text
		if _, ok := byteToken(string(p.text)); ok && m.options.ByteFallback {
			kinds[p.id] = kindByte
		}
	}
	return kinds, texts
}

// buildModel makes the model of a tokenizer whose vocabulary is known.
func (s *hfSource) buildModel(t *Tokenizer) {
	o := &s.model.options
	kind := o.Type
	if kind == "" && o.UnkID != nil { // files from before the field existed
		kind = "Unigram"
	}
	switch kind {
	case "BPE", "":
		t.family, t.model = "BPE", s.pairs(t)
	case "Unigram":
		t.family, t.model = "Unigram", s.unigram()
	default:
		s.fail(unsupported("model.type", "the model %q", kind))
	}
}

func (s *hfSource) pairs(t *Tokenizer) model {
	o := &s.model.options
	switch {
	case o.Prefix != nil && *o.Prefix != "":
		s.fail(unsupported("model.continuing_subword_prefix", "%q", *o.Prefix))
	case o.Suffix != nil && *o.Suffix != "":
		s.fail(unsupported("model.end_of_word_suffix", "%q", *o.Suffix))
	}
	m := &bpeModel{vocab: s.vocab, byteLevel: s.byteLevel, unknown: -1, fuse: o.FuseUnk, wholeWords: o.IgnoreMerges}
	if o.UnkToken != nil {
		if m.unknown = s.vocab.lookup(*o.UnkToken); m.unknown < 0 {
			s.fail(malformed("model.unk_token", "%q is not in the vocabulary", *o.UnkToken))
		}
	}
	for b := range m.bytes {
		m.bytes[b] = -1
		if s.byteLevel {
			m.bytes[b] = s.vocab.lookupPlain(string(byteLetter[b]))
		}
	}
	if o.ByteFallback && !s.byteLevel {
		m.bytes = byteTokens(s.vocab)
	}
	m.merges = s.mergeTable()
	if t.words == nil && s.err == nil && !m.wholeWords && wordsEndAtMarks(s.vocab) {
		t.words = chain{markWords{}}
	}
	return m
}

func (s *hfSource) mergeTable() *mergeTable {
	table := newMergeTable(len(s.model.merges))
	joined := make([]byte, 0, 256)
	for rank, pair := range s.model.merges {
		joined = append(append(joined[:0], pair[0]...), pair[1]...)
		a, b, whole := s.vocab.lookup(string(pair[0])), s.vocab.lookup(string(pair[1])), s.vocab.lookup(string(joined))
		if a < 0 || b < 0 || whole < 0 {
			s.fail(malformed("model.merges", "entry %d (%q, %q): a part or the result is not in the vocabulary", rank, pair[0], pair[1]))
			return nil
		}
		table.put(a, b, merge{rank: int32(rank), id: whole}, true)
	}
	s.model.merges = nil
	return table
}

func (s *hfSource) unigram() model {
	o := &s.model.options
	unknown := int32(-1)
	if o.UnkID != nil {
		if unknown = *o.UnkID; !s.vocab.has(unknown) {
			s.fail(malformed("model.unk_id", "%d is not in the vocabulary", unknown))
			return nil
		}
	}
	scores := make([]float64, s.vocab.size())
	inModel := make([]bool, s.vocab.size())
	for _, p := range s.model.pieces {
		scores[p.id], inModel[p.id] = p.score, true
	}
	m := newUnigram(s.vocab, scores, unknown, func(id int32) bool {
		return inModel[id] && mergeable(s.vocab.kinds[id]) && id != unknown
	})
	m.spellBytes = o.ByteFallback
	return m
}
