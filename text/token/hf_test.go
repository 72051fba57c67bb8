package token_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/text/token"
)

// spelled encodes a text and returns the pieces, separated by bars.
func spelled(tok *token.Tokenizer, text string, o token.EncodeOptions) string {
	var all []string
	for _, id := range testutil.Must(tok.Encode(text, o)) {
		piece, _ := tok.Piece(id)
		all = append(all, piece)
	}
	return strings.Join(all, "|")
}

// letterVocab returns a vocabulary of single characters.
func letterVocab(chars string) string {
	var entries []string
	for i, c := range []rune(chars) {
		entries = append(entries, fmt.Sprintf("%q:%d", string(c), i))
	}
	return strings.Join(entries, ",")
}

func fromText(t *testing.T, text string, config token.Config) *token.Tokenizer {
	t.Helper()
	tok, err := token.FromJSON([]byte(text), config)
	require.NoError(t, err)
	return tok
}

// TestPreTokenizers checks the words of each pre-tokenizer. Its model has
// ignore_merges, so a word in the vocabulary becomes one piece and any other word
// becomes single letters.
func TestPreTokenizers(t *testing.T) {
	const words = `"ab":100,"12":101,"a ":104," b":105,"!!":106,"▁ab":107,"▁a":108,"--a":110,"a-":111`
	split := func(pattern, behavior string, invert bool) string {
		return fmt.Sprintf(`{"type":"Split","pattern":%s,"behavior":%q,"invert":%v}`, pattern, behavior, invert)
	}
	for _, c := range []struct{ pre, text, want string }{
		{`null`, "ab", "ab"},
		{`{"type":"Digits","individual_digits":true}`, "ab12", "ab|1|2"},
		{`{"type":"Digits","individual_digits":false}`, "ab12ab", "ab|12|ab"},
		{`{"type":"WhitespaceSplit"}`, " ab  12 ", "ab|12"},
		{`{"type":"Whitespace"}`, "ab!! 12", "ab|!!|12"},
		{`{"type":"Punctuation","behavior":"Contiguous"}`, "ab!!", "ab|!!"},
		{`{"type":"Punctuation"}`, "ab!!", "ab|!|!"},
		{`{"type":"CharDelimiterSplit","delimiter":"-"}`, "ab-12", "ab|12"},
		{split(`{"String":"-"}`, "Removed", false), "ab--12", "ab|12"},
		{split(`{"String":"-"}`, "Isolated", false), "ab-", "ab|-"},
		{split(`{"String":"-"}`, "MergedWithPrevious", false), "a--", "a-|-"},
		{split(`{"String":"-"}`, "MergedWithNext", false), "ab-a", "ab|-|a"},
		{split(`{"Regex":"-+"}`, "MergedWithNext", false), "ab--a", "ab|--a"},
		{split(`{"Regex":"\\p{N}+"}`, "Removed", true), "ab12ab", "12"},
		{split(`{"String":" "}`, "MergedWithPrevious", false), "a ab", "a |ab"},
		{`{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"}`, "ab a", "▁ab|▁a"},
		{`{"type":"Metaspace","replacement":"▁","add_prefix_space":true}`, "ab", "▁ab"},
		{`{"type":"Metaspace","replacement":"▁","add_prefix_space":false}`, "ab a", "ab|▁a"},
		{`{"type":"Metaspace","replacement":"▁","prepend_scheme":"never"}`, " ab", "▁ab"},
		{`{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"}`, "ab<x>ab", "▁ab|<x>|ab"},
		{`{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"}`, "ab<x>ab", "▁ab|<x>|▁ab"},
		{`{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":false}`, "ab a", "▁|a|b|▁|a"},
		{`{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"}]}`, "ab ab", "▁ab|ab"},
		{`{"type":"ByteLevel","add_prefix_space":true,"use_regex":true}`, "ab", "Ġ|a|b"},
		{`{"type":"Sequence","pretokenizers":[{"type":"ByteLevel","use_regex":false},{"type":"Digits"}]}`, "é12", "Ã|©|12"},
	} {
		extra := `,"added_tokens":[{"id":99,"content":"<x>"}],"pre_tokenizer":` + c.pre
		vocab := letterVocab("ab12!-▁ĠÃ©") + "," + words
		text := strings.Replace(bpeJSON(vocab, "", extra), `"BPE"`, `"BPE","ignore_merges":true`, 1)
		assert.Equal(t, c.want, spelled(fromText(t, text, token.Config{}), c.text, token.EncodeOptions{}), "%s on %q", c.pre, c.text)
	}
}

func TestNormalizers(t *testing.T) {
	charsmap := base64.StdEncoding.EncodeToString(charsmapOf('B', "b"))
	for _, c := range []struct{ norm, text, want string }{
		{`{"type":"NFC"}`, "e\u0301", "é"},
		{`{"type":"NFD"}`, "é", "e|\u0301"},
		{`{"type":"NFKC"}`, "ﬁ", "f|i"},
		{`{"type":"NFKD"}`, "é", "e|\u0301"},
		{`{"type":"Lowercase"}`, "AB", "a|b"},
		{`{"type":"Lowercase"}`, "İ", "i|\u0307"},
		{`{"type":"StripAccents"}`, "का\u20dd", "क"},
		{`{"type":"Strip","strip_left":true,"strip_right":false}`, " a ", "a|\u0020"},
		{`{"type":"Strip","strip_left":false,"strip_right":true}`, " a ", "\u0020|a"},
		{`{"type":"Sequence","normalizers":[{"type":"NFD"},{"type":"StripAccents"}]}`, "é", "e"},
		{`{"type":"Prepend","prepend":"b"}`, "a<x>a", "b|a|<x>|b|a"},
		{`{"type":"Replace","pattern":{"String":"a"},"content":"b"}`, "aba", "b|b|b"},
		{`{"type":"Replace","pattern":{"Regex":" {2,}"},"content":"b"}`, "a   a a", "a|b|a|\u0020|a"},
		{`{"type":"Precompiled","precompiled_charsmap":"` + charsmap + `"}`, "aBa", "a|b|a"},
		{`{"type":"Precompiled","precompiled_charsmap":""}`, "a", "a"},
		{`null`, "aa", "a|a"},
	} {
		text := bpeJSON(letterVocab("abefié\u0301 B\u0307क"), "", `,"added_tokens":[{"id":99,"content":"<x>"}],"normalizer":`+c.norm)
		assert.Equal(t, c.want, spelled(fromText(t, text, token.Config{}), c.text, token.EncodeOptions{}), "%s on %q", c.norm, c.text)
	}
}

func TestAddedTokens(t *testing.T) {
	for _, c := range []struct{ added, text, want string }{
		{`{"id":90,"content":"bb"}`, "abba", "a|bb|a"},
		{`{"id":1,"content":"b"},{"id":91,"content":"bb"}`, "bbb", "bb|b"},
		{`{"id":90,"content":"ab"},{"id":91,"content":"bab"}`, "abab", "ab|ab"},
		{`{"id":90,"content":"bb","lstrip":true}`, "a  bb a", "a|bb| |a"},
		{`{"id":90,"content":"bb","rstrip":true}`, "a bb  a", "a| |bb|a"},
		{`{"id":90,"content":"bb","single_word":true}`, "abb bb bb1", "a|b|b| |bb| |b|b|1"},
		{`{"id":90,"content":"bab","single_word":true},{"id":91,"content":"ba"}`, "baba bab²", "b|a|b|a| |bab"},
		{`{"id":90,"content":"bb","single_word":true}`, "bb\u203f", "b|b"},
		{`{"id":90,"content":"BB","normalized":true}`, "aBbA", "a|BB|a"},
		{`{"id":90,"content":"BB"}`, "aBbA", "a|b|b|a"},
		{`{"id":90,"content":"bb","special":true},{"id":91,"content":"bba","special":true}`, "bba", "bba"},
	} {
		text := bpeJSON(letterVocab("ab 1"), "", `,"normalizer":{"type":"Lowercase"},"added_tokens":[`+c.added+`]`)
		tok := fromText(t, text, token.Config{})
		assert.Equal(t, c.want, spelled(tok, c.text, token.EncodeOptions{AllowSpecial: true}), "%s on %q", c.added, c.text)
	}
}

// TestAddedTokenInsideSpecialToken checks that a disabled special token does not hide
// an added token at the same position.
func TestAddedTokenInsideSpecialToken(t *testing.T) {
	tok := fromText(t, bpeJSON(letterVocab("ab"), "", `,"added_tokens":[{"id":90,"content":"bb"},{"id":91,"content":"bba","special":true}]`), token.Config{})
	assert.Equal(t, "bb|a", spelled(tok, "bba", token.EncodeOptions{}))
	assert.Equal(t, "bba", spelled(tok, "bba", token.EncodeOptions{AllowSpecial: true}))
}

func TestUnknownPieces(t *testing.T) {
	model := func(options string) string {
		return `{"model":{"type":"BPE","unk_token":"?",` + options + `"vocab":{"?":0,"a":1,"<0xC3>":2,"<0xA9>":3},"merges":[]},"added_tokens":[{"id":0,"content":"?","special":true}]}`
	}
	for _, c := range []struct{ options, text, want string }{
		{``, "axya", "a|?|?|a"},
		{`"fuse_unk":true,`, "axya", "a|?|a"},
		{`"fuse_unk":true,"byte_fallback":true,`, "aéx", "a|<0xC3>|<0xA9>|?"},
	} {
		assert.Equal(t, c.want, spelled(fromText(t, model(c.options), token.Config{}), c.text, token.EncodeOptions{}), c.options)
	}
	silent := fromText(t, bpeJSON(abVocab, `"a b"`, ""), token.Config{})
	assert.Equal(t, "ab", spelled(silent, "axb", token.EncodeOptions{}), "the model drops unknown characters")
}

func TestUnigramJSON(t *testing.T) {
	model := func(options string) string {
		return `{"model":{"type":"Unigram","unk_id":0,` + options + `"vocab":[["<unk>",0.0],["▁",-3],["a",-2],["b",-2.5],["ab",-4.4],["▁ab",-8],["bb",-5.0],["<0xC3>",-20],["<0xA9>",-20]]},
		"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"},
		"decoder":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"}}`
	}
	tok := fromText(t, model(""), token.Config{})
	for _, c := range []struct{ text, want string }{
		{"ab", "▁|ab"},
		{"abb ab", "▁|ab|b|▁|ab"},
		{"xéa", "▁|<unk>|a"},
	} {
		assert.Equal(t, c.want, spelled(tok, c.text, token.EncodeOptions{}), c.text)
	}
	assert.Equal(t, "Unigram", tok.Family())
	text, err := tok.Decode(testutil.Must(tok.Encode("ab b", token.EncodeOptions{})))
	require.NoError(t, err)
	assert.Equal(t, "ab b", text)

	bytes := fromText(t, model(`"byte_fallback":true,`), token.Config{})
	assert.Equal(t, "▁|a|<0xC3>|<0xA9>|<unk>", spelled(bytes, "aéx", token.EncodeOptions{}))
	assert.Equal(t, "▁|<unk>", spelled(bytes, "<0xC3>", token.EncodeOptions{}), "plain text does not match byte tokens")
}

func TestPostProcessors(t *testing.T) {
	template := `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"</s>","type_id":0}}],
		"pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[90],"tokens":["<s>"]},"</s>":{"id":"</s>","ids":[91],"tokens":["</s>"]}}}`
	llama := `{"tokenizer_class":"LlamaTokenizer","bos_token":{"content":"<s>"},"eos_token":"</s>"`
	for _, c := range []struct{ post, config, want string }{
		{template, "", "<s>|a|</s>"},
		{`{"type":"RobertaProcessing","sep":["</s>",91],"cls":["<s>",90],"trim_offsets":true}`, "", "<s>|a|</s>"},
		{`{"type":"Sequence","processors":[{"type":"ByteLevel"},` + template + `]}`, "", "<s>|a|</s>"},
		{`null`, "", "a"},
		{`null`, `{"bos_token":"<s>","add_bos_token":true}`, "<s>|a"},
		{template, `{"bos_token":"<s>","add_bos_token":false}`, "<s>|a|</s>"},
		{template, llama + `,"add_bos_token":false,"add_eos_token":false}`, "a"},
		{template, llama + `,"add_bos_token":true}`, "<s>|a|</s>"},
		{`null`, llama + `}`, "<s>|a"},
		{`null`, llama + `,"add_eos_token":true}`, "<s>|a|</s>"},
	} {
		text := bpeJSON(letterVocab("ab"), "", `,"added_tokens":[{"id":90,"content":"<s>","special":true},{"id":91,"content":"</s>","special":true}],"post_processor":`+c.post)
		tok := fromText(t, text, token.Config{Tokenizer: []byte(c.config)})
		assert.Equal(t, c.want, spelled(tok, "a", token.EncodeOptions{AddSpecial: true}), "%s %s", c.post, c.config)
		assert.Equal(t, "a", spelled(tok, "a", token.EncodeOptions{}))
	}
}

func TestEndTokens(t *testing.T) {
	added := `,"added_tokens":[{"id":90,"content":"<s>","special":true},{"id":91,"content":"<|im_end|>","special":true},{"id":92,"content":"<|end|>","special":true},{"id":93,"content":"<|call|>","special":true},{"id":94,"content":"<|return|>","special":true}]`
	tok := fromText(t, bpeJSON(letterVocab("ab"), "", added), token.Config{
		Tokenizer:  []byte(`{"eos_token":{"content":"a"}}`),
		Generation: []byte(`{"eos_token_id":[1,5000]}`),
		Model:      []byte(`{"bos_token_id":90,"eos_token_id":null}`),
	})
	assert.Equal(t, []int32{0, 1, 91, 93, 94}, tok.EOS(), "in a format with tool calls <|end|> ends only a part of a message")
	assert.True(t, tok.IsEOS(91))
	bos, ok := tok.BOS()
	assert.True(t, ok)
	assert.EqualValues(t, 90, bos)
	id, ok := tok.ID("<|end|>")
	assert.True(t, ok)
	assert.EqualValues(t, 92, id)
	_, ok = fromText(t, bpeJSON(abVocab, "", ""), token.Config{}).BOS()
	assert.False(t, ok)
}
