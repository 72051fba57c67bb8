package token_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/internal/testutil/hubmodel"
	"github.com/llmrun/llmrun/store/gguf"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/text/token"
)

// referenceCase is a text and the recorded output of the reference implementation.
type referenceCase struct {
	Text    string
	IDs     []int32
	Tokens  []string
	Decoded string
}

func checkReference(t *testing.T, tok *token.Tokenizer, cases []referenceCase) {
	t.Helper()
	require.NotEmpty(t, cases)
	for _, c := range cases {
		ids := testutil.Must(tok.Encode(c.Text, token.EncodeOptions{AllowSpecial: true}))
		assert.Equal(t, c.IDs, append([]int32{}, ids...), "%q", c.Text)
		pieces := []string{}
		for _, id := range c.IDs {
			piece, ok := tok.Piece(id)
			assert.True(t, ok)
			pieces = append(pieces, piece)
		}
		assert.Equal(t, c.Tokens, pieces, "%q", c.Text)
		text, err := tok.Decode(c.IDs)
		require.NoError(t, err)
		assert.Equal(t, c.Decoded, text, "%q", c.Text)
	}
}

func TestFixtures(t *testing.T) {
	for _, family := range []string{"gpt2", "llama3", "qwen2", "spm", "gemma"} {
		t.Run(family, func(t *testing.T) {
			var want struct{ Cases []referenceCase }
			testutil.ReadJSON(t, filepath.Join("testdata", family, "expected.json"), &want)
			checkReference(t, fixture(t, family), want.Cases)
		})
	}
}

// fixture loads one of the small tokenizers.
func fixture(tb testing.TB, family string) *token.Tokenizer {
	tb.Helper()
	return fromFile(tb, filepath.Join("testdata", family, "tokenizer.json"), token.Config{})
}

func fromFile(tb testing.TB, path string, config token.Config) *token.Tokenizer {
	tb.Helper()
	data, err := os.ReadFile(path)
	require.NoError(tb, err)
	tok, err := token.FromJSON(data, config)
	require.NoError(tb, err)
	return tok
}

func TestDemoModel(t *testing.T) {
	dir := hubmodel.Dir(testutil.Root(t))
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return data
	}
	tok := fromFile(t, filepath.Join(dir, "tokenizer.json"), token.Config{
		Tokenizer: read("tokenizer_config.json"), SpecialMap: read("special_tokens_map.json"),
		Generation: read("generation_config.json"), Model: read("config.json"),
	})
	var want struct{ Encode []referenceCase }
	testutil.ReadJSON(t, testutil.Shared(t, "demo", "reference.json"), &want)
	checkReference(t, tok, want.Encode)

	bos, ok := tok.BOS()
	assert.True(t, ok)
	assert.EqualValues(t, 0, bos)
	assert.Equal(t, []int32{0, 2}, tok.EOS())
	assert.Equal(t, testutil.Must(tok.Encode("Hi", token.EncodeOptions{})),
		testutil.Must(tok.Encode("Hi", token.EncodeOptions{AddSpecial: true})), "add_bos_token is false")
}

// TestVocabularies compares published vocabularies, read from GGUF metadata, with the
// recorded output of the reference implementation.
func TestVocabularies(t *testing.T) {
	for _, name := range []string{"llama-spm", "phi-3", "gpt-2", "deepseek-llm"} {
		t.Run(name, func(t *testing.T) {
			tok := vocabulary(t, name)
			path := testutil.Shared(t, "vocab", name+".gguf")
			const separator = "\n__ggml_vocab_test__\n"
			texts := strings.Split(strings.TrimSuffix(readText(t, path+".inp"), separator), separator)
			lines := strings.Split(strings.TrimSuffix(readText(t, path+".out"), "\n"), "\n")
			require.Equal(t, len(texts), len(lines))
			for i, text := range texts {
				want := []int32{}
				for _, field := range strings.Fields(lines[i]) {
					id, err := strconv.Atoi(field)
					require.NoError(t, err)
					want = append(want, int32(id))
				}
				got := append([]int32{}, testutil.Must(tok.Encode(text, token.EncodeOptions{}))...)
				assert.Equal(t, want, got, "case %d: %q", i, text)
				back, err := tok.Decode(got)
				require.NoError(t, err)
				assert.Equal(t, text, back)
			}
		})
	}
}

// vocabulary loads one of the published vocabularies.
func vocabulary(tb testing.TB, name string) *token.Tokenizer {
	tb.Helper()
	file, err := gguf.Open(vfs.OS(), testutil.Shared(tb, "vocab", name+".gguf"))
	require.NoError(tb, err)
	defer file.Close()
	tok, err := token.FromGGUF(file.Meta())
	require.NoError(tb, err)
	return tok
}

func readText(tb testing.TB, path string) string {
	tb.Helper()
	data, err := os.ReadFile(path)
	require.NoError(tb, err)
	return string(data)
}
