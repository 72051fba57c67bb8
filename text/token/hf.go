package token

import (
	"encoding/json"
	"slices"
)

// Config holds the files beside a tokenizer.json that define the special tokens. Each
// of them may be nil.
type Config struct {
	Path       string // of the tokenizer.json, for errors; may be ""
	Tokenizer  []byte // tokenizer_config.json
	SpecialMap []byte // special_tokens_map.json
	Generation []byte // generation_config.json
	Model      []byte // config.json
}

// hfSource reads a tokenizer.json. It records the first error, and FromJSON checks err
// after each step.
type hfSource struct {
	sections struct {
		added, normalizer, preTokenizer, postProcessor, decoder json.RawMessage
	}
	model hfModel
	vocab *vocabulary
	added []addedToken
	// normalized lists the added tokens that match in normalized text.
	normalized []addedToken
	byteLevel  bool // the vocabulary spells the bytes of a word as letters
	config     Config
	patterns   int // total length of the compiled regular expressions in bytes
	// growth is the growth of a text by the stages built so far; see maxGrowth.
	growth float64
	err    error
}

// FromJSON builds the tokenizer that a Hugging Face tokenizer.json describes.
func FromJSON(tokenizerJSON []byte, config Config) (*Tokenizer, error) {
	s := &hfSource{config: config, growth: 1}
	t := &Tokenizer{path: config.Path, bos: -1, eos: -1}
	steps := []func(*Tokenizer){
		func(*Tokenizer) { s.read(tokenizerJSON) },
		s.buildVocabulary, s.buildNormalizer, s.buildPreTokenizer, s.buildDecoder,
		s.buildModel, s.buildAddedTokens, s.buildPostProcessor, s.configure,
	}
	for _, step := range steps {
		if step(t); s.err != nil {
			return nil, s.err
		}
	}
	return t, nil
}

// fail records the first error.
func (s *hfSource) fail(err error) {
	if s.err == nil && err != nil {
		s.err = err
	}
}

// read splits the file into its sections and decodes the model section.
func (s *hfSource) read(data []byte) {
	r := &jsonReader{data: data}
	parts := map[string]*json.RawMessage{
		"added_tokens": &s.sections.added, "normalizer": &s.sections.normalizer,
		"pre_tokenizer": &s.sections.preTokenizer, "post_processor": &s.sections.postProcessor,
		"decoder": &s.sections.decoder,
	}
	r.uniqueObject(func(key []byte) {
		if string(key) == "model" {
			s.model.read(r)
			return
		}
		value := r.raw()
		if part := parts[string(key)]; part != nil {
			*part = value
		}
	})
	if r.err == nil && r.next() != 0 {
		r.fail("unexpected data after the closing brace")
	}
	s.fail(r.err)
	if s.err == nil && s.model.vocab == nil {
		s.fail(malformed("model.vocab", "is missing"))
	}
}

// hfAdded is an entry of added_tokens.
type hfAdded struct {
	ID         *int32
	Content    string
	SingleWord bool `json:"single_word"`
	LStrip     bool
	RStrip     bool
	Normalized bool
	Special    bool
}

// buildVocabulary combines the pieces of the model with the added tokens.
func (s *hfSource) buildVocabulary(t *Tokenizer) {
	var added []hfAdded
	s.unmarshal("added_tokens", s.sections.added, &added)
	kinds, texts := s.model.collectPieces(s, added)
	if s.err != nil {
		return
	}
	s.added = make([]addedToken, 0, len(added))
	for i, a := range added {
		s.addToken(i, a, kinds, texts)
	}
	if s.err != nil {
		return
	}
	v, err := newVocabulary("model.vocab", len(texts), func(id int) []byte { return texts[id] }, kinds)
	s.fail(err)
	s.vocab, t.vocab = v, v
}

// addToken adds one added token. The model may already have a piece with the same id.
func (s *hfSource) addToken(i int, a hfAdded, kinds []kind, texts [][]byte) {
	id := *a.ID
	switch {
	case kinds[id] == kindUser || kinds[id] == kindControl:
		s.fail(malformed("added_tokens", "entry %d: id %d is a duplicate", i, id))
	case kinds[id] != kindUnassigned && string(texts[id]) != a.Content:
		s.fail(malformed("added_tokens", "entry %d: id %d is %q here, but %q in the vocabulary", i, id, a.Content, texts[id]))
	}
	texts[id], kinds[id] = []byte(a.Content), kindUser
	if a.Special {
		kinds[id] = kindControl
	}
	token := addedToken{
		id: id, text: a.Content, special: a.Special, singleWord: a.SingleWord,
		stripLeft: a.LStrip, stripRight: a.RStrip,
	}
	if a.Normalized {
		s.normalized = append(s.normalized, token)
	} else {
		s.added = append(s.added, token)
	}
}

// unmarshal decodes a small section of the file. A missing section or null leaves v
// unchanged.
func (s *hfSource) unmarshal(field string, raw json.RawMessage, v any) {
	if s.err != nil || len(raw) == 0 {
		return
	}
	if err := json.Unmarshal(raw, v); err != nil {
		s.fail(malformed(field, "%v", err))
	}
}

// maxAddedGrowth is the maximum length of the added tokens after the normalizer, divided
// by their length before. Every one of their bytes becomes a node of a trie.
const maxAddedGrowth = 4

// buildAddedTokens builds the two sets of added tokens. It normalizes the tokens that
// match in normalized text.
func (s *hfSource) buildAddedTokens(t *Tokenizer) {
	if t.norm != nil {
		total := 0
		for i := range s.normalized {
			total += len(s.normalized[i].text)
		}
		m := newMeter(total, maxAddedGrowth, EncodeOptions{})
		for i := range s.normalized {
			before := m.live
			text := t.norm.normalize(m, s.normalized[i].text)
			m.live = before + int64(len(text))
			s.normalized[i].text = text
		}
		if s.fail(m.err); m.err != nil {
			return
		}
	}
	t.addedRaw, t.addedNormalized = newAddedSet(s.added), newAddedSet(s.normalized)
}

// configure reads the special tokens from the configuration files.
func (s *hfSource) configure(t *Tokenizer) {
	var tok struct {
		BOS    specialName `json:"bos_token"`
		EOS    specialName `json:"eos_token"`
		AddBOS *bool       `json:"add_bos_token"`
		AddEOS *bool       `json:"add_eos_token"`
		Class  string      `json:"tokenizer_class"`
	}
	var names struct {
		BOS specialName `json:"bos_token"`
		EOS specialName `json:"eos_token"`
	}
	var generation, model specialIDs
	s.unmarshal("tokenizer_config.json", s.config.Tokenizer, &tok)
	s.unmarshal("special_tokens_map.json", s.config.SpecialMap, &names)
	s.unmarshal("generation_config.json", s.config.Generation, &generation)
	s.unmarshal("config.json", s.config.Model, &model)
	if s.err != nil {
		return
	}
	// The files are in order of precedence. transformers reads the tokenizer's
	// configuration first.
	t.bos = s.firstID(s.idOf(tok.BOS), s.idOf(names.BOS), generation.BOS, model.BOS)
	t.eos = s.firstID(s.idOf(tok.EOS), s.idOf(names.EOS), generation.EOS, model.EOS)
	builds := flagDrivenClasses[tok.Class]
	if tok.AddBOS == nil && builds && len(t.prefix) == 0 {
		// These classes add the token unless the flag is false.
		tok.AddBOS = &builds
	}
	t.prefix = applyFlag(t.prefix, tok.AddBOS, t.bos, builds)
	t.suffix = applyFlag(t.suffix, tok.AddEOS, t.eos, builds)
	// Any of the files may list end tokens, so the tokenizer has those of all files.
	ends := slices.Concat(s.knownIDs(s.idOf(tok.EOS)), s.knownIDs(s.idOf(names.EOS)),
		s.knownIDs(generation.EOS), s.knownIDs(model.EOS))
	t.eosTokens = findEOS(s.vocab, ends, func(id int32) bool {
		k := s.vocab.kinds[id]
		return k == kindControl || k == kindUser
	})
}

// applyFlag applies add_bos_token or add_eos_token to the ids that the post-processor
// adds. A flag applies to classes that build their post-processor from the flags
// (builds), and to other classes if the post-processor adds no token.
func applyFlag(have []int32, add *bool, id int32, builds bool) []int32 {
	switch {
	case add == nil || !builds && len(have) > 0:
		return have
	case *add && id >= 0:
		return []int32{id}
	case !*add && builds:
		return nil
	}
	return have
}

// flagDrivenClasses lists the tokenizer classes that build their post-processor from
// the flags.
var flagDrivenClasses = map[string]bool{
	"LlamaTokenizer": true, "LlamaTokenizerFast": true, "CodeLlamaTokenizer": true,
	"CodeLlamaTokenizerFast": true, "GemmaTokenizer": true, "GemmaTokenizerFast": true,
	"CohereTokenizer": true, "CohereTokenizerFast": true,
}

// idOf returns the id of a special token as a list of one id, or nil.
func (s *hfSource) idOf(name specialName) idList {
	if id := s.vocab.lookup(string(name)); name != "" && id >= 0 {
		return idList{id}
	}
	return nil
}

// firstID returns the first id of the first list whose first id is in the vocabulary,
// or -1.
func (s *hfSource) firstID(lists ...idList) int32 {
	for _, list := range lists {
		if len(list) > 0 && s.vocab.has(list[0]) {
			return list[0]
		}
	}
	return -1
}

// knownIDs removes ids that the vocabulary does not have. Such ids refer to padding
// rows of the embedding.
func (s *hfSource) knownIDs(ids idList) []int32 {
	var known []int32
	for _, id := range ids {
		if s.vocab.has(id) {
			known = append(known, id)
		}
	}
	return known
}

// specialName is the spelling of a token, read from a string or from the content of an
// object.
type specialName string

// UnmarshalJSON accepts a string or an object with the field content.
func (n *specialName) UnmarshalJSON(raw []byte) error {
	var object struct{ Content string }
	if len(raw) > 0 && raw[0] == '{' {
		err := json.Unmarshal(raw, &object)
		*n = specialName(object.Content)
		return err
	}
	return json.Unmarshal(raw, (*string)(n))
}

// specialIDs holds the special ids of config.json or generation_config.json.
type specialIDs struct {
	BOS idList `json:"bos_token_id"`
	EOS idList `json:"eos_token_id"`
}

// idList is read from a single id or from a list of ids.
type idList []int32

// UnmarshalJSON accepts an id, a list of ids or null.
func (l *idList) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '[' {
		return json.Unmarshal(raw, (*[]int32)(l))
	}
	var id *int32
	err := json.Unmarshal(raw, &id)
	if id != nil {
		*l = idList{*id}
	}
	return err
}
