package token

import (
	"encoding/json"
	"fmt"
	"slices"
)

// The post_processor and decoder sections of a tokenizer.json. The post-processor adds
// tokens around a text. The decoder converts pieces to text.

// hfTemplateItem is one item of a template: {"SpecialToken": …} or {"Sequence": …}.
type hfTemplateItem struct {
	SpecialToken *struct{ ID string }
	Sequence     *struct {
		ID   string
		Kind int `json:"type_id"`
	}
}

// hfTemplateToken holds the ids of an entry of special_tokens.
type hfTemplateToken struct{ IDs []int32 }

// hfPair is a token and its id, as in RobertaProcessing: ["</s>", 2].
type hfPair struct{ id int32 }

// UnmarshalJSON reads the pair and discards the spelling.
func (p *hfPair) UnmarshalJSON(raw []byte) error {
	var text string
	return json.Unmarshal(raw, &[]any{&text, &p.id})
}

// buildPostProcessor sets the ids that AddSpecial puts around a text.
func (s *hfSource) buildPostProcessor(t *Tokenizer) {
	s.addPostProcessor("post_processor", s.sections.postProcessor, t)
	for _, id := range slices.Concat(t.prefix, t.suffix, t.pair.between, t.pair.behind) {
		if s.err == nil && !s.vocab.has(id) {
			s.fail(malformed("post_processor", "id %d is not in the vocabulary", id))
		}
	}
}

// addPostProcessor applies one post-processor, which may be a sequence, to t.
func (s *hfSource) addPostProcessor(field string, raw json.RawMessage, t *Tokenizer) {
	p := s.component(field, raw)
	if s.err != nil {
		return
	}
	switch p.Type {
	case "", "ByteLevel": // ByteLevel changes offsets only
	case "Sequence":
		for i, raw := range p.Processors {
			s.addPostProcessor(fmt.Sprintf("%s.processors[%d]", field, i), raw, t)
		}
	case "RobertaProcessing", "BertProcessing":
		t.prefix, t.suffix = []int32{p.Cls.id}, []int32{p.Sep.id}
		t.pair = pairRule{t.suffix, t.suffix, 1}
		if p.Type == "RobertaProcessing" {
			t.pair = pairRule{[]int32{p.Sep.id, p.Sep.id}, t.suffix, 0}
		}
	case "TemplateProcessing":
		s.addTemplate(field, p, t)
	default:
		s.fail(unsupported(field, "post-processor %q", p.Type))
	}
}

// addTemplate reads the template for a single text.
func (s *hfSource) addTemplate(field string, p hfComponent, t *Tokenizer) {
	t.prefix, t.suffix = nil, nil
	seen := false
	for _, item := range p.Single {
		switch {
		case item.Sequence != nil && !seen:
			seen = true
		case item.SpecialToken != nil:
			token, ok := p.Special[item.SpecialToken.ID]
			if !ok {
				s.fail(malformed(field, "special_tokens lacks the token %q", item.SpecialToken.ID))
			}
			if seen {
				t.suffix = append(t.suffix, token.IDs...)
			} else {
				t.prefix = append(t.prefix, token.IDs...)
			}
		default:
			s.fail(unsupported(field, "a template other than one sequence between special tokens"))
		}
	}
	if s.err == nil && !seen {
		s.fail(unsupported(field, "a template without a sequence"))
	}
	t.pair = pairRule{t.suffix, t.suffix, 0}
	s.addPair(&p, t)
}

// buildDecoder reads the rules that convert pieces to text.
func (s *hfSource) buildDecoder(t *Tokenizer) {
	t.decoding.byteTokens = s.model.options.ByteFallback
	s.addDecoder("decoder", s.sections.decoder, &t.decoding)
	if s.err == nil {
		s.fail(checkDecoder(t.decoding.replacements, s.vocab.maxPiece))
	}
}

const (
	// maxDecoded is the maximum length in bytes of a token's text that replacements make
	// longer than the piece. Decoders of real files make no piece longer.
	maxDecoded = 64 << 10
	// maxReplacements is the maximum number of replacements of a decoder, each of which
	// searches every piece. Real files have up to three.
	maxReplacements = 64
)

// checkDecoder refuses replacements whose result for a piece of up to maxPiece bytes can
// exceed maxDecoded.
func checkDecoder(replacements []replacement, maxPiece int) error {
	if len(replacements) > maxReplacements {
		return unsupported("decoder", "%d replacements (at most %d)", len(replacements), maxReplacements)
	}
	growth, err := checkGrowth("decoder", 1, replacements...)
	if err == nil && growth > 1 && growth*float64(maxPiece) > maxDecoded {
		err = unsupported("decoder", "replacements that can make a token of %d bytes longer than %d bytes", maxPiece, maxDecoded)
	}
	return err
}

// addDecoder adds one decoder, which may be a sequence, to the rules. The rules do not
// record the order of decoders of different types.
func (s *hfSource) addDecoder(field string, raw json.RawMessage, sp *decodeRules) {
	p := s.component(field, raw)
	if s.err != nil {
		return
	}
	switch p.Type {
	// Fuse only joins pieces. model.byte_fallback already enables the decoding of byte
	// tokens.
	case "", "Fuse", "ByteFallback":
	case "Sequence":
		for i, raw := range p.Decoders {
			s.addDecoder(fmt.Sprintf("%s.decoders[%d]", field, i), raw, sp)
		}
	case "ByteLevel":
		sp.byteLevel = true
	case "Replace":
		match, ok := s.finder(field, p.Pattern).(literal)
		if s.err == nil && !ok {
			s.fail(unsupported(field, "a decoder with a regular expression"))
		}
		sp.replacements = append(sp.replacements, replacement{string(match), p.Content})
	case "Metaspace":
		sp.replacements = append(sp.replacements, replacement{p.Replacement, " "})
		// The encoder added one space before the text.
		if m, ok := s.metaspace(field, p).(*metaspace); ok && m.prefix != prefixNever {
			sp.trimStart = 1
		}
	case "WordPiece":
		sp.continues, sp.trimStart = "##", 1
		if p.Prefix != nil {
			sp.continues = *p.Prefix
		}
	case "Strip":
		if p.Content != " " || p.Start < 0 || p.Stop < 0 {
			s.fail(unsupported(field, "Strip with content %q, start %d and stop %d", p.Content, p.Start, p.Stop))
		}
		sp.trimStart, sp.trimEnd = p.Start, p.Stop
	default:
		s.fail(unsupported(field, "decoder %q", p.Type))
	}
}
