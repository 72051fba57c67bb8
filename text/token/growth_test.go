package token_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/text/token"
)

// sequence returns a component that applies n equal components in order.
func sequence(member string, n int, component string) string {
	return `{"type":"Sequence","` + member + `":[` + strings.TrimSuffix(strings.Repeat(component+",", n), ",") + `]}`
}

// TestTokenizerThatGrowsText checks that files of a few kilobytes cannot make a text or a
// piece exponentially longer.
func TestTokenizerThatGrowsText(t *testing.T) {
	double := `{"type":"Replace","pattern":{"String":"a"},"content":"aa"}`
	doubleRegex := `{"type":"Replace","pattern":{"Regex":"a"},"content":"aa"}`
	for _, c := range []struct{ name, extra, field string }{
		{"normalizer", `,"normalizer":` + sequence("normalizers", 40, double), "normalizer"},
		{"nested normalizers", `,"normalizer":` + sequence("normalizers", 2, sequence("normalizers", 20, double)), "normalizer"},
		{"regular expression", `,"normalizer":` + sequence("normalizers", 40, doubleRegex), "normalizer"},
		{"one long replacement", `,"normalizer":{"type":"Replace","pattern":{"String":"a"},"content":"` + strings.Repeat("b", 2049) + `"}`, "normalizer"},
		{"long prefix", `,"normalizer":{"type":"Prepend","prepend":"` + strings.Repeat("b", 2048) + `"}`, "normalizer"},
		{"normalized added token", `,"added_tokens":[{"id":3,"content":"aaa","normalized":true}],"normalizer":` + sequence("normalizers", 40, double), "normalizer"},
		{"normalizer and pre-tokenizer", `,"normalizer":` + sequence("normalizers", 10, double) + `,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true}`, "pre_tokenizer"},
		{"pre-tokenizer", `,"pre_tokenizer":` + sequence("pretokenizers", 40, `{"type":"ByteLevel","use_regex":false}`), "pre_tokenizer"},
		{"decoder", `,"decoder":` + sequence("decoders", 40, double), "decoder"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := token.FromJSON([]byte(bpeJSON(abVocab, "", c.extra)), token.Config{})
			var formatError *store.FormatError
			require.ErrorAs(t, err, &formatError)
			assert.Equal(t, c.field, formatError.Field)
			assert.Contains(t, formatError.Reason, "more than 2048 times as long")
			assert.ErrorIs(t, err, store.ErrUnsupported)
		})
	}
}

// TestCharsmapGrowth checks that the growth of a character map counts the length of the
// replaced sequence.
func TestCharsmapGrowth(t *testing.T) {
	load := func(replacement string, others string) error {
		charsmap := base64.StdEncoding.EncodeToString(charsmapOf('B', replacement))
		_, err := token.FromJSON([]byte(`{"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-1]]},"normalizer":{"type":"Sequence","normalizers":[`+
			`{"type":"Precompiled","precompiled_charsmap":"`+charsmap+`"}`+others+`]}}`), token.Config{})
		return err
	}
	require.NoError(t, load(strings.Repeat("b", 186), `,{"type":"NFKC"}`))
	assert.ErrorContains(t, load(strings.Repeat("b", 187), `,{"type":"NFKC"}`), "more than 2048 times as long")
	lower, form := `{"type":"Lowercase"}`, `{"type":"NFKD"}`
	require.NoError(t, load(strings.Repeat("b", 11), ","+form+","+lower), "as ALBERT's")
}
