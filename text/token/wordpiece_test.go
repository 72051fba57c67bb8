package token_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/text/token"
)

// wordPieces is a WordPiece vocabulary as BERT writes it; capitals are of cased vocabularies alone.
var wordPieces = []string{
	"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", "un", "##aff", "##able", "##a", "!", ",", "'", "[", "]", "cls", "sep", "u", "how", "are",
	"東", "京", "x", "$", "=", "é", "e",
}

// hubWordPiece returns the tokenizer.json of a vocabulary.
func hubWordPiece(pieces []string, normalizer string) string {
	vocab := map[string]int{}
	for i, p := range pieces {
		vocab[p] = i
	}
	text, _ := json.Marshal(vocab)
	special := func(id string) string {
		return `{"id":` + id + `,"content":"` + map[string]string{"2": "[CLS]", "3": "[SEP]"}[id] + `","special":true,"normalized":false}`
	}
	return `{"added_tokens":[` + special("2") + `,` + special("3") + `],"normalizer":` + normalizer + `,"pre_tokenizer":{"type":"BertPreTokenizer"},
		"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}}],
			"pair":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}},{"Sequence":{"id":"B","type_id":1}},{"SpecialToken":{"id":"[SEP]","type_id":1}}],
			"special_tokens":{"[CLS]":{"id":"[CLS]","ids":[2],"tokens":["[CLS]"]},"[SEP]":{"id":"[SEP]","ids":[3],"tokens":["[SEP]"]}}},
		"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},
		"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":` + string(text) + `}}`
}

// ggufWordPiece returns the same vocabulary as the reference converter writes it.
func ggufWordPiece(pieces []string) keys {
	var tokens []string
	var types []int32
	for _, p := range pieces {
		kind := normal
		switch rest, continues := strings.CutPrefix(p, "##"); {
		case strings.HasPrefix(p, "[") && len(p) > 1:
			kind = control
		case continues:
			p = rest
		default:
			p = "▁" + p
		}
		tokens, types = append(tokens, p), append(types, kind)
	}
	return keys{
		"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types, "tokenizer.ggml.unknown_token_id": uint32(1),
		"tokenizer.ggml.seperator_token_id": uint32(3), "tokenizer.ggml.cls_token_id": uint32(2),
	}
}

// TestWordPiece checks the longest pieces, what BERT's normalizer does, and that both kinds of file give the same ids.
func TestWordPiece(t *testing.T) {
	const uncased = `{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true}`
	hub := fromText(t, hubWordPiece(wordPieces, uncased), token.Config{})
	gguf, err := ggufWordPiece(wordPieces).load(t)
	require.NoError(t, err)
	for _, c := range []struct{ text, want string }{
		{"Hello, world!", "hello|,|world|!"},
		{"unaffable", "un|aff|able"},
		{"unaffablex", "[UNK]"}, // a word without pieces to its end is unknown as a whole
		{"unaffa", "un|aff|a"},
		{" Héllò\thôw\nare   ü ", "hello|how|are|u"},
		{"he\u0300llo", "hello"},
		{"東京x", "東|京|x"},
		{"a\u0000u\ufffd\u200b x", "[UNK]|x"}, // "au" after the removal of what is no text
		{"u\u0000\ufffd\u200b x\u2003x", "u|x|x"},
		{"[CLS] u", "[|cls|]|u"},
		{"x=$u'x", "x|=|$|u|'|x"},
		{strings.Repeat("u", 101), "[UNK]"},
		{"", ""},
		{" \n", ""},
	} {
		want := strings.Split(c.want, "|")
		for name, tok := range map[string]*token.Tokenizer{"hub": hub, "gguf": gguf} {
			ids := testutil.Must(tok.Encode(c.text, token.EncodeOptions{}))
			var got []string
			for _, id := range ids {
				got = append(got, strings.TrimPrefix(wordPieces[id], "##"))
			}
			require.Equal(t, strings.Join(want, "|"), strings.Join(got, "|"), "%s: %q", name, c.text)
			around := testutil.Must(tok.Encode(c.text, token.EncodeOptions{AddSpecial: true}))
			require.Equal(t, slices.Concat([]int32{2}, ids, []int32{3}), around, "%s: %q", name, c.text)
		}
	}
	for name, tok := range map[string]*token.Tokenizer{"hub": hub, "gguf": gguf} {
		require.Equal(t, "WordPiece", tok.Family())
		before, behind := tok.Affixes()
		between, last := tok.Pair()
		require.Equal(t, [][]int32{{2}, {3}, {3}, {3}}, [][]int32{before, behind, between, last}, name)
		require.Equal(t, "unaffable world", testutil.Must(tok.Decode([]int32{7, 8, 9, 6})), name)
		require.Equal(t, []int32{2, 18}, testutil.Must(tok.Encode("[CLS] u", token.EncodeOptions{AllowSpecial: true})), name)
	}
}

// TestCasedWordPiece: a vocabulary with capitals keeps them, and accents.
func TestCasedWordPiece(t *testing.T) {
	pieces := append(slices.Clone(wordPieces), "Hello")
	const cased = `{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":false}`
	hub := fromText(t, hubWordPiece(pieces, cased), token.Config{})
	gguf, err := ggufWordPiece(pieces).load(t)
	require.NoError(t, err)
	for name, tok := range map[string]*token.Tokenizer{"hub": hub, "gguf": gguf} {
		require.Equal(t, []int32{int32(len(pieces) - 1), 5, 26, 1}, testutil.Must(tok.Encode("Hello hello é U", token.EncodeOptions{})), name)
	}
}

// TestPairsOfRoberta checks the two separators of RoBERTa.
func TestPairsOfRoberta(t *testing.T) {
	tok := fromText(t, `{"model":{"type":"BPE","merges":[],"vocab":{"a":0,"<s>":1,"</s>":2}},"post_processor":{"type":"RobertaProcessing","sep":["</s>",2],"cls":["<s>",1]}}`, token.Config{})
	between, behind := tok.Pair()
	require.Equal(t, []int32{2, 2}, between)
	require.Equal(t, []int32{2}, behind)
	scored := keys{
		"tokenizer.ggml.model": "t5", "tokenizer.ggml.tokens": []string{"<s>", "<pad>", "</s>", "<unk>", "▁", "a"}, "tokenizer.ggml.scores": []float32{0, 0, 0, 0, -1, -2},
		"tokenizer.ggml.token_type":   []int32{control, control, control, unknown, normal, normal},
		"tokenizer.ggml.bos_token_id": uint32(0), "tokenizer.ggml.eos_token_id": uint32(2), "tokenizer.ggml.unknown_token_id": uint32(3),
		"tokenizer.ggml.add_bos_token": true, "tokenizer.ggml.add_eos_token": true, "tokenizer.ggml.add_space_prefix": true,
	}
	tok, err := scored.load(t)
	require.NoError(t, err)
	between, _ = tok.Pair()
	require.Equal(t, []int32{2, 2}, between)
	require.Equal(t, []int32{0, 4, 5, 2}, testutil.Must(tok.Encode("a", token.EncodeOptions{AddSpecial: true})))
}
