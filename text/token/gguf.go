package token

import (
	"strconv"
	"strings"

	"github.com/llmrun/llmrun/store/gguf"
)

// Metadata keys that describe the tokenizer of a GGUF file.
const (
	keyModel       = "tokenizer.ggml.model"
	keyPre         = "tokenizer.ggml.pre"
	keyTokens      = "tokenizer.ggml.tokens"
	keyScores      = "tokenizer.ggml.scores"
	keyTypes       = "tokenizer.ggml.token_type"
	keyMerges      = "tokenizer.ggml.merges"
	keyBOS         = "tokenizer.ggml.bos_token_id"
	keyEOS         = "tokenizer.ggml.eos_token_id"
	keyEOT         = "tokenizer.ggml.eot_token_id"
	keyEOM         = "tokenizer.ggml.eom_token_id"
	keyUnknown     = "tokenizer.ggml.unknown_token_id"
	keyAddBOS      = "tokenizer.ggml.add_bos_token"
	keyAddEOS      = "tokenizer.ggml.add_eos_token"
	keyAddSep      = "tokenizer.ggml.add_sep_token"
	keySeparator   = "tokenizer.ggml.seperator_token_id" // as converters spell it
	keyCLS         = "tokenizer.ggml.cls_token_id"
	keySpacePrefix = "tokenizer.ggml.add_space_prefix"
	keyExtraSpace  = "tokenizer.ggml.remove_extra_whitespaces"
	keyCharsmap    = "tokenizer.ggml.precompiled_charsmap"
	keyName        = "general.name"
)

// ggufSource reads the metadata of a tokenizer. It records the first error, and the
// callers check err.
type ggufSource struct {
	meta  *gguf.Metadata
	vocab *vocabulary
	err   error
}

// FromGGUF builds the tokenizer that the metadata of a GGUF file describes. The file
// may lack tensors.
func FromGGUF(meta *gguf.Metadata) (*Tokenizer, error) {
	s := &ggufSource{meta: meta}
	model := s.stringValue(keyModel)
	if s.err != nil {
		return nil, s.err
	}
	build, ok := ggufModels[model]
	switch {
	case model == "":
		return nil, meta.Errorf(keyModel, "is missing: the file has no tokenizer")
	case !ok:
		return nil, unsupported(keyModel, "tokenizer model %q", model)
	}
	s.readVocabulary()
	if s.err != nil {
		return nil, s.err
	}
	t := build(s)
	if s.err != nil {
		return nil, s.err
	}
	t.path = meta.Path()
	return t, nil
}

// ggufModels maps the values of tokenizer.ggml.model to the functions that build the
// model.
var ggufModels = map[string]func(*ggufSource) *Tokenizer{
	"llama": (*ggufSource).buildSPM, "gpt2": (*ggufSource).buildBPE, "t5": (*ggufSource).buildUnigram,
	"gemma4": (*ggufSource).buildMergedSPM, "bert": (*ggufSource).buildWordPiece,
}

// fail records the first error.
func (s *ggufSource) fail(err error) {
	if s.err == nil && err != nil {
		s.err = err
	}
}

// stringValue reads a string. It returns "" if the key is missing.
func (s *ggufSource) stringValue(key string) string {
	v, _, err := s.meta.String(key)
	s.fail(err)
	return v
}

// boolValue reads a boolean. It returns absent if the key is missing.
func (s *ggufSource) boolValue(key string, absent bool) bool {
	v, ok, err := s.meta.Bool(key)
	s.fail(err)
	if !ok {
		return absent
	}
	return v
}

// idValue reads a token id. If the key is missing it returns absent where the
// vocabulary has that id, and -1 otherwise.
func (s *ggufSource) idValue(key string, absent int32) int32 {
	v, ok, err := s.meta.Uint(key)
	s.fail(err)
	switch {
	case !ok && s.vocab.has(absent):
		return absent
	case !ok:
		return -1
	case v >= uint64(s.vocab.size()):
		s.fail(s.meta.Errorf(key, "id %d is out of range for %d tokens", v, s.vocab.size()))
		return -1
	}
	return int32(v)
}

// readVocabulary reads the pieces and their kinds.
func (s *ggufSource) readVocabulary() {
	tokens, ok, err := s.meta.Strings(keyTokens)
	s.fail(err)
	if s.err == nil && (!ok || tokens.Len() == 0) {
		s.fail(s.meta.Errorf(keyTokens, "is missing or empty"))
	}
	kinds := s.readKinds(tokens.Len())
	if s.err != nil {
		return
	}
	piece := func(id int) string {
		if p := tokens.At(id); p != "" {
			return p
		}
		return "[EMPTY_" + strconv.Itoa(id) + "]" // llama.cpp's name for padding
	}
	v, err := newVocabulary(keyTokens, tokens.Len(), piece, kinds)
	s.fail(err)
	s.vocab = v
	if s.err == nil {
		s.overrideKinds()
	}
}

// readKinds reads the kinds of n tokens. Without the key all tokens are normal.
func (s *ggufSource) readKinds(n int) []kind {
	kinds := make([]kind, n)
	for i := range kinds {
		kinds[i] = kindNormal
	}
	types, ok, err := s.meta.Ints(keyTypes)
	s.fail(err)
	if !ok || s.err != nil {
		return kinds
	}
	if len(types) != n {
		s.fail(s.meta.Errorf(keyTypes, "has %d entries for %d tokens", len(types), n))
		return kinds
	}
	for i, t := range types {
		switch {
		case t < 0 || t > int64(kindByte):
			s.fail(s.meta.Errorf(keyTypes, "token %d has the unknown type %d", i, t))
		// llama.cpp calls type 0 undefined. The token has a piece, so its id is not
		// unassigned.
		case t == 0:
			kinds[i] = kindUnused
		default:
			kinds[i] = kind(t)
		}
	}
	return kinds
}

// overrideKinds marks tokens with a well-known end-of-generation name as control
// tokens, because some converters write them as ordinary tokens. It also checks the
// spelling of byte tokens.
func (s *ggufSource) overrideKinds() {
	for _, name := range eosNames {
		if id := s.vocab.lookup(name); id >= 0 {
			s.vocab.kinds[id] = kindControl
		}
	}
	for id, k := range s.vocab.kinds {
		if _, ok := byteToken(s.vocab.piece(int32(id))); k == kindByte && !ok {
			s.fail(s.meta.Errorf(keyTypes, "token %d has the type byte, but its spelling %q is not of the form <0x41>", id, s.vocab.piece(int32(id))))
		}
	}
}

// buildAddedTokens collects the tokens that the tokenizer matches before the model
// runs.
func (s *ggufSource) buildAddedTokens() *addedSet {
	// Phi-3 removes white space after its role tokens. GGUF has no field for this rule,
	// so llama.cpp and this package derive it from the model's name.
	name := strings.ToLower(s.stringValue(keyName))
	strips := strings.Contains(name, "phi-3") || strings.Contains(name, "phi3")
	var tokens []addedToken
	for id, k := range s.vocab.kinds {
		if !k.special() && k != kindUser {
			continue
		}
		text := s.vocab.piece(int32(id))
		// llama.cpp excludes these tokens from the rule.
		plain := text == "<unk>" || text == "<s>" || text == "<|endoftext|>"
		tokens = append(tokens, addedToken{
			id: int32(id), text: text, special: k.special(), stripRight: strips && !plain,
		})
	}
	return newAddedSet(tokens)
}

// finish sets the fields that all models share. bos, eos, addBOS and addEOS are the
// defaults for missing keys.
func (s *ggufSource) finish(t *Tokenizer, bos, eos int32, addBOS, addEOS bool) *Tokenizer {
	t.vocab, t.addedRaw, t.addedNormalized = s.vocab, s.buildAddedTokens(), newAddedSet(nil)
	t.bos = s.idValue(keyBOS, bos)
	eos = s.idValue(keyEOS, eos)
	t.eos = eos
	if s.boolValue(keyAddBOS, addBOS) && t.bos >= 0 {
		t.prefix = []int32{t.bos}
	}
	if s.boolValue(keyAddEOS, addEOS) && eos >= 0 {
		t.suffix = []int32{eos}
	}
	t.pair = pairRule{between: t.suffix, behind: t.suffix}
	if sep := s.idValue(keySeparator, eos); sep >= 0 && len(t.suffix) > 0 && s.boolValue(keyAddSep, len(t.prefix) > 0) {
		t.pair.between = []int32{eos, sep}
	}
	var ends []int32
	for _, id := range []int32{eos, s.idValue(keyEOT, -1), s.idValue(keyEOM, -1)} {
		if id >= 0 {
			ends = append(ends, id)
		}
	}
	t.eosTokens = findEOS(s.vocab, ends, func(int32) bool { return true })
	return t
}

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
