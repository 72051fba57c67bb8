package token_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/text/token"
)

// keys is the metadata of a small vocabulary. Each case changes some of its entries.
type keys map[string]any

func (k keys) with(changes keys) keys {
	all := keys{}
	for _, m := range []keys{k, changes} {
		for key, value := range m {
			all[key] = value
		}
	}
	return all
}

// load writes the metadata as a GGUF file and builds a tokenizer from it.
func (k keys) load(t *testing.T) (*token.Tokenizer, error) {
	t.Helper()
	var list []gguf.KV
	for key, value := range k {
		if value != nil {
			list = append(list, gguf.KV{Key: key, Value: value})
		}
	}
	fsys := vfs.NewMem()
	require.NoError(t, gguf.Write(fsys, "v.gguf", list, nil))
	file, err := gguf.Open(fsys, "v.gguf")
	require.NoError(t, err)
	defer file.Close()
	return token.FromGGUF(file.Meta())
}

const (
	normal, unknown, control, user, unused, byteToken int32 = 1, 2, 3, 4, 5, 6
)

// scoredKeys is a SentencePiece vocabulary with these ids: 0 <unk> 1 <s> 2 </s> 3
// <0x0A> 4 <0xC3> 5 <0xA9> 6 ▁ 7 a 8 b 9 ▁a 10 ab 11 ▁ab 12 [x] 13 "cd" 14 <|end|>
var scoredKeys = keys{
	"tokenizer.ggml.model": "llama",
	"tokenizer.ggml.tokens": []string{
		"<unk>", "<s>", "</s>", "<0x0A>", "<0xC3>", "<0xA9>", "▁", "a", "b", "▁a", "ab", "▁ab", "[x]", "cd", "<|end|>",
	},
	"tokenizer.ggml.scores": []float32{0, 0, 0, 0, 0, 0, -10, -11, -12, -2, -1, -3, 0, -5, 0},
	"tokenizer.ggml.token_type": []int32{
		unknown, control, control, byteToken, byteToken, byteToken,
		normal, normal, normal, normal, normal, normal, user, normal, normal,
	},
	"tokenizer.ggml.bos_token_id": uint32(1),
	"tokenizer.ggml.eos_token_id": uint32(2),
}

func TestScoredPieces(t *testing.T) {
	tok, err := scoredKeys.load(t)
	require.NoError(t, err)
	assert.Equal(t, "SPM", tok.Family())
	for _, c := range []struct {
		text string
		want []int32
	}{
		{"ab", []int32{11}},
		{"a b", []int32{9, 6, 8}},
		{" ab", []int32{6, 11}},
		{"aé\nb", []int32{9, 4, 5, 3, 8}},
		{"acd", []int32{9, 13}}, // neither c nor d is a piece
		{"c", []int32{6, 0}},    // neither a piece nor a byte token
		{"a[x]b", []int32{9, 12, 6, 8}},
		{"</s>", []int32{6, 0, 0, 0, 0}},
		{"", nil},
	} {
		assert.Equal(t, c.want, testutil.Must(tok.Encode(c.text, token.EncodeOptions{})), "%q", c.text)
	}
	assert.Equal(t, []int32{1, 9, 2, 11}, testutil.Must(tok.Encode("a</s>ab", token.EncodeOptions{AddSpecial: true, AllowSpecial: true})))
	assert.Equal(t, []int32{1}, testutil.Must(tok.Encode("", token.EncodeOptions{AddSpecial: true})))
	assert.Equal(t, []int32{2, 14}, tok.EOS(), "the tokenizer recognizes <|end|> by its name")
	assert.True(t, tok.IsSpecial(14))
	text, err := tok.Decode([]int32{11, 6, 8})
	require.NoError(t, err)
	assert.Equal(t, "ab b", text)
}

func TestScoredOptions(t *testing.T) {
	tok, err := scoredKeys.with(keys{
		"tokenizer.ggml.add_space_prefix": false, "tokenizer.ggml.add_bos_token": false,
		"tokenizer.ggml.add_eos_token": true, "general.name": "Phi-3 Mini",
	}).load(t)
	require.NoError(t, err)
	assert.Equal(t, []int32{10, 2}, testutil.Must(tok.Encode("ab", token.EncodeOptions{AddSpecial: true})))
	assert.Equal(t, []int32{2, 7}, testutil.Must(tok.Encode("</s> \na", token.EncodeOptions{AllowSpecial: true})),
		"Phi-3 removes the white space after its special tokens")
	text, err := tok.Decode([]int32{11})
	require.NoError(t, err)
	assert.Equal(t, " ab", text)
}

// TestMergesOfPieces encodes with a list of merges of SentencePiece's pieces, as the GGUF files of Gemma 4 have them: like
// the tokenizer.json of the same vocabulary.
func TestMergesOfPieces(t *testing.T) {
	var file struct {
		Added []struct {
			ID      int
			Special bool
		} `json:"added_tokens"`
		Model struct {
			Vocab  map[string]int
			Merges [][2]string
		}
	}
	testutil.ReadJSON(t, filepath.Join("testdata", "gemma", "tokenizer.json"), &file)
	tokens, types := make([]string, len(file.Model.Vocab)), make([]int32, len(file.Model.Vocab))
	for piece, id := range file.Model.Vocab {
		tokens[id], types[id] = piece, normal
		if strings.HasPrefix(piece, "<0x") {
			types[id] = byteToken
		}
	}
	for _, a := range file.Added {
		if types[a.ID] = user; a.Special {
			types[a.ID] = control
		}
	}
	types[0] = unknown
	var merges []string
	for _, m := range file.Model.Merges {
		merges = append(merges, m[0]+" "+m[1])
	}
	tok, err := keys{
		"tokenizer.ggml.model": "gemma4", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types, "tokenizer.ggml.merges": merges,
		"tokenizer.ggml.bos_token_id": uint32(1), "tokenizer.ggml.eos_token_id": uint32(2), "tokenizer.ggml.unknown_token_id": uint32(0),
		"tokenizer.ggml.add_space_prefix": false,
	}.load(t)
	require.NoError(t, err)
	var want struct{ Cases []referenceCase }
	testutil.ReadJSON(t, filepath.Join("testdata", "gemma", "expected.json"), &want)
	checkReference(t, tok, want.Cases)
	require.Equal(t, []int32{1}, testutil.Must(tok.Encode("", token.EncodeOptions{AddSpecial: true})), "a text begins with BOS by default")
	_, err = keys{"tokenizer.ggml.model": "gemma4", "tokenizer.ggml.tokens": []string{"a"}}.load(t)
	require.ErrorContains(t, err, "tokenizer.ggml.merges\": is missing")
}

// pairKeys is a byte-level vocabulary.
var pairKeys = keys{
	"tokenizer.ggml.model":      "gpt2",
	"tokenizer.ggml.pre":        "gpt-2",
	"tokenizer.ggml.tokens":     []string{"a", "b", "Ġ", "ab", "Ġab", "abb", "<|x|>", "1", "é"},
	"tokenizer.ggml.token_type": []int32{normal, normal, normal, normal, normal, normal, control, normal, user},
	"tokenizer.ggml.merges":     []string{"a b", "Ġ ab"},
}

func TestPairs(t *testing.T) {
	tok, err := pairKeys.load(t)
	require.NoError(t, err)
	for _, c := range []struct {
		text string
		want []int32
	}{
		{"ab ab", []int32{3, 4}},
		{"abb", []int32{3, 1}}, // no merge results in abb
		{"a1é", []int32{0, 7, 8}},
		{"<|x|>", nil}, // the vocabulary lacks all its letters
	} {
		assert.Equal(t, c.want, testutil.Must(tok.Encode(c.text, token.EncodeOptions{})), "%q", c.text)
	}
	text, err := tok.Decode([]int32{4, 8, 6})
	require.NoError(t, err)
	assert.Equal(t, " abé<|x|>", text, "added tokens decode unchanged")

	llama, err := pairKeys.with(keys{"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.bos_token_id": uint32(6)}).load(t)
	require.NoError(t, err)
	assert.Equal(t, []int32{6, 5}, testutil.Must(llama.Encode("abb", token.EncodeOptions{AddSpecial: true})),
		"this pre-tokenizer ignores merges for known words and adds a BOS token by default")
}

func TestUnigramMetadata(t *testing.T) {
	tok, err := keys{
		"tokenizer.ggml.model":                    "t5",
		"tokenizer.ggml.tokens":                   []string{"<pad>", "</s>", "<unk>", "▁", "▁a", "a", "b", "ab", "[x]"},
		"tokenizer.ggml.scores":                   []float32{0, 0, 0, -2, -3, -4, -4, -7, 0},
		"tokenizer.ggml.token_type":               []int32{control, control, unknown, normal, normal, normal, normal, normal, user},
		"tokenizer.ggml.eos_token_id":             uint32(1),
		"tokenizer.ggml.unknown_token_id":         uint32(2),
		"tokenizer.ggml.add_space_prefix":         true,
		"tokenizer.ggml.precompiled_charsmap":     charsmapOf('B', "b"),
		"tokenizer.ggml.remove_extra_whitespaces": true,
	}.load(t)
	require.NoError(t, err)
	assert.Equal(t, "Unigram", tok.Family())
	assert.Equal(t, []int32{4, 6, 1}, testutil.Must(tok.Encode("ab", token.EncodeOptions{AddSpecial: true})))
	assert.Equal(t, []int32{4, 6, 4}, testutil.Must(tok.Encode("  aB   a ", token.EncodeOptions{})))
	assert.Equal(t, []int32{4, 2, 5}, testutil.Must(tok.Encode("a??a", token.EncodeOptions{})), "adjacent unknown characters become one token")
	text, err := tok.Decode([]int32{4, 6, 4})
	require.NoError(t, err)
	assert.Equal(t, "ab a", text)
}

// charsmapOf builds a character map with one replacement.
func charsmapOf(from byte, to string) []uint8 {
	units := make([]uint32, 256)
	units[0] = 1 << 10                                 // offset of the root's children
	leaf := uint32(1) ^ uint32(from)                   // position of the child for this byte
	units[leaf] = uint32(from) | 1<<8 | (leaf^255)<<10 // its value is at 255
	units[255] = 1 << 31
	raw := []uint8{0, 4, 0, 0} // 1024 bytes of units
	for _, u := range units {
		raw = append(raw, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
	}
	return append(append(raw, to...), 0)
}

// TestInvalidMetadata has one case per kind of invalid metadata.
func TestInvalidMetadata(t *testing.T) {
	for _, c := range []struct {
		name    string
		base    keys
		changes keys
		kind    error
		text    string
	}{
		{"no model", scoredKeys, keys{"tokenizer.ggml.model": nil}, store.ErrFormat, "has no tokenizer"},
		{"another model", scoredKeys, keys{"tokenizer.ggml.model": "rwkv"}, store.ErrUnsupported, `tokenizer.ggml.model: not supported: tokenizer model "rwkv"`},
		{"model of wrong type", scoredKeys, keys{"tokenizer.ggml.model": uint32(1)}, store.ErrFormat, "tokenizer.ggml.model"},
		{"unknown pre-tokenizer", pairKeys, keys{"tokenizer.ggml.pre": "odd"}, store.ErrUnsupported, `"odd"`},
		{"no tokens", scoredKeys, keys{"tokenizer.ggml.tokens": nil}, store.ErrFormat, "tokenizer.ggml.tokens"},
		{"duplicate token", pairKeys, keys{"tokenizer.ggml.tokens": []string{"a", "a"}, "tokenizer.ggml.token_type": nil}, store.ErrFormat, "same piece"},
		{"scores typed int8", scoredKeys, keys{"tokenizer.ggml.scores": make([]int8, 15)}, store.ErrFormat, "tokenizer.ggml.scores"},
		{"scores missing", scoredKeys, keys{"tokenizer.ggml.scores": nil}, store.ErrFormat, "tokenizer.ggml.scores"},
		{"too few scores", scoredKeys, keys{"tokenizer.ggml.scores": make([]float32, 14)}, store.ErrFormat, "14 entries for 15"},
		{"overlong piece", scoredKeys, keys{
			"tokenizer.ggml.tokens": []string{strings.Repeat("a", 2000)}, "tokenizer.ggml.token_type": nil,
			"tokenizer.ggml.scores": []float32{0}, "tokenizer.ggml.bos_token_id": nil, "tokenizer.ggml.eos_token_id": nil,
		}, store.ErrUnsupported, "token 0 with 2000 bytes"},
		{"NaN score", pairKeys, keys{
			"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": []string{"a"}, "tokenizer.ggml.token_type": nil,
			"tokenizer.ggml.scores": []float32{float32(math.NaN())},
		}, store.ErrFormat, "is NaN"},
		{"too few types", scoredKeys, keys{"tokenizer.ggml.token_type": []int32{1}}, store.ErrFormat, "1 entries for 15"},
		{"too many types", pairKeys, keys{"tokenizer.ggml.token_type": make([]int32, 8), "tokenizer.ggml.tokens": []string{"a"}}, store.ErrFormat, "8 entries for 1"},
		{"type 7", pairKeys, keys{"tokenizer.ggml.token_type": []int32{7}, "tokenizer.ggml.tokens": []string{"a"}}, store.ErrFormat, "unknown type 7"},
		{"bos out of range", scoredKeys, keys{"tokenizer.ggml.bos_token_id": uint32(15)}, store.ErrFormat, "bos_token_id"},
		{"eos out of range", scoredKeys, keys{"tokenizer.ggml.eos_token_id": uint32(1 << 31)}, store.ErrFormat, "eos_token_id"},
		{"eos negative", scoredKeys, keys{"tokenizer.ggml.eos_token_id": int32(-1)}, store.ErrFormat, "eos_token_id"},
		{"merges missing", pairKeys, keys{"tokenizer.ggml.merges": nil}, store.ErrFormat, "tokenizer.ggml.merges"},
		{"merge result missing", pairKeys, keys{"tokenizer.ggml.merges": []string{"b a"}}, store.ErrFormat, "not in the vocabulary"},
		{"merge of one piece", pairKeys, keys{"tokenizer.ggml.merges": []string{"ab"}}, store.ErrFormat, "does not consist of two pieces"},
		{"empty merge", pairKeys, keys{"tokenizer.ggml.merges": []string{""}}, store.ErrFormat, "does not consist of two pieces"},
		{"byte token with another spelling", pairKeys, keys{"tokenizer.ggml.token_type": []int32{6}, "tokenizer.ggml.tokens": []string{"a"}}, store.ErrFormat, "is not of the form <0x41>"},
		{"flag of wrong type", scoredKeys, keys{"tokenizer.ggml.add_bos_token": "yes"}, store.ErrFormat, "add_bos_token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.base.with(c.changes).load(t)
			require.ErrorIs(t, err, c.kind)
			assert.ErrorContains(t, err, c.text)
		})
	}
}
