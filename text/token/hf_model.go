package token

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// hfModel is the "model" section. The vocabulary and the merges may be large, so they
// stay encoded and are parsed in place.
type hfModel struct {
	vocab, merges json.RawMessage
	options       struct {
		Type         string
		UnkToken     *string `json:"unk_token"`
		UnkID        *int32  `json:"unk_id"`
		Prefix       *string `json:"continuing_subword_prefix"`
		Suffix       *string `json:"end_of_word_suffix"`
		FuseUnk      bool    `json:"fuse_unk"`
		ByteFallback bool    `json:"byte_fallback"`
		IgnoreMerges bool    `json:"ignore_merges"`
		MostChars    *int    `json:"max_input_chars_per_word"`
	}
}

// read reads the section and splits off the vocabulary and the merges.
func (m *hfModel) read(r *jsonReader) {
	// json.Unmarshal would copy the vocabulary and the merges, so read collects the other
	// options in a separate object.
	options := []byte{'{'}
	r.uniqueObject(func(key []byte) {
		value := r.raw()
		switch string(key) {
		case "vocab":
			m.vocab = value
		case "merges":
			m.merges = value
		default:
			if len(options) > 1 {
				options = append(options, ',')
			}
			options = append(strconv.AppendQuote(options, string(key)), ':')
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

// eachPiece calls f for every entry of the vocabulary: {"piece": id} for BPE,
// [["piece", score]] for Unigram. text may alias the file's bytes.
func (m *hfModel) eachPiece(f func(text []byte, id int32, score float64)) error {
	r := &jsonReader{field: "model.vocab", data: m.vocab}
	if r.next() == '{' {
		r.object(func(key []byte) {
			if id := r.id(); r.err == nil {
				f(key, id, 0)
			}
		})
		return r.err
	}
	id := int32(0)
	r.array(func() {
		var text []byte
		var score float64
		fields := 0
		r.array(func() {
			if fields++; fields == 1 {
				text = r.str()
			} else {
				score = r.float()
			}
		})
		if fields != 2 {
			r.fail("expected a pair of a piece and its score")
		}
		if r.err == nil {
			f(text, id, score)
		}
		id++
	})
	return r.err
}

// float reads a score.
func (r *jsonReader) float() float64 {
	text := r.number()
	v, err := strconv.ParseFloat(string(text), 64)
	if r.err == nil && err != nil {
		r.fail(string(text) + " is not a valid score")
	}
	return v
}

// readMerge reads "left right" or ["left", "right"].
func readMerge(r *jsonReader) (pair [2][]byte) {
	if r.next() == '"' {
		line := r.str()
		left, right, ok := bytes.Cut(line, []byte{' '})
		if r.err == nil && (!ok || bytes.IndexByte(right, ' ') >= 0) {
			r.fail("the merge " + strconv.Quote(shorten(string(line))) + " does not consist of two pieces")
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
		r.fail("a merge has two pieces, not " + strconv.Itoa(n))
	}
	return pair
}

// maxUnassigned is the maximum number of ids that a tokenizer file may skip. It exceeds
// what any model family reserves, and it bounds the memory that a small file can claim.
const maxUnassigned = 1 << 13

// collectPieces returns the model's pieces by id and reserves the ids of the added
// tokens.
func (m *hfModel) collectPieces(s *hfSource, added []hfAdded) (kinds []kind, texts [][]byte) {
	count, last := 0, int32(-1)
	s.fail(m.eachPiece(func(_ []byte, id int32, _ float64) {
		count++
		last = max(last, id)
	}))
	for i, a := range added {
		if a.ID == nil || *a.ID < 0 || a.Content == "" {
			s.fail(malformed("added_tokens", "entry %d has no id or no content", i))
			return nil, nil
		}
		last = max(last, *a.ID)
	}
	if int(last) >= count+len(added)+maxUnassigned {
		s.fail(malformed("model.vocab", "the id %d is too large for %d tokens: at most %d ids may be unassigned", last, count+len(added), maxUnassigned))
	}
	if s.err != nil {
		return nil, nil
	}
	kinds, texts = make([]kind, last+1), make([][]byte, last+1)
	s.fail(m.eachPiece(func(text []byte, id int32, _ float64) {
		if kinds[id] != kindUnassigned {
			s.fail(malformed("model.vocab", "id %d is assigned to both %q and %q", id, texts[id], text))
		}
		kinds[id], texts[id] = kindNormal, text
		if m.options.ByteFallback && len(text) == 6 {
			if _, ok := byteToken(string(text)); ok {
				kinds[id] = kindByte
			}
		}
	}))
	return kinds, texts
}

// buildModel builds the model. The vocabulary must be complete.
func (s *hfSource) buildModel(t *Tokenizer) {
	o := &s.model.options
	kind := o.Type
	if kind == "" && o.UnkID != nil { // files that predate the field
		kind = "Unigram"
	}
	switch kind {
	case "BPE", "":
		t.family, t.model = "BPE", s.buildBPE(t)
	case "Unigram":
		t.family, t.model = "Unigram", s.buildUnigram()
	case "WordPiece":
		t.family, t.model = "WordPiece", s.buildWordPiece()
	default:
		s.fail(unsupported("model.type", "tokenizer model %q", kind))
	}
}

// buildBPE builds a byte-pair encoding model. It may add a stage to the pre-tokenizer.
func (s *hfSource) buildBPE(t *Tokenizer) model {
	o := &s.model.options
	switch {
	case o.Prefix != nil && *o.Prefix != "":
		s.fail(unsupported("model.continuing_subword_prefix", "%q", *o.Prefix))
	case o.Suffix != nil && *o.Suffix != "":
		s.fail(unsupported("model.end_of_word_suffix", "%q", *o.Suffix))
	}
	m := &bpeModel{vocab: s.vocab, byteLevel: s.byteLevel, unknown: -1, fuseUnknown: o.FuseUnk, ignoreMerges: o.IgnoreMerges}
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
	// The stage must not change the result. With ignoreMerges an entire text may be a
	// piece, and byte-level pieces do not contain "▁".
	if s.err == nil && !s.byteLevel && !m.ignoreMerges && metaSymbolOnlyLeads(s.vocab) {
		t.preTokenizer = append(t.preTokenizer, metaSymbolSplit{})
	}
	return m
}

// mergeTable reads the merges.
func (s *hfSource) mergeTable() *mergeTable {
	table := newMergeTable(0)
	if s.model.merges == nil {
		s.fail(malformed("model.merges", "is missing"))
		return table
	}
	rank := int32(0)
	joined := make([]byte, 0, 256)
	r := &jsonReader{field: "model.merges", data: s.model.merges}
	r.array(func() {
		pair := readMerge(r)
		if r.err != nil {
			return
		}
		joined = append(append(joined[:0], pair[0]...), pair[1]...)
		left, right := s.vocab.lookup(string(pair[0])), s.vocab.lookup(string(pair[1]))
		result := s.vocab.lookup(string(joined))
		if left < 0 || right < 0 || result < 0 {
			r.err = malformed("model.merges",
				"entry %d (%q, %q): one of the two pieces or their concatenation is not in the vocabulary", rank, pair[0], pair[1])
			return
		}
		// As in Hugging Face's tokenizers, the last of two equal entries wins.
		table.put(left, right, merge{rank: rank, id: result}, true)
		rank++
	})
	s.fail(r.err)
	return table
}

// buildUnigram builds a Unigram model. Only pieces of the model section take part;
// added tokens do not.
func (s *hfSource) buildUnigram() model {
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
	s.fail(s.model.eachPiece(func(_ []byte, id int32, score float64) {
		scores[id], inModel[id] = score, true
	}))
	m := newUnigram(s.vocab, scores, unknown, func(id int32) bool {
		return inModel[id] && mergeable(s.vocab.kinds[id]) && id != unknown
	})
	m.byteFallback = o.ByteFallback
	s.fail(m.checkPieces("model.vocab"))
	return m
}
