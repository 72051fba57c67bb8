package token_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/text/token"
)

// bpeJSON is a tokenizer.json of a BPE model; extra are further top-level
// members, each with a leading comma.
func bpeJSON(vocab, merges, extra string) string {
	return fmt.Sprintf(`{"model":{"type":"BPE","vocab":{%s},"merges":[%s]}%s}`, vocab, merges, extra)
}

const abVocab = `"a":0,"b":1,"ab":2`

// TestDescriptionsRefused has one case for each way in which a tokenizer.json
// can be wrong.
func TestDescriptionsRefused(t *testing.T) {
	unigram := func(extra string) string {
		return `{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1]]}` + extra + `}`
	}
	for _, c := range []struct{ name, json, field, reason string }{
		{"merge result missing", bpeJSON(abVocab, `"b a"`, ""), "model.merges", "the result is not in the vocabulary"},
		{"merge part missing", bpeJSON(abVocab, `"a c"`, ""), "model.merges", "a part or the result"},
		{"merge of one piece", bpeJSON(abVocab, `"ab"`, ""), "model.merges", "is not two pieces"},
		{"merge of three", bpeJSON(abVocab, `["a","b","c"]`, ""), "model.merges", "a merge of 3 pieces"},
		{"merges missing", `{"model":{"type":"BPE","vocab":{"a":0}}}`, "model.merges", "is missing"},
		{"duplicate id", bpeJSON(`"a":0,"b":0`, "", ""), "model.vocab", `id 0 is both "a" and "b"`},
		{"duplicate piece", bpeJSON(`"a":0,"a":1`, "", ""), "model.vocab", `the same piece "a"`},
		{"id of 2^31", bpeJSON(`"a":2147483648`, "", ""), "model.vocab", "2147483648 is not a token id"},
		{"negative id", bpeJSON(`"a":-1`, "", ""), "model.vocab", "-1 is not a token id"},
		{"fractional id", bpeJSON(`"a":1.5`, "", ""), "model.vocab", "1.5 is not a token id"},
		{"far id", bpeJSON(`"a":1000000000`, "", ""), "model.vocab", "far beyond the 1 tokens"},
		{"added id twice", bpeJSON(abVocab, "", `,"added_tokens":[{"id":3,"content":"x"},{"id":3,"content":"y"}]`), "added_tokens", "id 3 occurs twice"},
		{"added id taken", bpeJSON(abVocab, "", `,"added_tokens":[{"id":1,"content":"x"}]`), "added_tokens", `id 1 is "x" here and "b"`},
		{"added content taken", bpeJSON(abVocab, "", `,"added_tokens":[{"id":3,"content":"a"}]`), "model.vocab", `the same piece "a"`},
		{"added without id", bpeJSON(abVocab, "", `,"added_tokens":[{"content":"x"}]`), "added_tokens", "has no id"},
		{"added far id", bpeJSON(abVocab, "", `,"added_tokens":[{"id":2147483647,"content":"x"}]`), "model.vocab", "far beyond"},
		{"unknown regex", bpeJSON(abVocab, "", `,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a+)+"},"behavior":"Isolated"}`), "pre_tokenizer", `the construct "("`},
		{"no pattern", bpeJSON(abVocab, "", `,"pre_tokenizer":{"type":"Split","behavior":"Isolated"}`), "pre_tokenizer", "has no pattern"},
		{"empty pattern", bpeJSON(abVocab, "", `,"normalizer":{"type":"Replace","pattern":{"String":""},"content":"x"}`), "normalizer", "an empty pattern"},
		{"unknown behavior", bpeJSON(abVocab, "", `,"pre_tokenizer":{"type":"Split","pattern":{"String":"a"},"behavior":"Odd"}`), "pre_tokenizer", `the behavior "Odd"`},
		{"unknown pre-tokenizer", bpeJSON(abVocab, "", `,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"UnicodeScripts"}]}`), "pre_tokenizer.pretokenizers[0]", `"UnicodeScripts"`},
		{"unknown normalizer", bpeJSON(abVocab, "", `,"normalizer":{"type":"Nmt"}`), "normalizer", `"Nmt"`},
		{"unknown decoder", bpeJSON(abVocab, "", `,"decoder":{"type":"CTC"}`), "decoder", `"CTC"`},
		{"unknown post-processor", bpeJSON(abVocab, "", `,"post_processor":{"type":"Odd"}`), "post_processor", `"Odd"`},
		{"template token missing", bpeJSON(abVocab, "", `,"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],"special_tokens":{}}`), "post_processor", `"<s>" is not among`},
		{"template id missing", bpeJSON(abVocab, "", `,"post_processor":{"type":"RobertaProcessing","cls":["x",9],"sep":["y",1]}`), "post_processor", "the id 9"},
		{"corrupt charsmap", unigram(`,"normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAAAAAA"}`), "normalizer", "the trie has"},
		{"charsmap beyond", unigram(`,"normalizer":{"type":"Precompiled","precompiled_charsmap":"` + base64.StdEncoding.EncodeToString([]byte{4, 0, 0, 0, 9, 0, 0, 128, 'x', 0}) + `"}`), "normalizer", "points beyond"},
		{"charsmap without end", unigram(`,"normalizer":{"type":"Precompiled","precompiled_charsmap":"` + base64.StdEncoding.EncodeToString([]byte{4, 0, 0, 0, 0, 0, 0, 0, 'x'}) + `"}`), "normalizer", "has no end"},
		{"charsmap too long", unigram(`,"normalizer":{"type":"Precompiled","precompiled_charsmap":"` + base64.StdEncoding.EncodeToString(append(append([]byte{4, 0, 0, 0, 0, 0, 0, 0}, bytes.Repeat([]byte{'x'}, 300)...), 0)) + `"}`), "normalizer", "a replacement of 300 bytes"},
		{"charsmap no base64", unigram(`,"normalizer":{"type":"Precompiled","precompiled_charsmap":"?"}`), "normalizer", "base64"},
		{"unk_id beyond", `{"model":{"type":"Unigram","unk_id":7,"vocab":[["a",0]]}}`, "model.unk_id", "7 is not in the vocabulary"},
		{"piece without score", `{"model":{"type":"Unigram","vocab":[["a"]]}}`, "model.vocab", "a piece and its score"},
		{"unk_token missing", `{"model":{"type":"BPE","unk_token":"<u>","vocab":{"a":0},"merges":[]}}`, "model.unk_token", `"<u>"`},
		{"word pieces", `{"model":{"type":"WordPiece","vocab":{"a":0}}}`, "model.type", `"WordPiece"`},
		{"suffix", `{"model":{"type":"BPE","end_of_word_suffix":"</w>","vocab":{"a":0},"merges":[]}}`, "model.end_of_word_suffix", "</w>"},
		{"no model", `{}`, "model.vocab", "is missing"},
		{"model twice", `{"model":{"vocab":{}},"model":{"vocab":{}}}`, "byte", `"model" occurs twice`},
		{"vocab twice", `{"model":{"vocab":{},"vocab":{}}}`, "byte", `"vocab" occurs twice`},
		{"text after", bpeJSON(abVocab, "", "") + "x", "byte", "after the closing brace"},
		{"cut", `{"model":{"vocab":{"a":0`, "byte 24", "expected"},
		{"not UTF-8", "{\"\xff\":0}", "byte", "not UTF-8"},
		{"half surrogate", `{"\ud800x":0}`, "byte", "a broken escape"},
		{"deep", strings.Repeat("[", 300), "byte", "expected '{'"},
		{"deep inside", `{"x":` + strings.Repeat("[", 300), "byte", "nested too deeply"},
		{"empty", "", "byte 0", "expected '{'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := token.FromJSON([]byte(c.json), token.Config{})
			var refused *store.FormatError
			require.ErrorAs(t, err, &refused)
			assert.Contains(t, refused.Field, c.field)
			assert.Contains(t, refused.Reason, c.reason)
		})
	}
}

func TestConfigRefused(t *testing.T) {
	_, err := token.FromJSON([]byte(bpeJSON(abVocab, "", "")), token.Config{Generation: []byte(`{"eos_token_id":"x"}`)})
	assert.ErrorIs(t, err, store.ErrFormat)
	assert.ErrorContains(t, err, "generation_config.json")
}

// TestSpelledSpecialTokens: a prompt that spells a special token stays text.
func TestSpelledSpecialTokens(t *testing.T) {
	for _, family := range []string{"gpt2", "llama3", "qwen2", "spm", "gemma"} {
		tok := fixture(t, family)
		for id := range int32(3) {
			spelled, ok := tok.Piece(id)
			require.True(t, ok)
			assert.True(t, tok.IsSpecial(id))
			plain := tok.Encode(spelled, token.EncodeOptions{})
			assert.Greater(t, len(plain), 1, "%s: %s", family, spelled)
			assert.NotContains(t, plain, id)
			back, err := tok.Decode(plain)
			require.NoError(t, err)
			assert.Equal(t, spelled, back)
			assert.Equal(t, []int32{id}, tok.Encode(spelled, token.EncodeOptions{AllowSpecial: true}))
		}
	}
}

// TestAnyBytesSurvive: what is no text comes back as it was.
func TestAnyBytesSurvive(t *testing.T) {
	for _, family := range []string{"gpt2", "llama3", "qwen2", "spm", "gemma"} {
		tok := fixture(t, family)
		for _, text := range []string{
			"\x00", "a\x00b", "\xff", "\xc3", "\xe4\xbd", "ok \xf0\x9f\x98 then", "\xed\xa0\x80", strings.Repeat("\xfe", 100),
			"\ufffd", "<0x41>", "\r\n\t\v",
		} {
			raw, err := tok.AppendBytes(nil, tok.Encode(text, token.EncodeOptions{}))
			require.NoError(t, err)
			assert.Equal(t, text, string(raw), "%s", family)
		}
	}
}

// TestOneLetter: a megabyte that nothing divides takes no more than a moment.
func TestOneLetter(t *testing.T) {
	text := strings.Repeat("a", 1<<20)
	for _, family := range []string{"gpt2", "spm"} {
		begin := time.Now()
		ids := fixture(t, family).Encode(text, token.EncodeOptions{})
		assert.Less(t, time.Since(begin), 5*time.Second)
		assert.Greater(t, len(ids), 1000)
	}
}

func TestUnknownIDs(t *testing.T) {
	tok := fixture(t, "gpt2")
	for _, id := range []int32{-1, int32(tok.VocabSize()), 1 << 30, -1 << 31} {
		_, err := tok.Decode([]int32{5, id})
		assert.ErrorIs(t, err, token.ErrID)
		assert.ErrorContains(t, err, fmt.Sprint(id))
		_, err = tok.NewDecoder().Next(id)
		assert.ErrorIs(t, err, token.ErrID)
		_, ok := tok.Piece(id)
		assert.False(t, ok)
		assert.Nil(t, tok.TokenBytes(id))
		assert.False(t, tok.IsSpecial(id))
		assert.False(t, tok.IsEOS(id))
	}
}
