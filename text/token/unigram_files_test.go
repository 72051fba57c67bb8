package token_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/text/token"
)

// TestUnigramOfBothFiles compares the tokens of a vocabulary as XLM-RoBERTa's tokenizer.json has it with those of its GGUF file,
// over texts with white space of all kinds and characters that no piece has. (The published character map makes ▁ of a text a space.)
func TestUnigramOfBothFiles(t *testing.T) {
	pieces := []string{"<s>", "<pad>", "</s>", "<unk>", "▁", "a", "b", "▁a", "ab", "▁ab", "ba", "▁ba", "abb", ",", "é", "▁é", "1", "▁the", "the", "t", "h", "e"}
	scores, types := make([]float32, len(pieces)), make([]int32, len(pieces))
	var vocab [][2]any
	for i, p := range pieces {
		if i >= 4 {
			scores[i], types[i] = -float32(2+(i*7)%11)-float32(len(p))/8, normal
		} else {
			types[i] = control
		}
		vocab = append(vocab, [2]any{p, scores[i]})
	}
	types[3] = unknown
	var added []string
	for i, p := range pieces[:4] {
		added = append(added, fmt.Sprintf(`{"id":%d,"content":%q,"special":true,"normalized":false}`, i, p))
	}
	list, err := json.Marshal(vocab)
	require.NoError(t, err)
	charsmap := charsmapOf('\n', " ")
	of := func(kind int, name string) string {
		return fmt.Sprintf(`{%q:{"id":%q,"type_id":0}}`, []string{"SpecialToken", "Sequence"}[kind], name)
	}
	hub := fromText(t, `{"added_tokens":[`+strings.Join(added, ",")+`],"normalizer":{"type":"Precompiled","precompiled_charsmap":"`+base64.StdEncoding.EncodeToString(charsmap)+`"},
		"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace","replacement":"▁","add_prefix_space":true}]},
		"post_processor":{"type":"TemplateProcessing","single":[`+of(0, "<s>")+`,`+of(1, "A")+`,`+of(0, "</s>")+`],
			"pair":[`+strings.Join([]string{of(0, "<s>"), of(1, "A"), of(0, "</s>"), of(0, "</s>"), of(1, "B"), of(0, "</s>")}, ",")+`],
			"special_tokens":{"<s>":{"id":"<s>","ids":[0],"tokens":["<s>"]},"</s>":{"id":"</s>","ids":[2],"tokens":["</s>"]}}},
		"decoder":{"type":"Metaspace","replacement":"▁","add_prefix_space":true},"model":{"type":"Unigram","unk_id":3,"vocab":`+string(list)+`}}`, token.Config{})
	file, err := keys{
		"tokenizer.ggml.model": "t5", "tokenizer.ggml.pre": "default", "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.scores": scores, "tokenizer.ggml.token_type": types,
		"tokenizer.ggml.bos_token_id": uint32(0), "tokenizer.ggml.eos_token_id": uint32(2), "tokenizer.ggml.unknown_token_id": uint32(3), "tokenizer.ggml.padding_token_id": uint32(1),
		"tokenizer.ggml.seperator_token_id": uint32(2), "tokenizer.ggml.cls_token_id": uint32(0), "tokenizer.ggml.add_bos_token": true, "tokenizer.ggml.add_eos_token": true,
		"tokenizer.ggml.add_space_prefix": true, "tokenizer.ggml.remove_extra_whitespaces": true, "tokenizer.ggml.precompiled_charsmap": charsmap,
		"tokenizer.ggml.token_type_count": uint32(1),
	}.load(t)
	require.NoError(t, err)
	texts := []string{"", " ", "  \n ", "ab", " ab ", "the  abba\n\nthe", "??", "a??b", "? ?", "🙂", "a 🙂🙂 b", "é,1", "\nab", "ab\n", "<s>", "a </s> b", "the</s>"}
	random := testutil.Random(t)
	letters := []string{"a", "b", "ab", " ", "  ", "\n", "?", "é", "the", "🙂", ",", "1"}
	for range testutil.Effort(300, 100000) {
		var b strings.Builder
		for range random.IntN(12) {
			b.WriteString(letters[random.IntN(len(letters))])
		}
		texts = append(texts, b.String())
	}
	for _, text := range texts {
		for _, o := range []token.EncodeOptions{{}, {AddSpecial: true}} {
			require.Equal(t, testutil.Must(hub.Encode(text, o)), testutil.Must(file.Encode(text, o)), "%q", text)
		}
	}
	between, behind := file.Pair()
	hubBetween, hubBehind := hub.Pair()
	require.Equal(t, hubBetween, between)
	require.Equal(t, hubBehind, behind)
}
