package token_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/text/token"
)

// bpeJSON returns a tokenizer.json with a BPE model. extra holds further top-level
// members, each with a leading comma.
func bpeJSON(vocab, merges, extra string) string {
	return fmt.Sprintf(`{"model":{"type":"BPE","vocab":{%s},"merges":[%s]}%s}`, vocab, merges, extra)
}

const abVocab = `"a":0,"b":1,"ab":2`

// TestInvalidTokenizerFiles has one case per kind of invalid tokenizer.json.
func TestInvalidTokenizerFiles(t *testing.T) {
	unigram := func(extra string) string {
		return `{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1]]}` + extra + `}`
	}
	for _, c := range []struct{ name, json, field, reason string }{
		{"merge result missing", bpeJSON(abVocab, `"b a"`, ""), "model.merges", "their concatenation is not in the vocabulary"},
		{"merge part missing", bpeJSON(abVocab, `"a c"`, ""), "model.merges", "one of the two pieces or their concatenation"},
		{"merge of one piece", bpeJSON(abVocab, `"ab"`, ""), "model.merges", "does not consist of two pieces"},
		{"merge of three", bpeJSON(abVocab, `["a","b","c"]`, ""), "model.merges", "a merge has two pieces, not 3"},
		{"merges missing", `{"model":{"type":"BPE","vocab":{"a":0}}}`, "model.merges", "is missing"},
		{"duplicate id", bpeJSON(`"a":0,"b":0`, "", ""), "model.vocab", `id 0 is assigned to both "a" and "b"`},
		{"duplicate piece", bpeJSON(`"a":0,"a":1`, "", ""), "model.vocab", `the same piece "a"`},
		{"id of 2^31", bpeJSON(`"a":2147483648`, "", ""), "model.vocab", "2147483648 is not a token id"},
		{"negative id", bpeJSON(`"a":-1`, "", ""), "model.vocab", "-1 is not a token id"},
		{"fractional id", bpeJSON(`"a":1.5`, "", ""), "model.vocab", "1.5 is not a token id"},
		{"far id", bpeJSON(`"a":1000000000`, "", ""), "model.vocab", "too large for 1 tokens"},
		{"added id twice", bpeJSON(abVocab, "", `,"added_tokens":[{"id":3,"content":"x"},{"id":3,"content":"y"}]`), "added_tokens", "id 3 is a duplicate"},
		{"added id in use", bpeJSON(abVocab, "", `,"added_tokens":[{"id":1,"content":"x"}]`), "added_tokens", `id 1 is "x" here, but "b"`},
		{"added content in use", bpeJSON(abVocab, "", `,"added_tokens":[{"id":3,"content":"a"}]`), "model.vocab", `the same piece "a"`},
		{"added without id", bpeJSON(abVocab, "", `,"added_tokens":[{"content":"x"}]`), "added_tokens", "has no id"},
		{"added far id", bpeJSON(abVocab, "", `,"added_tokens":[{"id":2147483647,"content":"x"}]`), "model.vocab", "too large for"},
		{"unknown regex", bpeJSON(abVocab, "", `,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a+)+"},"behavior":"Isolated"}`), "pre_tokenizer", `the construct "("`},
		{"no pattern", bpeJSON(abVocab, "", `,"pre_tokenizer":{"type":"Split","behavior":"Isolated"}`), "pre_tokenizer", "has no pattern"},
		{"empty pattern", bpeJSON(abVocab, "", `,"normalizer":{"type":"Replace","pattern":{"String":""},"content":"x"}`), "normalizer", "the pattern is empty"},
		{"unknown behavior", bpeJSON(abVocab, "", `,"pre_tokenizer":{"type":"Split","pattern":{"String":"a"},"behavior":"Odd"}`), "pre_tokenizer", `behavior "Odd"`},
		{"unknown pre-tokenizer", bpeJSON(abVocab, "", `,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"UnicodeScripts"}]}`), "pre_tokenizer.pretokenizers[0]", `"UnicodeScripts"`},
		{"unknown normalizer", bpeJSON(abVocab, "", `,"normalizer":{"type":"Nmt"}`), "normalizer", `"Nmt"`},
		{"unknown decoder", bpeJSON(abVocab, "", `,"decoder":{"type":"CTC"}`), "decoder", `"CTC"`},
		{"unknown post-processor", bpeJSON(abVocab, "", `,"post_processor":{"type":"Odd"}`), "post_processor", `"Odd"`},
		{"template token missing", bpeJSON(abVocab, "", `,"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],"special_tokens":{}}`), "post_processor", `special_tokens lacks the token "<s>"`},
		{"template id missing", bpeJSON(abVocab, "", `,"post_processor":{"type":"RobertaProcessing","cls":["x",9],"sep":["y",1]}`), "post_processor", "id 9"},
		{"corrupt charsmap", unigram(`,"normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAAAAAA"}`), "normalizer", "the trie of the character map has"},
		{"charsmap out of range", unigram(`,"normalizer":{"type":"Precompiled","precompiled_charsmap":"` + base64.StdEncoding.EncodeToString([]byte{4, 0, 0, 0, 9, 0, 0, 128, 'x', 0}) + `"}`), "normalizer", "points past"},
		{"charsmap without terminator", unigram(`,"normalizer":{"type":"Precompiled","precompiled_charsmap":"` + base64.StdEncoding.EncodeToString([]byte{4, 0, 0, 0, 0, 0, 0, 0, 'x'}) + `"}`), "normalizer", "no terminating zero"},
		{"charsmap too long", unigram(`,"normalizer":{"type":"Precompiled","precompiled_charsmap":"` + base64.StdEncoding.EncodeToString(append(append([]byte{4, 0, 0, 0, 0, 0, 0, 0}, bytes.Repeat([]byte{'x'}, 300)...), 0)) + `"}`), "normalizer", "a replacement text of 300 bytes"},
		{"charsmap not base64", unigram(`,"normalizer":{"type":"Precompiled","precompiled_charsmap":"?"}`), "normalizer", "base64"},
		{"unk_id out of range", `{"model":{"type":"Unigram","unk_id":7,"vocab":[["a",0]]}}`, "model.unk_id", "7 is not in the vocabulary"},
		{"piece without score", `{"model":{"type":"Unigram","vocab":[["a"]]}}`, "model.vocab", "a piece and its score"},
		{"unk_token missing", `{"model":{"type":"BPE","unk_token":"<u>","vocab":{"a":0},"merges":[]}}`, "model.unk_token", `"<u>"`},
		{"words", `{"model":{"type":"WordLevel","vocab":{"a":0}}}`, "model.type", `"WordLevel"`},
		{"unknown piece missing", `{"model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{"a":0}}}`, "model.unk_token", `"[UNK]"`},
		{"suffix", `{"model":{"type":"BPE","end_of_word_suffix":"</w>","vocab":{"a":0},"merges":[]}}`, "model.end_of_word_suffix", "</w>"},
		{"no model", `{}`, "model.vocab", "is missing"},
		{"model twice", `{"model":{"vocab":{}},"model":{"vocab":{}}}`, "byte", `"model" is a duplicate`},
		{"vocab twice", `{"model":{"vocab":{},"vocab":{}}}`, "byte", `"vocab" is a duplicate`},
		{"trailing data", bpeJSON(abVocab, "", "") + "x", "byte", "after the closing brace"},
		{"truncated", `{"model":{"vocab":{"a":0`, "byte 24", "expected"},
		{"not valid UTF-8", "{\"\xff\":0}", "byte", "not valid UTF-8"},
		{"half surrogate", `{"\ud800x":0}`, "byte", "invalid escape sequence"},
		{"deep nesting", strings.Repeat("[", 300), "byte", "expected '{'"},
		{"deep nesting inside a member", `{"x":` + strings.Repeat("[", 300), "byte", "nesting exceeds"},
		{"empty", "", "byte 0", "expected '{'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := token.FromJSON([]byte(c.json), token.Config{})
			var formatError *store.FormatError
			require.ErrorAs(t, err, &formatError)
			assert.Contains(t, formatError.Field, c.field)
			assert.Contains(t, formatError.Reason, c.reason)
		})
	}
}

func TestInvalidConfig(t *testing.T) {
	_, err := token.FromJSON([]byte(bpeJSON(abVocab, "", "")), token.Config{Generation: []byte(`{"eos_token_id":"x"}`)})
	assert.ErrorIs(t, err, store.ErrFormat)
	assert.ErrorContains(t, err, "generation_config.json")
}

// TestSpecialTokensInPlainText checks that the spelling of a special token in a prompt
// encodes as plain text.
func TestSpecialTokensInPlainText(t *testing.T) {
	for _, family := range []string{"gpt2", "llama3", "qwen2", "spm", "gemma"} {
		tok := fixture(t, family)
		for id := range int32(3) {
			spelled, ok := tok.Piece(id)
			require.True(t, ok)
			assert.True(t, tok.IsSpecial(id))
			plain := testutil.Must(tok.Encode(spelled, token.EncodeOptions{}))
			assert.Greater(t, len(plain), 1, "%s: %s", family, spelled)
			assert.NotContains(t, plain, id)
			back, err := tok.Decode(plain)
			require.NoError(t, err)
			assert.Equal(t, spelled, back)
			assert.Equal(t, []int32{id}, testutil.Must(tok.Encode(spelled, token.EncodeOptions{AllowSpecial: true})))
		}
	}
}

// TestRoundTripOfInvalidUTF8 checks that AppendBytes returns the input unchanged.
func TestRoundTripOfInvalidUTF8(t *testing.T) {
	for _, family := range []string{"gpt2", "llama3", "qwen2", "spm", "gemma"} {
		tok := fixture(t, family)
		for _, text := range []string{
			"\x00", "a\x00b", "\xff", "\xc3", "\xe4\xbd", "ok \xf0\x9f\x98 then", "\xed\xa0\x80", strings.Repeat("\xfe", 100),
			"\ufffd", "<0x41>", "\r\n\t\v",
		} {
			raw, err := tok.AppendBytes(nil, testutil.Must(tok.Encode(text, token.EncodeOptions{})))
			require.NoError(t, err)
			assert.Equal(t, text, string(raw), "%s", family)
		}
	}
}

// TestEncodeOneLetter encodes a text that no pre-tokenizer can split.
func TestEncodeOneLetter(t *testing.T) {
	text := strings.Repeat("a", 1<<20)
	for _, family := range []string{"gpt2", "spm"} {
		assert.Greater(t, len(testutil.Must(fixture(t, family).Encode(text, token.EncodeOptions{}))), 1000)
	}
}

// TestMeasuredEncodeOneLetterInLinearTime compares the times for two lengths of such a text.
func TestMeasuredEncodeOneLetterInLinearTime(t *testing.T) {
	testutil.Measured(t)
	const small, factor = 1 << 14, 64
	for _, family := range []string{"gpt2", "spm"} {
		tok := fixture(t, family)
		encode := func(size int) func() {
			text := strings.Repeat("a", size)
			return func() { testutil.Must(tok.Encode(text, token.EncodeOptions{})) }
		}
		testutil.NearlyProportional(t, family, factor, encode(small), encode(small*factor))
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

// TestLoadAllocationIsBounded builds tokenizers from files with the smallest possible
// entries. The total allocation, garbage included, must be at most sixteen times the
// size of the file.
func TestLoadAllocationIsBounded(t *testing.T) {
	const n = 20000
	list := func(entry func(i int) string) string {
		entries := make([]string, n)
		for i := range entries {
			entries[i] = entry(i)
		}
		return strings.Join(entries, ",")
	}
	short := func(i int) string { return fmt.Sprintf("%x", i) }
	vocab := list(func(i int) string { return fmt.Sprintf(`"%s":%d`, short(i), i) })
	for name, text := range map[string]string{
		"vocabulary": bpeJSON(vocab, "", ""),
		"merges":     pairsJSON(),
		"unigram":    `{"model":{"type":"Unigram","vocab":[` + list(func(i int) string { return `["` + short(i) + `",0]` }) + `]}}`,
		"long pieces": `{"model":{"type":"Unigram","vocab":[` + list(func(i int) string {
			return fmt.Sprintf(`["%016x",0]`, uint64(i)*0x9E3779B97F4A7C15)
		}) + `]}}`,
		"added tokens": bpeJSON("", "", `,"added_tokens":[`+list(func(i int) string { return fmt.Sprintf(`{"id":%d,"content":"%x"}`, i, i) })+`]`),
		"a long token": bpeJSON("", "", `,"added_tokens":[{"id":0,"content":"`+strings.Repeat("a", 1<<20)+`"}]`),
		"spaces":       strings.Repeat(" ", 1<<20) + bpeJSON("", "", ""),
		"escapes":      bpeJSON("", "", `,"added_tokens":[{"id":0,"content":"`+strings.Repeat(`\n`, 1<<18)+`"}]`),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := token.FromJSON([]byte(text), token.Config{})
		runtime.ReadMemStats(&after)
		require.NoError(t, err, name)
		allocated := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %d bytes, %.1f times the file", name, allocated, float64(allocated)/float64(len(text)))
		assert.LessOrEqual(t, allocated, uint64(16*len(text)+1<<20), name)
	}
}

// pairsJSON returns a tokenizer.json whose vocabulary has all pairs of 62 letters.
func pairsJSON() string {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	var vocab, merges []string
	for i, a := range letters {
		vocab = append(vocab, fmt.Sprintf(`"%c":%d`, a, i))
	}
	for _, a := range letters {
		for _, b := range letters {
			merges = append(merges, fmt.Sprintf(`"%c %c"`, a, b))
			vocab = append(vocab, fmt.Sprintf(`"%c%c":%d`, a, b, len(vocab)))
		}
	}
	return bpeJSON(strings.Join(vocab, ","), strings.Join(merges, ","), "")
}
