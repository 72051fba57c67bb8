package token

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// hfComponent is a normalizer, pre-tokenizer, post-processor or decoder. It has the
// fields of all of them.
type hfComponent struct {
	Type string

	Normalizers   []json.RawMessage
	PreTokenizers []json.RawMessage `json:"pretokenizers"`
	Processors    []json.RawMessage
	Decoders      []json.RawMessage

	Pattern  *hfPattern
	Content  string
	Behavior string
	Invert   bool

	Prepend     string
	StripLeft   bool   `json:"strip_left"`
	StripRight  bool   `json:"strip_right"`
	Charsmap    string `json:"precompiled_charsmap"`
	Replacement string
	AddPrefix   *bool  `json:"add_prefix_space"`
	Scheme      string `json:"prepend_scheme"`
	Split       *bool
	UseRegex    *bool `json:"use_regex"`
	Individual  bool  `json:"individual_digits"`
	Delimiter   string
	Prefix      *string

	Start, Stop int
	Single      []hfTemplateItem
	Pair        []hfTemplateItem

	CleanText *bool `json:"clean_text"`
	Han       *bool `json:"handle_chinese_chars"`
	Accents   *bool `json:"strip_accents"`
	Lower     *bool `json:"lowercase"`

	Special  map[string]hfTemplateToken `json:"special_tokens"`
	Sep, Cls hfPair
}

// hfPattern is a fixed string or a regular expression. Exactly one field is set.
type hfPattern struct {
	String *string
	Regex  *string
}

// component decodes one component. A null has the type "".
func (s *hfSource) component(field string, raw json.RawMessage) hfComponent {
	var p hfComponent
	s.unmarshal(field, raw, &p)
	return p
}

// finder compiles a string or a regular expression.
func (s *hfSource) finder(field string, p *hfPattern) finder {
	switch {
	case p == nil || p.String == nil && p.Regex == nil:
		s.fail(malformed(field, "has no pattern"))
	case p.String != nil && *p.String == "":
		s.fail(malformed(field, "the pattern is empty"))
	case p.String != nil:
		return literal(*p.String)
	default:
		return s.compile(field, *p.Regex)
	}
	return literal("")
}

// maxPatterns is the maximum total length of the regular expressions of one tokenizer,
// in bytes. A compiled expression needs far more memory than its source.
const maxPatterns = 4096

// compile compiles a regular expression and enforces maxPatterns.
func (s *hfSource) compile(field, expr string) finder {
	if s.patterns += len(expr); s.patterns > maxPatterns {
		s.fail(unsupported(field, "regular expressions with more than %d bytes in total", maxPatterns))
		return literal("")
	}
	f, err := compilePattern(field, expr)
	s.fail(err)
	return f
}

// buildNormalizer builds the normalizer of the tokenizer.
func (s *hfSource) buildNormalizer(t *Tokenizer) {
	t.norm = s.normalizer("normalizer", s.sections.normalizer)
	if s.err == nil && t.norm != nil {
		var err error
		s.growth, err = checkGrowth("normalizer", s.growth, t.norm)
		s.fail(err)
	}
}

// normalizer builds a normalizer. It returns nil for null.
func (s *hfSource) normalizer(field string, raw json.RawMessage) normalizer {
	p := s.component(field, raw)
	if s.err != nil {
		return nil
	}
	switch p.Type {
	case "":
		return nil
	case "Sequence":
		var ns normalizers
		for i, raw := range p.Normalizers {
			if n := s.normalizer(fmt.Sprintf("%s.normalizers[%d]", field, i), raw); n != nil {
				ns = append(ns, n)
			}
		}
		return ns
	case "NFC":
		return form(norm.NFC)
	case "NFD":
		return form(norm.NFD)
	case "NFKC":
		return form(norm.NFKC)
	case "NFKD":
		return form(norm.NFKD)
	case "Prepend":
		return prepend(p.Prepend)
	case "Replace":
		return &replace{s.finder(field, p.Pattern), p.Content}
	case "Lowercase":
		return lowercase{}
	case "Strip":
		return strip{p.StripLeft, p.StripRight}
	case "StripAccents":
		return stripAccents{}
	case "BertNormalizer":
		said := func(v *bool, absent bool) bool { return v == nil && absent || v != nil && *v }
		lower := said(p.Lower, true)
		return bertNormalizer(said(p.CleanText, true), said(p.Han, true), said(p.Accents, lower), lower)
	case "Precompiled":
		return s.charsmap(field, p.Charsmap)
	}
	s.fail(unsupported(field, "normalizer %q", p.Type))
	return nil
}

// charsmap decodes a base64 character map. It returns nil for an empty map.
func (s *hfSource) charsmap(field, text string) normalizer {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		s.fail(malformed(field, "precompiled_charsmap is not valid base64: %v", err))
		return nil
	}
	if len(raw) == 0 {
		return nil
	}
	m, err := newCharsmap(field, raw)
	s.fail(err)
	return m
}

// buildPreTokenizer builds the pre-tokenizer. If its last stage spells bytes as
// letters, it removes that stage and sets byteLevel.
func (s *hfSource) buildPreTokenizer(t *Tokenizer) {
	t.preTokenizer = s.appendSplitters("pre_tokenizer", s.sections.preTokenizer, nil)
	if s.err == nil {
		_, err := checkGrowth("pre_tokenizer", s.growth, t.preTokenizer...)
		s.fail(err)
	}
	for i, stage := range t.preTokenizer {
		if stage != (byteLevelLetters{}) {
			continue
		}
		// The model spells the bytes of a word faster than a stage does.
		if s.byteLevel = i == len(t.preTokenizer)-1; s.byteLevel {
			t.preTokenizer = t.preTokenizer[:i]
		}
	}
}

// appendSplitters appends the stages of one pre-tokenizer to c.
func (s *hfSource) appendSplitters(field string, raw json.RawMessage, c chain) chain {
	p := s.component(field, raw)
	if s.err != nil {
		return c
	}
	switch p.Type {
	case "":
		return c
	case "Sequence":
		for i, raw := range p.PreTokenizers {
			c = s.appendSplitters(fmt.Sprintf("%s.pretokenizers[%d]", field, i), raw, c)
		}
		return c
	case "ByteLevel":
		if p.AddPrefix != nil && *p.AddPrefix {
			c = append(c, spacePrefix{})
		}
		// Hugging Face's tokenizers apply GPT-2's expression unless use_regex is false.
		if p.UseRegex == nil || *p.UseRegex {
			c = append(c, s.splitAt(field, exprGPT2, isolated))
		}
		return append(c, byteLevelLetters{})
	case "Metaspace":
		return append(c, s.metaspace(field, p))
	case "BertPreTokenizer":
		return append(c, s.splitAt(field, `\s+`, removed), s.splitAt(field, exprPunctuation, isolated))
	case "Whitespace":
		return append(c, s.splitAt(field, `\s+`, removed), s.splitAt(field, exprWord, isolated))
	}
	return append(c, s.patternSplitter(field, p))
}

// patternSplitter builds a pre-tokenizer of a single stage.
func (s *hfSource) patternSplitter(field string, p hfComponent) splitter {
	switch p.Type {
	case "Split":
		return &patternSplit{match: s.finder(field, p.Pattern), behavior: s.behavior(field, p.Behavior), invert: p.Invert}
	case "Digits":
		if p.Individual {
			return s.splitAt(field, `\p{N}`, isolated)
		}
		return s.splitAt(field, `\p{N}+`, isolated)
	case "Punctuation":
		if p.Behavior == "" { // files that predate the field
			p.Behavior = "Isolated"
		}
		return s.splitAt(field, exprPunctuation, s.behavior(field, p.Behavior))
	case "WhitespaceSplit":
		return s.splitAt(field, `\s+`, removed)
	case "CharDelimiterSplit":
		if p.Delimiter == "" {
			s.fail(malformed(field, "has no delimiter"))
		}
		return &patternSplit{match: literal(p.Delimiter), behavior: removed}
	}
	s.fail(unsupported(field, "pre-tokenizer %q", p.Type))
	return nil
}

// behavior parses the name of a behavior.
func (s *hfSource) behavior(field, name string) behavior {
	keep, ok := behaviors[name]
	if !ok {
		s.fail(unsupported(field, "behavior %q", name))
	}
	return keep
}

const (
	// The expressions of the pre-tokenizers Punctuation and Whitespace.
	exprPunctuation = "[\\p{P}!-/:-@\\[-`{-~]"
	exprWord        = `[\p{L}\p{M}\p{Nd}_]+`
)

// splitAt builds a stage that splits at a regular expression.
func (s *hfSource) splitAt(field, expr string, keep behavior) splitter {
	return &patternSplit{match: s.compile(field, expr), behavior: keep}
}

// metaspace builds a Metaspace stage. Files that predate prepend_scheme use
// add_prefix_space.
func (s *hfSource) metaspace(field string, p hfComponent) splitter {
	m := &metaspace{symbol: p.Replacement, prefix: prefixAlways, splits: true}
	if utf8.RuneCountInString(m.symbol) != 1 {
		s.fail(malformed(field, "the replacement %q is not one character", m.symbol))
	}
	scheme, ok := prefixSchemes[p.Scheme]
	switch {
	case ok:
		m.prefix = scheme
	case p.Scheme != "":
		s.fail(unsupported(field, "prepend_scheme %q", p.Scheme))
	case p.AddPrefix != nil && !*p.AddPrefix:
		m.prefix = prefixNever
	}
	if p.Split != nil {
		m.splits = *p.Split
	}
	return m
}
